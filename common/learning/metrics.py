"""Reduction of a metric over several updates."""

from collections.abc import Sequence


def is_maximum(name: str) -> bool:
    """Returns whether a metric is reduced to its maximum (`*_max`, `num_*`), not to its mean."""
    return name.endswith("_max") or name.startswith("num_")


def reduce(name: str, values: Sequence[float]) -> float:
    """Returns the maximum or the mean of a metric's values, of which there is at least one."""
    return max(values) if is_maximum(name) else sum(values) / len(values)
