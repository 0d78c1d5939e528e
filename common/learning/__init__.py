"""Learning: updates in graphs, the loop around them, checkpoints and bookkeeping."""
