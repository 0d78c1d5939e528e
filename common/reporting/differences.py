"""Differences between two configurations."""

from collections.abc import Mapping
import json
from typing import Any

ABSENT = "(absent)"
_MOST = 5
_LONGEST = 80


def differences(there: Any, here: Any) -> dict[str, tuple[str, str]]:
    """Returns {"learner.batch_size": ("256", "64"), ...}: the values there and here, as JSON text.

    Args:
      there: nested mappings, sequences and scalars that JSON can hold.
      here: the same.
    """
    # Through JSON, so that a tuple equals the list that a file made of it.
    there, here = (_leaves(json.loads(json.dumps(config))) for config in (there, here))
    return {
        key: (there.get(key, ABSENT), here.get(key, ABSENT))
        for key in {**there, **here}
        if there.get(key) != here.get(key)
    }


def listed(found: Mapping[str, tuple[str, str]], form: str = "{name} {there} -> {here}") -> str:
    """Returns differences as text, those of values on both sides first, five at most.

    Args:
      found: what `differences` returns.
      form: of one difference.
    """
    names = sorted(found, key=lambda name: ABSENT in found[name])
    shown = [
        form.format(name=name, there=found[name][0][:_LONGEST], here=found[name][1][:_LONGEST])
        for name in names[:_MOST]
    ]
    more = [f"and {len(names) - _MOST} more"] if len(names) > _MOST else []
    return ", ".join(shown + more)


def _leaves(node: Any, prefix: str = "") -> dict[str, str]:
    """Returns {"learner.batch_size": "256", ...}; NaN equals NaN as JSON text."""
    if not isinstance(node, dict) or (prefix and not node):
        return {prefix: json.dumps(node)}
    leaves = {}
    for key, value in node.items():
        leaves.update(_leaves(value, f"{prefix}.{key}" if prefix else key))
    return leaves
