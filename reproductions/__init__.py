"""A directory a paper."""
