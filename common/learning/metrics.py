"""How metrics of several updates become one number."""

from collections.abc import Sequence


def is_maximum(name: str) -> bool:
    """Whether a metric is reported as its largest value (`*_max`); all others are as means."""
    return name.endswith("_max")


def reduce(name: str, values: Sequence[float]) -> float:
    """Reduces the values of one metric, at least one, to what is reported of them."""
    return max(values) if is_maximum(name) else sum(values) / len(values)
