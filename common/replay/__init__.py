"""Replay memories: C++ operations and their Python interface."""
