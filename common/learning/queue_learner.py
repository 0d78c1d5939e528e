"""The learner's loop on a queue of unrolls: take a batch, update."""

from collections.abc import Mapping

import tensorflow as tf

from common.learning import metrics as metrics_lib
from common.learning.replay_learner import Loop
from common.replay.memory import Statistics
from common.replay.unroll_queue import UnrollQueue
from common.types import Batch, Metrics


class QueueLearner:
    """Loop of calls, each of which learns from the oldest unrolls of a queue (see `Updates`).

    Attributes:
      statistics: counters of the queue after the last call; None before the first.
      priority_lag: 0, since there are no priorities.
      state: nothing, since the queue starts empty.
    """

    state: Mapping[str, tf.Module] = {}
    priority_lag = 0.0

    def __init__(self, queue: UnrollQueue, loop: Loop):
        """Prepares the loop.

        Args:
          queue: the queue to learn from.
          loop: the updates of one call.

        Raises:
          ValueError: a call needs more unrolls than the queue holds.
        """
        self._num_samples = loop.num_samples
        if queue.capacity is not None and queue.capacity < self._num_samples:
            raise ValueError(
                f"a call of updates takes {self._num_samples} unrolls, but the queue holds "
                f"{queue.capacity}: raise queue_capacity, or lower batch_size or updates_per_call"
            )
        self._queue = queue
        self._loop = loop
        self._size = tf.constant(self._num_samples, tf.float32)
        self._probabilities = tf.fill([self._num_samples], 1.0 / self._num_samples)
        self.statistics: Statistics | None = None

    def step(self) -> Metrics | None:
        """Makes the updates of one call; returns their metrics, or None if unrolls are missing.

        Raises:
          DivergedError: an update is not finite.
        """
        unrolls = self._queue.take(self._num_samples)
        self.statistics = self._queue.statistics()
        if unrolls is None:
            return None
        steps = tf.nest.map_structure(tf.convert_to_tensor, unrolls)
        _, metrics = self._loop(Batch(steps, self._probabilities, self._size))
        metrics_lib.check_finite(metrics)
        return metrics

    def flush(self) -> None:
        """Does nothing: no work is under way between calls."""

    def close(self) -> None:
        """Does nothing."""
