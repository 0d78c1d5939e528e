"""Errors of a disk that is full."""

import errno

_FULL = (errno.ENOSPC, errno.EDQUOT)
_TEXTS = ("No space left on device", "Disk quota exceeded")


def disk_full(error: Exception) -> str:
    """Returns "disk full: ..." if that is what an error of Python or TensorFlow means, else ""."""
    text = str(error).split("\n", 1)[0].rpartition("}} ")[2]  # without TensorFlow's node
    if getattr(error, "errno", None) in _FULL or any(one in text for one in _TEXTS):
        return f"disk full: {text}"
    return ""
