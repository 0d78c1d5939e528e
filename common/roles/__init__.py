"""The processes of a run, one file per role."""
