"""Sonnet modules, a family per file, and what the actors need to run them without TensorFlow."""
