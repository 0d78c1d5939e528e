"""Learners: updates in graph, checkpoints, and the process around them."""
