"""A learner that draws what it learns from a replay memory."""

import collections
from collections.abc import Callable
from concurrent import futures
import itertools
from typing import Any

from absl import logging
import tensorflow as tf

from common.cluster.errors import ClusterError
from common.cluster.processes import Patience
from common.learning.draw import Draw, SavedDraws, replace_rows
from common.learning.update_loop import Metrics, UpdateLoop
from common.replay import memory as memory_lib
from common.replay import png, seeds
from common.replay.schedule import Schedule

Nest = Any

_MAX_DECODINGS = 10
"""Of a draw: if items that cannot be decoded are in each of them, they are no exceptions."""


class UndecodableReplayError(ClusterError):
    """Next to nothing that the memory holds can be decoded.

    What has been learned before is whole, and can be stored and saved.
    """


class ReplayLearner:
    """Sample, update, write priorities back (Ape-X algorithm 2), several updates at a time.

    With `prefetch` the samples of the next calls are drawn by a background thread while the updates
    run. The same thread writes the priorities after the draw that was asked for before them, so the
    order is always the same. It hides the way to a memory in another process; priorities lag by
    `prefetch` calls more.

    What a call draws follows from the seed, the learner step that it begins at and the memory's
    contents. Draws that are ahead when a checkpoint is written belong to it (`store`), since the
    priorities that are written next would change them: so a learner that is cut off goes on as if
    it had not been.

    An item that cannot be decoded gets priority 0, so that prioritised replay never draws it again,
    and another one is drawn in its place. Uniform replay may draw it again.
    """

    def __init__(
        self,
        memory,
        loop: UpdateLoop,
        steps: tf.Variable,
        schedule: Schedule,
        prefetch: int,
        retry_on: tuple[type[Exception], ...] = (),
        seed: int = 0,
        decode: Callable[[Nest], Nest] | None = None,
        removal_period: int | None = None,
    ):
        """Makes the loop; nothing is drawn before the first `step`.

        Args:
          memory: `Memory`, `RemoteMemory` or `ShardedMemory`.
          loop: the updates of one call.
          steps: the learner's own count of updates.
          schedule: says when the learner may sample.
          prefetch: calls to draw ahead; 0 draws when it is wanted.
          retry_on: errors of the memory that mean "not now": a replay that is gone for a while.
          seed: of what is drawn, not negative.
          decode: applied to the sampled steps, where they are drawn; raises
            `png.UndecodableImageError` on those that cannot be decoded.
          removal_period: learner steps from one removal of what exceeds the memory's capacity to
            the next; None: the memory does not exceed it.
        """
        self._memory = memory
        self._loop = loop
        self._steps = steps
        self._schedule = schedule
        self._prefetch = prefetch
        self._retry_on = retry_on
        self._patience = Patience("no answer from the replay")
        self._seed = seed
        self._decode = decode
        self._removal_period = removal_period
        self.saved_draws = SavedDraws()
        """For checkpoints: filled by `store`; what the first calls learn from if restored."""
        self._restored: collections.deque[Draw] | None = None  # None: not read yet
        self._undecodable: set[int] = set()
        self._worker = futures.ThreadPoolExecutor(1, "replay") if prefetch else None
        self._ahead: collections.deque[futures.Future] = collections.deque()
        self._is_held_up = False
        self._written: futures.Future | None = None
        self.statistics: memory_lib.Statistics | None = None
        """The memory's counters when it was last asked; None before, and while it is gone."""
        self.priority_lag = 0.0
        """Learner steps from the draw of the last call's batches to their new priorities."""

    def step(self) -> Metrics | None:
        """Does the updates of one call and returns their metrics.

        Returns None if the memory is not filled, has no credit or is gone: wait a little then.

        Raises:
          UndecodableReplayError: there is nothing to learn from.
        """
        begin = int(self._steps)
        draw = self._next(begin)
        if draw is None:
            return None
        priorities, metrics = self._loop(draw.sample)
        end = int(self._steps)
        period = self._removal_period
        removes = period is not None and end // period > begin // period
        self._write(draw.sample.keys, priorities, removes)
        self.priority_lag = float(end - draw.step)
        return metrics

    def store(self) -> None:
        """Waits for what is under way and keeps the draws ahead; call before a save.

        Of those that went wrong, `step` raises the error in its turn.

        Raises:
          Exception: what went wrong when priorities were written.
        """
        if self._written is not None:
            self._written.result()
        futures.wait(self._ahead)
        whole = itertools.takewhile(lambda future: future.exception() is None, self._ahead)
        draws = [draw for draw in (future.result() for future in whole) if draw is not None]
        if self._restored is not None:  # else they are in `saved_draws` as they were
            self.saved_draws.store([*draws, *self._restored])

    def close(self) -> None:
        """Waits for what is under way."""
        if self._worker is not None:
            self._worker.shutdown(wait=True)

    def _next(self, step: int) -> Draw | None:
        """Returns the draw for the call that begins at this step."""
        if self._worker is None:
            return self._draw(step, step)
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
        self._ahead.append(self._worker.submit(self._draw_in_order, step, begin))

    def _draw_in_order(self, step: int, begin: int) -> Draw | None:
        """`_draw`, unless a call before this one has not got its draw: that one comes first."""
        draw = None
        try:
            if not self._is_held_up:
                draw = self._draw(step, begin)
        finally:
            self._is_held_up = draw is None
        return draw

    def _draw(self, step: int, begin: int) -> Draw | None:
        """Draws at learner step `step` for the call that begins at `begin`."""
        return self._unless_gone(self._draw_now, step, begin)

    def _draw_now(self, step: int, begin: int) -> Draw | None:
        self.statistics = self._memory.statistics()
        if self._restored is None:
            self._restored = collections.deque(self.saved_draws.read(self._memory))
        if self._restored:
            draw = self._decoded(self._restored[0], begin)
            self._restored.popleft()  # only what is whole: the memory may be gone until it is
            return draw
        if not self._schedule.may_sample(self.statistics, self._loop.num_samples):
            return None
        seed = seeds.derive(self._seed, begin)
        return self._decoded(
            Draw(self._memory.sample(self._loop.num_samples, seed=seed), step), begin
        )

    def _decoded(self, draw: Draw, begin: int) -> Draw:
        """Returns a draw, for the call that begins at `begin`, with its steps decoded."""
        if self._decode is None:
            return draw
        sample = draw.sample
        for attempt in range(1, _MAX_DECODINGS + 1):
            try:
                return draw._replace(sample=sample._replace(steps=self._decode(sample.steps)))
            except png.UndecodableImageError as error:
                row = next(iter(error.reasons))
                reason = f"{error.message}, key {int(sample.keys[row])}"
                seed = seeds.derive(self._seed, begin, attempt)
                sample = self._without_undecodable(sample, error, seed)
            except tf.errors.InvalidArgumentError as error:
                reason = error.message.splitlines()[0]
                break
        raise UndecodableReplayError(
            f"what the replay holds cannot be decoded ({reason}): start all roles with one "
            "version of the program; the run goes on from its last checkpoint"
        )

    def _without_undecodable(
        self, sample: memory_lib.Sample, error: png.UndecodableImageError, seed: int
    ) -> memory_lib.Sample:
        """Takes the rows that the error names out of the draws, and draws others instead."""
        rows = list(error.reasons)
        keys = tf.gather(sample.keys, rows)
        for key, reason in zip(keys.numpy().tolist(), error.reasons.values()):
            if key not in self._undecodable:
                logging.warning("never learned from: %s of key %d %s", error.column, key, reason)
                self._undecodable.add(key)
        self._memory.update_priorities(keys, tf.zeros(len(rows)))
        return replace_rows(sample, rows, self._memory.sample(len(rows), seed=seed))

    def _write(self, keys: tf.Tensor, priorities: tf.Tensor, removes: bool) -> None:
        if self._worker is None:
            self._unless_gone(self._write_now, keys, priorities, removes)
            return
        if self._written is not None:
            self._written.result()  # raises what went wrong, one call later
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
        except self._retry_on as error:
            self.statistics = None
            logging.log_every_n_seconds(logging.WARNING, "waiting for the replay: %s", 60, error)
            self._patience.check(error)
            return None
        self._patience.renew()
        return result
