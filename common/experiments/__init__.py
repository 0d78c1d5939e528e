"""The papers' figures, tables and claims as lists of runs, their plans and verdicts."""
