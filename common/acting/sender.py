"""Sending of transitions with initial priorities to the replay, in the background."""

from collections.abc import Callable, Sequence
import math
import queue
import threading
import time

from absl import logging
import tree

from common.acting import n_step_adder
from common.cluster.errors import ServiceUnavailableError
from common.cluster.processes import Patience, StopRequest
from common.replay.memory import Statistics
from common.replay.schedule import Schedule
from common.replay.service import RemoteMemory
from common.replay.shards import CountersOfAll
from common.types import Items, NStepTransitions

_QUEUE = 4
"""Batches that may wait. When the queue is full, the actors wait, so that no data is lost."""

_CLOSE_SECONDS = 5.0
"""Time that `close` has for sending the remaining transitions."""


class Sender:
    """Background sender of batches of B transitions to a remote memory (Ape-X algorithm 1).

    It repeats a failed call until it succeeds; keys make repeated inserts harmless.
    """

    def __init__(
        self,
        memory: RemoteMemory,
        to_items: Callable[[NStepTransitions, int], Items],
        schedule: Schedule,
        batch_size: int,
        stop: StopRequest,
        others: Sequence[RemoteMemory] = (),
    ):
        """Prepares to send.

        Args:
          memory: the shard to which these actors add.
          to_items: converts transitions to replay items, given the incarnation of these actors.
          schedule: limits how far the actors may run ahead of the learner.
          batch_size: B.
          stop: ends the waits.
          others: the replay's other shards, if the schedule limits samples per insert over all.
        """
        self._memory = memory
        self._to_items = to_items
        self._schedule = schedule
        self._batch_size = batch_size
        self._stop = stop
        self._total_counters = CountersOfAll(others)
        self._collected: list[NStepTransitions] = []
        self._num_collected = 0
        self._queue: queue.Queue = queue.Queue(_QUEUE)
        self._thread = threading.Thread(target=self._send_all, name="send", daemon=True)
        self._error: Exception | None = None
        self._statistics: Statistics | None = None
        self._deadline = math.inf

    @property
    def incarnation(self) -> int:
        """The number that the replay assigned to this start of the actors."""
        return self._memory.incarnation

    @property
    def num_accepted(self) -> int:
        """Items that the replay has accepted since this start of the actors."""
        return self._memory.num_accepted

    def start(self) -> None:
        """Waits for the replay, gets an incarnation and starts the background thread."""
        self._until_available(self._memory.new_incarnation, lambda: self._stop.requested)
        self._thread.start()

    def add(self, transitions: NStepTransitions) -> None:
        """Collects transitions, and queues them for sending once there are B.

        Raises:
          Exception: the error that ended the background thread, such as a refused token.
        """
        self._collected.append(transitions)
        self._num_collected += len(transitions.step)
        if self._num_collected >= self._batch_size:
            self._enqueue_collected()

    def _enqueue_collected(self) -> None:
        if not self._collected:
            return
        collected = n_step_adder.concatenate(self._collected)
        self._collected, self._num_collected = [], 0
        # The end of an episode completes many transitions at once.
        for begin in range(0, len(collected.step), self._batch_size):
            rows = slice(begin, begin + self._batch_size)
            batch = tree.map_structure(lambda column, rows=rows: column[rows], collected)
            self._put(self._to_items(batch, self.incarnation))

    def has_credit(self) -> bool:
        """Returns whether the actors may continue.

        If they are too far ahead of the learner, waits for a moment and asks the replay again.
        """
        self._raise_error()
        if self._statistics is None or self._schedule.may_insert(self._statistics):
            return True
        self._stop.wait(0.01)
        try:
            self._statistics = self._total_counters(self._memory.statistics())
        except ServiceUnavailableError as error:
            logging.log_every_n_seconds(logging.WARNING, "waiting for the replay: %s", 60, error)
        return self._schedule.may_insert(self._statistics)

    def close(self) -> None:
        """Sends all collected transitions and ends; gives up after a few seconds without success.

        Raises:
          Exception: the error that ended the background thread.
        """
        self._begin_to_close()
        self._enqueue_collected()
        self._put(None)
        self._thread.join(max(0.0, self._deadline - time.monotonic()))

    def _begin_to_close(self) -> None:
        self._deadline = min(self._deadline, time.monotonic() + _CLOSE_SECONDS)

    def _is_late(self) -> bool:
        return time.monotonic() > self._deadline

    def _put(self, items: Items | None) -> None:
        while not self._is_late():
            self._raise_error()
            try:
                self._queue.put(items, timeout=0.2)
                return
            except queue.Full:
                if self._stop.requested:
                    self._begin_to_close()

    def _send_all(self) -> None:
        try:
            while (items := self._queue.get()) is not None:
                self._until_available(lambda items=items: self._insert(items), self._is_late)
            self._until_available(self._memory.report_accepted, self._is_late)
        except Exception as error:
            self._error = error  # `add`, `has_credit` and `close` raise it in the acting thread

    def _insert(self, items: Items) -> None:
        self._statistics = self._total_counters(
            self._memory.insert(items.keys, items.steps, items.priorities)
        )

    def _until_available(self, function: Callable, gives_up: Callable[[], bool]) -> None:
        patience = Patience("no answer from the replay")
        while not gives_up():
            try:
                function()
                return
            except ServiceUnavailableError as error:
                logging.log_every_n_seconds(
                    logging.WARNING, "waiting for the replay: %s", 60, error
                )
                patience.check(error)
                time.sleep(0.2)

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error
