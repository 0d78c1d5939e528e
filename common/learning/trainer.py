"""The learner's loop on a store: draw, update, write back (all papers' algorithm)."""

import collections
from collections.abc import Callable, Mapping
from concurrent import futures
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

from absl import logging
import numpy as np
import tensorflow as tf

from common.cluster.errors import ClusterError, ServiceUnavailableError
from common.cluster.processes import Patience
from common.learning import learner
from common.learning.updates import Updates
from common.replay import store as store_lib
from common.replay.store import Counters, RateLimiter, Store
from common.types import Metrics, Nest

_MOST_DAMAGED = 3
"""Draws in a row of which no item can be decoded before a learner gives up."""
_UNAVAILABLE = (ServiceUnavailableError, tf.errors.FailedPreconditionError)
"""Errors of a store that is gone for a while or still empty."""


class UndecodableReplayError(ClusterError):
    """Error of a replay of which nothing can be decoded."""


class _Draw(NamedTuple):
    """The result of `Updates.draw`, and the learner step at which it was made."""

    drawn: Any
    step: int


class Trainer:
    """Loop of drawing, updating and writing back (Ape-X algorithm 2).

    A call of `step` makes several updates. With `prefetch` above 0, a background thread draws for
    the next calls while the updates run, and also writes the outputs, in a fixed order with the
    draws. This hides the latency of a store in another process, but makes priorities lag by
    `prefetch` more calls.

    The draw of a call depends only on the seed, the learner step at which the call begins and the
    contents of the store. Without prefetching, a learner that is stopped and resumed therefore
    continues bit for bit, unless its agent prepares anew (ReF-ER: the scale of rewards).

    Attributes:
      num_samples: items of a call.
      counters: of the store when it was last asked; None before, and while it is gone.
      priority_lag: learner steps from the draw of the last call to its write-back; 0 if the items
        of the store are drawn once, so that nothing is written back.
      state: nothing, since a draw follows from the learner step.
      beside: returns a context in which the updates of a call are made, given the store's counters
        before it. What happens in the context must not change the store.
    """

    state: Mapping[str, tf.Module] = {}

    def __init__(
        self,
        store: Store,
        updates: Updates,
        steps: tf.Variable,
        limiter: RateLimiter,
        *,
        seed: int = 0,
        prefetch: int = 0,
        decode: Callable[[Nest], Nest] | None = None,
        trim_period: int | None = None,
    ):
        """Prepares the loop.

        Args:
          store: the store to learn from.
          updates: of a call.
          steps: the learner's own count of updates.
          limiter: limits how far the learner may run ahead of the actors.
          seed: of the draws, not negative.
          prefetch: number of calls to draw ahead; 0 draws when a call begins.
          decode: converts drawn steps; called in the thread that draws them.
          trim_period: learner steps between removals of items above the store's soft capacity; None
            if the store enforces its capacity itself.
        """
        self._store = store
        self._updates = updates
        self._steps = steps
        self._limiter = limiter
        self._prefetch = prefetch
        self._seed = seed
        self._decode = decode
        self._trim_period = trim_period
        self._patience = Patience("no answer from the replay")
        self._worker = futures.ThreadPoolExecutor(1, "replay") if prefetch else None
        self._ahead: collections.deque[futures.Future] = collections.deque()
        self._is_held_up = False
        self._num_damaged = 0
        self._written: futures.Future | None = None
        self.num_samples = updates.num_samples
        self.counters: Counters | None = None
        self.priority_lag = 0.0
        self.beside: Callable[[Counters], AbstractContextManager] = lambda counters: nullcontext()

    def step(self) -> Metrics | None:
        """Makes the updates of one call.

        Returns:
          The metrics of the updates. None if there were none, because the store is not filled yet,
          is gone, or the actors have to add more first: wait a moment before the next call.

        Raises:
          UndecodableReplayError: none of the items of three draws in a row can be decoded.
          DivergedError: an update is not finite.
          UserError: the updates have not added themselves to the learner's count.
        """
        begin = int(self._steps)
        draw = self._next(begin)
        if draw is None:
            return None
        with self.beside(self.counters or Counters()):
            outputs, metrics = self._updates(draw.drawn)
        learner.check_finite(metrics)
        end, period = int(self._steps), self._trim_period
        if self._updates.are_counted:
            learner.check_steps(begin, end, self._updates.num_updates)
        trims = period is not None and end // period > begin // period
        if not self._store.wire.consumes:
            self._write(draw.drawn, outputs, trims)
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
            self._draw_ahead(step, step + (1 + len(self._ahead)) * self._updates.num_updates)
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
        self.counters = self._store.counters()
        if not self._limiter.may_sample(self.counters, self.num_samples):
            return None
        drawn = self._updates.draw(self._store, store_lib.derive_seed(self._seed, begin))
        if drawn is None:
            return None
        if self._decode is not None:
            drawn = self._decoded(drawn, self._decode)
        return None if drawn is None else _Draw(drawn, step)

    def _decoded(self, drawn: Any, decode: Callable[[Nest], Nest]) -> Any:
        """Decodes the steps of a draw; returns None if none of its items can be decoded.

        Others of the draw stand in for the items that cannot be decoded. Where items stay in the
        store, those get the priority 0.
        """
        size = len(tf.nest.flatten(drawn.steps)[0])
        try:
            decoded = decode(drawn.steps)
        except tf.errors.InvalidArgumentError as error:
            reason = error.message.splitlines()[0]
        else:
            self._num_damaged = 0
            return drawn._replace(steps=decoded)
        whole = _decodable(drawn.steps, decode, 0, size)
        self._num_damaged = 0 if whole else self._num_damaged + 1
        if self._num_damaged == _MOST_DAMAGED:
            raise UndecodableReplayError(
                f"the replay holds items that cannot be decoded ({reason}): start all roles with "
                "the same version of the program; the run continues from its last checkpoint"
            )
        logging.log_every_n_seconds(
            logging.WARNING, "left out of a draw: what cannot be decoded (%s)", 60, reason
        )
        if not self._store.wire.consumes:
            damaged = sorted(set(range(size)) - set(whole))
            self._store.write_back(tf.gather(drawn.token, damaged), tf.zeros([len(damaged)]))
        if not whole:
            return None
        rows = (whole * size)[:size]
        drawn = tf.nest.map_structure(
            lambda column: tf.gather(column, rows) if np.ndim(column) else column, drawn
        )
        return drawn._replace(steps=decode(drawn.steps))

    def _write(self, drawn: Any, outputs: Nest, trims: bool) -> None:
        if self._worker is None:
            self._unless_gone(self._write_now, drawn, outputs, trims)
            return
        self.flush()  # raises the error of the previous write, one call late
        self._written = self._worker.submit(
            self._unless_gone, self._write_now, drawn, outputs, trims
        )

    def _write_now(self, drawn: Any, outputs: Nest, trims: bool) -> None:
        self._updates.write_back(self._store, drawn, outputs)
        if trims:
            self._store.trim()

    def _unless_gone(self, function: Callable, *args):
        try:
            result = function(*args)
        except _UNAVAILABLE as error:
            self.counters = None
            logging.log_every_n_seconds(logging.WARNING, "waiting for the replay: %s", 60, error)
            self._patience.check(error)
            return None
        self._patience.renew()
        return result


def _decodable(steps: Nest, decode: Callable[[Nest], Nest], begin: int, end: int) -> list[int]:
    """Returns which of the items from `begin` to `end` can be decoded, by halving."""
    try:
        decode(tf.nest.map_structure(lambda column: column[begin:end], steps))
        return list(range(begin, end))
    except tf.errors.InvalidArgumentError:
        if end - begin == 1:
            return []
    middle = (begin + end) // 2
    return _decodable(steps, decode, begin, middle) + _decodable(steps, decode, middle, end)
