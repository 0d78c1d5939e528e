"""Speeds and sizes of the parts, beside peers and limits measured in the same run."""
