"""A learner that draws what it learns from a replay memory."""

from collections.abc import Callable
from concurrent import futures
from typing import NamedTuple

import tensorflow as tf

from common.learning.update_loop import Metrics, UpdateLoop
from common.replay import memory as memory_lib
from common.replay.schedule import Schedule


class Draw(NamedTuple):
    """A sample, and the learner step at which it was drawn."""

    sample: memory_lib.Sample
    step: int


class ReplayLearner:
    """Sample, update, write priorities back (Ape-X algorithm 2), several updates at a time.

    With `prefetch` the next samples are drawn by a background thread while the updates run, and the
    priorities are written by the same thread after that draw, so the order is always the same. It
    hides the way to a memory in another process; priorities lag by one call more.
    """

    def __init__(
        self,
        memory,
        loop: UpdateLoop,
        steps: tf.Variable,
        schedule: Schedule,
        prefetch: bool,
        retry_on: tuple[type[Exception], ...] = (),
    ):
        """Makes the loop; nothing is drawn before the first `step`.

        Args:
          memory: `Memory` or `RemoteMemory`.
          loop: the updates of one call.
          steps: the learner's own count of updates.
          schedule: says when the learner may sample.
          prefetch: whether to draw ahead.
          retry_on: errors of the memory that mean "not now": a replay that is gone for a while.
        """
        self._memory = memory
        self._loop = loop
        self._steps = steps
        self._schedule = schedule
        self._retry_on = retry_on
        self._worker = futures.ThreadPoolExecutor(1, "replay") if prefetch else None
        self._ahead: futures.Future | None = None
        self._written: futures.Future | None = None
        self.statistics: memory_lib.Statistics | None = None
        """The memory's counters when it was last asked; None before, and while it is gone."""
        self.priority_lag = 0.0
        """Learner steps from the draw of the last call's batches to their new priorities."""

    def step(self) -> Metrics | None:
        """Does the updates of one call and returns their metrics.

        Returns None if the memory is not filled, has no credit or is gone: wait a little then.
        """
        draw = self._next()
        if draw is None:
            return None
        priorities, metrics = self._loop(draw.sample)
        self._write(draw.sample.keys, priorities)
        self.priority_lag = float(int(self._steps) - draw.step)
        return metrics

    def close(self) -> None:
        """Waits for what is under way."""
        if self._worker is not None:
            self._worker.shutdown(wait=True)

    def _next(self) -> Draw | None:
        if self._worker is None:
            return self._draw(int(self._steps))
        ahead = self._ahead or self._worker.submit(self._draw, int(self._steps))
        draw = ahead.result()
        self._ahead = None
        if draw is not None:
            self._ahead = self._worker.submit(self._draw, int(self._steps))
        return draw

    def _draw(self, step: int) -> Draw | None:
        return self._unless_gone(self._draw_now, step)

    def _draw_now(self, step: int) -> Draw | None:
        self.statistics = self._memory.statistics()
        if not self._schedule.may_sample(self.statistics, self._loop.num_samples):
            return None
        return Draw(self._memory.sample(self._loop.num_samples), step)

    def _write(self, keys: tf.Tensor, priorities: tf.Tensor) -> None:
        if self._worker is None:
            self._unless_gone(self._memory.update_priorities, keys, priorities)
            return
        if self._written is not None:
            self._written.result()  # raises what went wrong, one call later
        self._written = self._worker.submit(
            self._unless_gone, self._memory.update_priorities, keys, priorities
        )

    def _unless_gone(self, function: Callable, *args):
        try:
            return function(*args)
        except self._retry_on:
            self.statistics = None
            return None
