"""Interfaces of agents, and code that agents of several papers share."""
