"""The layer that the reproductions share."""
