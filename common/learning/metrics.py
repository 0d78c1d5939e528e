"""Metrics of updates: their reduction over several ones, and the check that they are finite."""

from collections.abc import Sequence
import math

import tensorflow as tf

from common.reporting.user_error import UserError
from common.types import Metrics


class DivergedError(UserError):
    """Error of an update whose loss or gradients are not finite.

    The run ends with it, since from its last checkpoint it would learn alike.
    """


def is_maximum(name: str) -> bool:
    """Returns whether a metric is reduced to its maximum (`*_max`, `num_*`), not to its mean."""
    return name.endswith("_max") or name.startswith("num_")


def reduce(name: str, values: Sequence[float]) -> float:
    """Returns the maximum or the mean of a metric's values, of which there is at least one."""
    return max(values) if is_maximum(name) else sum(values) / len(values)


def check_finite(metrics: Metrics) -> None:
    """Raises DivergedError, which names the first one, unless all metrics of a call are finite.

    Call it before anything is written back, published or saved.
    """
    for name, value in metrics.items():
        if not math.isfinite(value):
            raise diverged(f"{name} is {float(value)}")


def diverged(what: str) -> DivergedError:
    """Returns the error of updates that are not finite; `what` says which."""
    return DivergedError(
        f"learning has diverged: {what}; try a lower learning rate, or look for extreme rewards "
        "and observations (the last checkpoint is of before)"
    )


def are_finite(metrics: Metrics) -> tf.Tensor:
    """Returns whether all metrics are finite, in a graph."""
    return tf.reduce_all(tf.math.is_finite(tf.stack(list(metrics.values()))))
