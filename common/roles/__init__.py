"""The processes of a run, a file a role."""
