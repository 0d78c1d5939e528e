"""A learner's loop on a replay memory: draw, update, write back."""

import collections
from collections.abc import Callable
from concurrent import futures
from typing import NamedTuple

from absl import logging
import tensorflow as tf

from common.cluster.errors import ClusterError, ServiceUnavailableError
from common.cluster.processes import Patience
from common.learning.update_loop import UpdateLoop
from common.replay import seeds
from common.replay.memory import Sample, Statistics
from common.replay.schedule import Schedule
from common.types import Metrics, Nest

_AWAY = (ServiceUnavailableError, tf.errors.FailedPreconditionError)
"""Errors of a memory that is gone for a while, or has nothing to draw yet."""


class UndecodableReplayError(ClusterError):
    """A stored item cannot be decoded."""


class _Draw(NamedTuple):
    """A sample, and the learner step at which it was drawn."""

    sample: Sample
    step: int


class ReplayLearner:
    """Sample, update, write priorities back (Ape-X algorithm 2), several updates at a time.

    With `prefetch` a background thread draws the samples of the next calls while the updates run.
    The same thread writes the priorities, in a fixed order with the draws. This hides the way to a
    memory in another process; priorities lag by `prefetch` calls more.

    A call's draw follows from the seed, the learner step at which the call begins and the memory's
    contents. Where nothing is drawn ahead, a learner that is cut off and resumed goes on bit for
    bit.

    Args:
      memory: a `ReplayMemory`.
      loop: the updates of one call.
      steps: the learner's own count of updates.
      schedule: says when the learner may sample.
      prefetch: calls to draw ahead; 0 draws when a call begins.
      seed: of the draws, not negative.
      decode: converts sampled steps, in the thread that draws them.
      write_back: gives the memory the outputs of the updates, called with the memory, the keys of
        the items and the outputs.
      removal_period: learner steps from one removal of items above the memory's soft capacity to
        the next; None: the memory keeps to its capacity by itself.
    """

    def __init__(
        self,
        memory,
        loop: UpdateLoop,
        steps: tf.Variable,
        schedule: Schedule,
        prefetch: int = 0,
        seed: int = 0,
        decode: Callable[[Nest], Nest] = lambda steps: steps,
        write_back: Callable = lambda memory, keys, outputs: memory.update_priorities(
            keys, outputs
        ),
        removal_period: int | None = None,
    ):
        self._memory = memory
        self._loop = loop
        self._steps = steps
        self._schedule = schedule
        self._prefetch = prefetch
        self._seed = seed
        self._decode = decode
        self._write_back = write_back
        self._removal_period = removal_period
        self._patience = Patience("no answer from the replay")
        self._worker = futures.ThreadPoolExecutor(1, "replay") if prefetch else None
        self._ahead: collections.deque[futures.Future] = collections.deque()
        self._is_held_up = False
        self._written: futures.Future | None = None
        self.statistics: Statistics | None = None
        """The memory's counters when it was last asked; None before, and while it is gone."""
        self.priority_lag = 0.0
        """Learner steps from the draw of the last call's batches to their new priorities."""

    def step(self) -> Metrics | None:
        """Makes the updates of one call and returns their metrics.

        Returns None if the memory is not filled, has no credit or is gone: wait a little then.

        Raises:
          UndecodableReplayError: a drawn item cannot be decoded.
        """
        begin = int(self._steps)
        draw = self._next(begin)
        if draw is None:
            return None
        outputs, metrics = self._loop(draw.sample)
        end = int(self._steps)
        period = self._removal_period
        removes = period is not None and end // period > begin // period
        self._write(draw.sample.keys, outputs, removes)
        self.priority_lag = float(end - draw.step)
        return metrics

    def flush(self) -> None:
        """Waits until the outputs of the last call are written back.

        Raises:
          Exception: the error of that write.
        """
        if self._written is not None:
            self._written.result()

    def close(self) -> None:
        """Waits for the background thread and ends it."""
        if self._worker is not None:
            self._worker.shutdown(wait=True)

    def _next(self, step: int) -> _Draw | None:
        """Returns the draw for the call that begins at this step."""
        if self._worker is None:
            return self._unless_gone(self._draw, step, step)
        if not self._ahead:
            self._draw_ahead(step, step)
        draw = None
        try:
            draw = self._ahead.popleft().result()
        finally:
            if draw is None:  # those behind it have not drawn either
                futures.wait(self._ahead)
                self._ahead.clear()
                self._is_held_up = False
        if draw is None:
            return None
        while len(self._ahead) < self._prefetch:
            self._draw_ahead(step, step + (1 + len(self._ahead)) * self._loop.num_updates)
        return draw

    def _draw_ahead(self, step: int, begin: int) -> None:
        assert self._worker is not None
        self._ahead.append(self._worker.submit(self._draw_in_order, step, begin))

    def _draw_in_order(self, step: int, begin: int) -> _Draw | None:
        """Draws, unless a call before this one has not got its draw: that one comes first."""
        draw = None
        try:
            if not self._is_held_up:
                draw = self._unless_gone(self._draw, step, begin)
        finally:
            self._is_held_up = draw is None
        return draw

    def _draw(self, step: int, begin: int) -> _Draw | None:
        """Draws at learner step `step` for the call that begins at step `begin`."""
        self.statistics = self._memory.statistics()
        if not self._schedule.may_sample(self.statistics, self._loop.num_samples):
            return None
        seed = seeds.derive(self._seed, begin)
        sample = self._memory.sample(self._loop.num_samples, seed=seed)
        try:
            return _Draw(sample._replace(steps=self._decode(sample.steps)), step)
        except tf.errors.InvalidArgumentError as error:
            raise UndecodableReplayError(
                f"the replay holds an item that cannot be decoded ({error.message.splitlines()[0]})"
                ": start all roles with one version of the program; the run goes on from its last "
                "checkpoint"
            ) from None

    def _write(self, keys: tf.Tensor, outputs: Nest, removes: bool) -> None:
        if self._worker is None:
            self._unless_gone(self._write_now, keys, outputs, removes)
            return
        self.flush()  # raises the error of the former write, one call later
        self._written = self._worker.submit(
            self._unless_gone, self._write_now, keys, outputs, removes
        )

    def _write_now(self, keys: tf.Tensor, outputs: Nest, removes: bool) -> None:
        self._write_back(self._memory, keys, outputs)
        if removes:
            self._memory.remove_to_fit()

    def _unless_gone(self, function: Callable, *args):
        try:
            result = function(*args)
        except _AWAY as error:
            self.statistics = None
            logging.log_every_n_seconds(logging.WARNING, "waiting for the replay: %s", 60, error)
            self._patience.check(error)
            return None
        self._patience.renew()
        return result
