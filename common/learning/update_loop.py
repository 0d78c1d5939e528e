"""Several updates in one call."""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from common.learning.metrics import is_maximum
from common.replay import memory as memory_lib

Nest = Any
Metrics = dict[str, tf.Tensor]


class Batch(NamedTuple):
    """What one update learns from: B items drawn from replay.

    steps: nest of [B, ...], or [B, T, ...] for sequences.
    probabilities: [B] float32, with which each item was drawn.
    size: float32 scalar, the number of items in the memory (R in D4PG's algorithm 1).
    """

    steps: Nest
    probabilities: tf.Tensor
    size: tf.Tensor


Update = Callable[[Batch], tuple[tf.Tensor, Metrics]]


class UpdateLoop:
    """Runs `num_updates` updates on as many batches in one graph call.

    One XLA program around all of them saves the launch of every update but the first, and lets XLA
    keep what they share (D4PG's nets on two cores: a quarter faster than one by one). Convolutions
    are slower under XLA on a CPU: `jit_compile=False` there.
    """

    def __init__(self, update: Update, num_updates: int, batch_size: int, jit_compile: bool):
        """Wraps `update`, which returns priorities [B] and scalar metrics.

        The metrics are averaged over the updates of a call; those named `*_max` are maxima.
        """
        self._update = update
        self.num_updates = num_updates
        """Updates in one call."""
        self._batch_size = batch_size
        self._run = tf.function(self._loop, jit_compile=jit_compile)

    @property
    def num_samples(self) -> int:
        """Items that one call learns from."""
        return self.num_updates * self._batch_size

    def __call__(self, sample: memory_lib.Sample) -> tuple[tf.Tensor, Metrics]:
        """Learns from `num_samples` items, in their order.

        Returns:
          Priorities [num_samples] float32 and metrics.
        """
        return self._run(sample.steps, sample.masses, sample.total_mass, sample.count)

    def _loop(self, steps: Nest, masses, total_mass, count) -> tuple[tf.Tensor, Metrics]:
        n, b = self.num_updates, self._batch_size
        probabilities = tf.cast(masses / total_mass, tf.float32)
        size = tf.cast(count, tf.float32)
        steps, probabilities = tf.nest.map_structure(
            lambda x: tf.reshape(x, [n, b, *x.shape[1:]]), (steps, probabilities)
        )

        def batch(i) -> Batch:
            return Batch(tf.nest.map_structure(lambda x: x[i], steps), probabilities[i], size)

        priorities, metrics = self._update(batch(0))
        if n == 1:
            return priorities, metrics
        all_priorities = tf.TensorArray(tf.float32, n, element_shape=[b]).write(0, priorities)

        def body(i, all_priorities, totals):
            priorities, metrics = self._update(batch(i))
            totals = {name: _accumulate(name, totals[name], metrics[name]) for name in metrics}
            return i + 1, all_priorities.write(i, priorities), totals

        _, all_priorities, totals = tf.while_loop(
            lambda i, *_: i < n,
            body,
            (tf.constant(1), all_priorities, metrics),
            maximum_iterations=n - 1,
        )
        metrics = {name: total if is_maximum(name) else total / n for name, total in totals.items()}
        return tf.reshape(all_priorities.stack(), [n * b]), metrics


def _accumulate(name: str, total: tf.Tensor, value: tf.Tensor) -> tf.Tensor:
    return tf.maximum(total, value) if is_maximum(name) else total + value
