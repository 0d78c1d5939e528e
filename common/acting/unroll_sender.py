"""Sending of unrolls to the learner's queue, by the actors themselves."""

from collections import deque
from collections.abc import Callable
import secrets
from typing import NamedTuple

from absl import logging
import tree

from common.cluster.errors import ServiceUnavailableError
from common.cluster.processes import Patience, StopRequest
from common.replay.unroll_service import RemoteUnrollQueue
from common.types import Nest, Unrolls

_REFUSED_SECONDS = 0.005, 0.05
"""Shortest and longest time between offers to a full queue, which carry the whole offer each."""
_GONE_SECONDS = 0.2
"""Time between calls to a learner that does not answer."""


class _Offer(NamedTuple):
    """The arguments of `UnrollQueue.offer` after the incarnation."""

    number: int
    accepted: int
    unrolls: Nest


class UnrollSender:
    """Sender of bursts of unrolls, between which actors act only once the queue has taken all.

    So the learner learns from every unroll exactly once, and neither side runs ahead of the other.
    A burst is split into offers that fit a message and the queue. An offer is repeated under its
    number until it is taken, also by a learner that has restarted meanwhile.

    Attributes:
      incarnation: random number of this start of the actors, above 0.
      num_accepted: actor steps whose unrolls the queue has taken since this start.
    """

    def __init__(
        self,
        queue: RemoteUnrollQueue,
        to_burst: Callable[[Unrolls], Nest],
        count_steps: Callable[[Unrolls], int],
        max_rows: int,
        stop: StopRequest,
    ):
        """Prepares to send.

        Args:
          queue: the learner's.
          to_burst: returns what is sent when unrolls are complete, nest of [M, T, ...].
          count_steps: returns the actor steps of unrolls.
          max_rows: unrolls of an offer that the queue takes sooner or later.
          stop: ends the waits.
        """
        self._queue = queue
        self._to_burst = to_burst
        self._count_steps = count_steps
        self._max_rows = min(max_rows, queue.max_rows)
        self._stop = stop
        self._patience = Patience("no answer from the learner")
        self._waiting: deque[_Offer] = deque()
        self._number = self._steps = 0
        self._pause, self._longest_pause = _REFUSED_SECONDS
        self.incarnation = 1 + secrets.randbelow(2**62)
        self.num_accepted = 0

    def start(self) -> None:
        """Begins the wait for the learner anew, since the first parameters may come late."""
        self._patience.renew()

    def add(self, unrolls: Unrolls) -> None:
        """Makes the offers of a burst, which `has_credit` sends."""
        burst = self._to_burst(unrolls)
        num_rows = len(tree.flatten(burst)[0])
        total = self._steps + self._count_steps(unrolls)
        for begin in range(0, num_rows, self._max_rows):
            rows = slice(begin, begin + self._max_rows)
            if rows.stop >= num_rows:
                self._steps = total  # the burst's steps count once all of it is taken
            part = tree.map_structure(lambda column, rows=rows: column[rows], burst)
            self._number += 1
            self._waiting.append(_Offer(self._number, self._steps, part))

    def has_credit(self) -> bool:
        """Offers what waits, and returns whether the queue has taken all of it.

        If it has not, waits for a moment, so that the caller may ask again at once.

        Raises:
          ClusterError: the learner refuses the token, or has been gone for too long.
        """
        while self._waiting:
            offer = self._waiting[0]
            try:
                is_taken = self._queue.offer(self.incarnation, *offer)
            except ServiceUnavailableError as error:
                self._wait_for_learner(error)
                return False
            self._patience.renew()
            if not is_taken:
                self._stop.wait(self._pause)
                self._pause = min(2 * self._pause, self._longest_pause)
                return False
            self._pause, _ = _REFUSED_SECONDS
            self.num_accepted = offer.accepted
            self._waiting.popleft()
        return True

    def close(self) -> None:
        """Ends. Offers that still wait are dropped: nobody will learn from them."""
        self._waiting.clear()

    def _wait_for_learner(self, error: ServiceUnavailableError) -> None:
        logging.log_every_n_seconds(logging.WARNING, "waiting for the learner: %s", 60, error)
        self._patience.check(error)
        self._stop.wait(_GONE_SECONDS)
