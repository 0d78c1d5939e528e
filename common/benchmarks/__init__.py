"""Benchmarks of speed and size, each with a peer or a limit measured in the same run."""
