"""The program of a paper: flags, layouts, the main program, the local run."""
