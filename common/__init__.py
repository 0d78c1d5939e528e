"""What the reproductions share."""
