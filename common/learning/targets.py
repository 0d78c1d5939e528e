"""Updates of target networks."""

from collections.abc import Sequence

import tensorflow as tf


def copy(source: Sequence[tf.Variable], target: Sequence[tf.Variable]) -> None:
    """Copies the values of `source` to `target`."""
    for s, t in zip(source, target, strict=True):
        t.assign(s)


def copy_periodically(
    step: tf.Tensor, period: int, source: Sequence[tf.Variable], target: Sequence[tf.Variable]
) -> None:
    """Copies `source` to `target` if `step` is a multiple of `period` (D4PG algorithm 1, line 9).

    It selects values instead of branching, so that XLA needs no conditional around variables.
    """
    due = tf.equal(step % period, 0)
    for s, t in zip(source, target, strict=True):
        t.assign(tf.where(due, s, t))


def copy_in_branch(
    step: tf.Tensor, period: int, source: Sequence[tf.Variable], target: Sequence[tf.Variable]
) -> None:
    """Copies as `copy_periodically` does, but in a branch, for networks that XLA does not compile.

    The steps between two copies then write nothing.
    """
    tf.cond(tf.equal(step % period, 0), lambda: copy(source, target), lambda: None)


def move(source: Sequence[tf.Variable], target: Sequence[tf.Variable], rate: float) -> None:
    """Moves `target` towards `source`: t <- (1 - rate) t + rate s (DDPG's soft update)."""
    for s, t in zip(source, target, strict=True):
        t.assign((1.0 - rate) * t + rate * s)
