"""Holm's correction for several tests at once."""

from collections.abc import Sequence


def corrected(p_values: Sequence[float]) -> list[float]:
    """Returns the p-values in the same order, each corrected for their number.

    Rejecting those below 0.05 then rejects a true null hypothesis in at most one of twenty
    families, however the tests depend on each other (Holm 1979).
    """
    found, largest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        found[index] = largest
    return found
