"""Differences between two configurations."""

import json
from typing import Any

ABSENT = "(absent)"


def differences(there: Any, here: Any) -> dict[str, tuple[str, str]]:
    """Returns {"learner.batch_size": ("256", "64"), ...}: the values there and here, as JSON text.

    Args:
      there: nested mappings, sequences and scalars that JSON can hold.
      here: likewise.
    """
    # Through JSON, so that a tuple equals the list that a file made of it.
    there, here = (_leaves(json.loads(json.dumps(config))) for config in (there, here))
    return {
        key: (there.get(key, ABSENT), here.get(key, ABSENT))
        for key in {**there, **here}
        if there.get(key) != here.get(key)
    }


def _leaves(node: Any, prefix: str = "") -> dict[str, str]:
    """Returns {"learner.batch_size": "256", ...}; NaN equals NaN as JSON text."""
    if not isinstance(node, dict) or (prefix and not node):
        return {prefix: json.dumps(node)}
    leaves = {}
    for key, value in node.items():
        leaves.update(_leaves(value, f"{prefix}.{key}" if prefix else key))
    return leaves
