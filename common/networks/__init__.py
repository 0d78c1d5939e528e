"""Sonnet modules, one family per file, and NumPy twins that actors run without TensorFlow."""
