"""Types shared by all of `common`. This module imports neither TensorFlow nor NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import tensorflow as tf

Nest = Any
"""A tree of arrays or tensors, as the `tree` library and `tf.nest` understand it."""

Metrics = dict[str, "tf.Tensor"]
"""Scalars that an update reports, keyed by their columns in learner.csv."""


class Batch(NamedTuple):
    """B items drawn from replay for one update.

    Attributes:
      steps: nest of [B, ...], or [B, T, ...] for sequences.
      probabilities: [B] float32, the probability with which each item was drawn.
      size: float32 scalar, the number of items in the memory (R in D4PG's algorithm 1).
    """

    steps: Nest
    probabilities: tf.Tensor
    size: tf.Tensor
