"""The learner's loop on a replay memory: draw a sample, update, write back."""

import collections
from collections.abc import Callable, Mapping
from concurrent import futures
from typing import NamedTuple, Protocol

from absl import logging
import tensorflow as tf

from common.cluster.errors import ClusterError, ServiceUnavailableError
from common.cluster.processes import Patience
from common.learning import metrics as metrics_lib
from common.replay import seeds
from common.replay.memory import Sample, Statistics
from common.replay.replay_memory import ReplayMemory
from common.replay.schedule import Schedule
from common.types import Batch, Metrics, Nest

_UNAVAILABLE = (ServiceUnavailableError, tf.errors.FailedPreconditionError)
"""Errors of a memory that is gone for a while or still empty."""


class UndecodableReplayError(ClusterError):
    """Error of a stored item that cannot be decoded."""


class _Draw(NamedTuple):
    """A sample and the learner step at which it was drawn."""

    sample: Sample
    step: int


class Loop(Protocol):
    """The updates of a call, made here (`UpdateLoop`) or by a parameter server (`RemoteStep`)."""

    @property
    def num_updates(self) -> int:
        """Updates per call."""

    @property
    def num_samples(self) -> int:
        """Items that a call learns from."""

    def __call__(self, samples: Batch) -> tuple[Nest, Metrics]:
        """Makes the updates; returns their outputs, in the order of the items, and mean metrics."""


class ReplayLearner:
    """Loop of sampling, updating and writing priorities back (Ape-X algorithm 2).

    A call of `step` makes several updates. With `prefetch` above 0, a background thread draws the
    samples of the next calls while the updates run, and also writes the priorities, in a fixed
    order with the draws. This hides the latency of a memory in another process, but makes
    priorities lag by `prefetch` more calls.

    The draw of a call depends only on the seed, the learner step at which the call begins and the
    contents of the memory. Without prefetching, a learner that is stopped and resumed therefore
    continues bit for bit.

    Attributes:
      statistics: counters of the memory when it was last asked; None before, and while it is gone.
      priority_lag: learner steps from the draw of the last call's sample to its new priorities.
      state: nothing, since a draw follows from the learner step.
    """

    state: Mapping[str, tf.Module] = {}

    def __init__(
        self,
        memory: ReplayMemory,
        loop: Loop,
        steps: tf.Variable,
        schedule: Schedule,
        prefetch: int = 0,
        seed: int = 0,
        decode: Callable[[Nest], Nest] = lambda steps: steps,
        removal_period: int | None = None,
        sequence_length: int = 0,
    ):
        """Prepares the loop.

        Args:
          memory: the memory to learn from.
          loop: the updates of one call.
          steps: the learner's own count of updates.
          schedule: limits how far the learner may run ahead of the actors.
          prefetch: number of calls to draw ahead; 0 draws when a call begins.
          seed: of the draws, not negative.
          decode: converts sampled steps; called in the thread that draws them.
          removal_period: learner steps between removals of items above the memory's soft capacity;
            None if the memory enforces its capacity itself.
          sequence_length: T, steps of an item: samples are [B, T, ...]; 0: items are one step, and
            samples [B, ...].
        """
        self._memory = memory
        self._loop = loop
        self._steps = steps
        self._schedule = schedule
        self._prefetch = prefetch
        self._seed = seed
        self._decode = decode
        self._removal_period = removal_period
        self._sequence_length = sequence_length
        self._patience = Patience("no answer from the replay")
        self._worker = futures.ThreadPoolExecutor(1, "replay") if prefetch else None
        self._ahead: collections.deque[futures.Future] = collections.deque()
        self._is_held_up = False
        self._written: futures.Future | None = None
        self.statistics: Statistics | None = None
        self.priority_lag = 0.0

    def step(self) -> Metrics | None:
        """Makes the updates of one call.

        Returns:
          The metrics of the updates. None if there were none, because the memory is not filled yet,
          is gone, or the actors have to add more first: wait a moment before the next call.

        Raises:
          UndecodableReplayError: a drawn item cannot be decoded.
          DivergedError: an update is not finite.
        """
        begin = int(self._steps)
        draw = self._next(begin)
        if draw is None:
            return None
        outputs, metrics = self._loop(draw.sample.batch())
        metrics_lib.check_finite(metrics)
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
        """Waits for the background thread to finish its work and ends it."""
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
            if draw is None:  # the later ones have not drawn either
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
        """Draws, unless the draw of an earlier call failed: that call must draw first."""
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
        sample = self._memory.sample(
            self._loop.num_samples, seed=seed, max_length=self._sequence_length
        )
        try:
            return _Draw(sample._replace(steps=self._decode(sample.steps)), step)
        except tf.errors.InvalidArgumentError as error:
            raise UndecodableReplayError(
                f"the replay holds an item that cannot be decoded ({error.message.splitlines()[0]})"
                ": start all roles with the same version of the program; the run continues from "
                "its last checkpoint"
            ) from None

    def _write(self, keys: tf.Tensor, priorities: tf.Tensor, removes: bool) -> None:
        if self._worker is None:
            self._unless_gone(self._write_now, keys, priorities, removes)
            return
        self.flush()  # raises the error of the previous write, one call late
        self._written = self._worker.submit(
            self._unless_gone, self._write_now, keys, priorities, removes
        )

    def _write_now(self, keys: tf.Tensor, priorities: tf.Tensor, removes: bool) -> None:
        self._memory.update_priorities(keys, priorities)
        if removes:
            self._memory.remove_to_fit()

    def _unless_gone(self, function: Callable, *args):
        try:
            result = function(*args)
        except _UNAVAILABLE as error:
            self.statistics = None
            logging.log_every_n_seconds(logging.WARNING, "waiting for the replay: %s", 60, error)
            self._patience.check(error)
            return None
        self._patience.renew()
        return result
