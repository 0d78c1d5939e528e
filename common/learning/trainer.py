"""The learner's loop on a store: draw, update and write back, as in all papers."""

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
from common.replay.store import Counters, RateLimiter, Store
from common.types import Metrics, Nest

_MOST_DAMAGED = 3
"""Number of consecutive draws without any decodable item after which a learner gives up."""
_UNAVAILABLE = (ServiceUnavailableError, tf.errors.FailedPreconditionError)
"""Errors of a store that is temporarily unavailable or still empty."""


class UndecodableReplayError(ClusterError):
    """Error of a replay without any decodable item."""


class _Draw(NamedTuple):
    """The result of `Updates.draw`, and the learner step at which it was made."""

    drawn: Any
    step: int


class Trainer:
    """Loop that draws, updates and writes back (Ape-X algorithm 2).

    A call of `step` runs several updates. With `prefetch` above 0, a background thread draws for
    the next calls while the updates run. It also writes the outputs; the order of draws and writes
    is fixed. This hides the latency of a store in another process, but priorities lag by `prefetch`
    more calls.

    The draw of a call depends only on the seed, the learner step at which the call begins and the
    contents of the store. Without prefetching, a learner that is stopped and resumed therefore
    continues bit for bit, unless its agent recomputes state (ReF-ER: the scale of rewards).

    Attributes:
      num_samples: items of a call.
      counters: the store's counters when last requested; None before, and while the store is
        unavailable.
      priority_lag: learner steps from the draw of the last call to its write-back; 0 if items are
        drawn only once, so that nothing is written back.
      state: empty, since a draw follows from the learner step.
      around: returns a context for the updates of a call, given the store's counters before the
        call; actors may act in it. It must not change the store.
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
          updates: the updates of a call.
          steps: the learner's count of updates.
          limiter: limits how far the learner may run ahead of the actors.
          seed: seed of the draws, not negative.
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
        self._num_damaged = 0
        self._written: futures.Future | None = None
        self.num_samples = updates.num_samples
        self.counters: Counters | None = None
        self.priority_lag = 0.0
        self.around: Callable[[Counters], AbstractContextManager] = lambda counters: nullcontext()

    def step(self) -> Metrics | None:
        """Performs the updates of one call.

        Returns:
          The metrics of the updates. None if no update was made, because the store is not filled
          yet or unavailable, or the actors have to add more: wait a moment before the next call.

        Raises:
          UndecodableReplayError: three consecutive draws had no decodable item.
          DivergedError: an update is not finite.
          UserError: the learner has not counted the updates.
        """
        begin = learner.count(self._steps)
        draw = self._next(begin)
        if draw is None:
            return None
        with self.around(self.counters or Counters()):
            outputs, metrics = self._updates(draw.drawn)
        learner.check_finite(metrics)
        end, period = learner.count(self._steps), self._trim_period
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
          Exception: the write failed with this error.
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
        draw = self._ahead.popleft().result()
        if draw is None:  # later futures do not draw either
            futures.wait(self._ahead)
            self._ahead.clear()
            return None
        while len(self._ahead) < self._prefetch:
            self._draw_ahead(step, step + (1 + len(self._ahead)) * self._updates.num_updates)
        return draw

    def _draw_ahead(self, step: int, begin: int) -> None:
        assert self._worker is not None
        before = self._ahead[-1] if self._ahead else None
        self._ahead.append(self._worker.submit(self._draw_after, before, step, begin))

    def _draw_after(self, before: futures.Future | None, step: int, begin: int) -> _Draw | None:
        """Draws, unless the draw for the previous call failed: that call must draw first."""
        if before is not None and before.result() is None:
            return None
        return self._unless_gone(self._draw, step, begin)

    def _draw(self, step: int, begin: int) -> _Draw | None:
        """Draws at learner step `step` for the call that begins at step `begin`."""
        self.counters = self._store.counters()
        if not self._limiter.may_sample(self.counters, self.num_samples):
            return None
        drawn = self._updates.draw(self._store, self.counters, self._seed, begin)
        if drawn is None:
            return None
        if self._decode is not None:
            drawn = self._decoded(drawn, self._decode)
        return None if drawn is None else _Draw(drawn, step)

    def _decoded(self, drawn: Any, decode: Callable[[Nest], Nest]) -> Any:
        """Decodes the steps of a draw; returns None if no item of the draw can be decoded.

        Other items of the draw replace those that cannot be decoded. If items stay in the store,
        the undecodable items are given priority 0.
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
            logging.WARNING, "skipped items of a draw that cannot be decoded (%s)", 60, reason
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
        self.flush()  # raises the error of the previous call's write
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
            self._patience.miss(error)
            return None
        self._patience.renew()
        return result


def _decodable(steps: Nest, decode: Callable[[Nest], Nest], begin: int, end: int) -> list[int]:
    """Returns the indices of the decodable items in [begin, end), found by bisection."""
    try:
        decode(tf.nest.map_structure(lambda column: column[begin:end], steps))
        return list(range(begin, end))
    except tf.errors.InvalidArgumentError:
        if end - begin == 1:
            return []
    middle = (begin + end) // 2
    return _decodable(steps, decode, begin, middle) + _decodable(steps, decode, middle, end)
