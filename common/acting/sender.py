"""Sends transitions with their initial priorities to the replay, in the background."""

from collections.abc import Callable, Sequence
import queue
import threading
import time

from absl import logging
import numpy as np
import tree

from common.acting import n_step
from common.acting.items import as_items
from common.agents.agent import Actor, Agent, schedule_for
from common.cluster.errors import ServiceUnavailableError
from common.cluster.processes import Patience, StopRequest
from common.replay.service import RemoteMemory
from common.replay.shards import CountersOfAll

_QUEUE = 4
"""Batches under way; a replay that cannot follow slows the actor down instead of losing data."""

_CLOSE_SECONDS = 5.0
"""How long a role that ends still tries to send what it has."""


class Sender:
    """Collects transitions, B at a time, and adds them to a remote memory (Ape-X algorithm 1).

    A call that failed is made again until it succeeds: the keys make a repetition harmless.
    """

    def __init__(
        self,
        agent: Agent,
        actor: Actor,
        memory: RemoteMemory,
        actors: range,
        stop: StopRequest,
        shard: int = 0,
        others: Sequence[RemoteMemory] = (),
    ):
        """Prepares to send.

        Args:
          memory: what is added to.
          actors: indices of the paper's actors.
          stop: ends the waits.
          shard: number of `memory` among the shards of the replay.
          others: the other shards, if the schedule has a ratio to keep over all of them.
        """
        self._agent = agent
        self._actor = actor
        self._memory = memory
        self._of_all = CountersOfAll(others)
        self._shard = shard
        self._actors = np.asarray(actors)
        self._stop = stop
        self._schedule = schedule_for(agent)
        self._collected: list[n_step.Transitions] = []
        self._num_collected = 0
        self._queue: queue.Queue = queue.Queue(_QUEUE)
        self._thread = threading.Thread(target=self._send_all, name="send", daemon=True)
        self._error: Exception | None = None
        self._statistics = None
        self._deadline: float | None = None

    @property
    def incarnation(self) -> int:
        """Tells this life of the actors from others; given by the replay."""
        return self._memory.incarnation

    @property
    def num_accepted(self) -> int:
        """Transitions that the replay has accepted from this life."""
        return self._memory.num_accepted // self._agent.num_copies

    def start(self) -> None:
        """Gets an incarnation and starts to send; waits for the replay."""
        self._until_available(self._memory.new_incarnation, lambda: self._stop.requested)
        self._thread.start()

    def add(self, transitions: n_step.Transitions) -> None:
        """Takes transitions over; sends when there are enough.

        Raises:
          Exception: what ended the sending, such as a refused token.
        """
        self._collected.append(transitions)
        self._num_collected += len(transitions.step)
        if self._num_collected >= self._agent.send_batch:
            self._enqueue_collected()

    def _enqueue_collected(self) -> None:
        if not self._collected:
            return
        collected = n_step.concatenate(self._collected)
        self._collected, self._num_collected = [], 0
        # An episode's end gives many at once.
        for begin in range(0, len(collected.step), self._agent.send_batch):
            rows = slice(begin, begin + self._agent.send_batch)
            batch = tree.map_structure(lambda column: column[rows], collected)
            self._put(
                as_items(
                    self._agent, self._actor, batch, self._actors, self._shard, self.incarnation
                )
            )

    def has_credit(self) -> bool:
        """Whether the actors may go on; if they are too far ahead of the learner, asks anew."""
        self._raise_error()
        if self._statistics is None or self._schedule.may_insert(self._statistics):
            return True
        self._stop.wait(0.01)
        try:
            self._statistics = self._of_all(self._memory.statistics())
        except ServiceUnavailableError as error:
            logging.log_every_n_seconds(logging.WARNING, "waiting for the replay: %s", 60, error)
        return self._schedule.may_insert(self._statistics)

    def close(self) -> None:
        """Sends all that it was given and ends; gives up on a replay that is gone or slow.

        Raises:
          Exception: what ended the sending before.
        """
        self._begin_to_close()
        self._enqueue_collected()
        self._put(None)
        self._thread.join(max(0.0, self._deadline - time.monotonic()))

    def _begin_to_close(self) -> None:
        if self._deadline is None:
            self._deadline = time.monotonic() + _CLOSE_SECONDS

    def _is_late(self) -> bool:
        return self._deadline is not None and time.monotonic() > self._deadline

    def _put(self, item) -> None:
        while not self._is_late():
            self._raise_error()
            try:
                self._queue.put(item, timeout=0.2)
                return
            except queue.Full:
                if self._stop.requested:
                    self._begin_to_close()

    def _send_all(self) -> None:
        try:
            while (item := self._queue.get()) is not None:
                self._until_available(lambda: self._insert(item), self._is_late)
            self._until_available(self._memory.report_accepted, self._is_late)
        except Exception as error:  # pylint: disable=broad-except
            self._error = error  # raised again where the acting loop can see it

    def _insert(self, item) -> None:
        self._statistics = self._of_all(self._memory.insert(*item))

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
