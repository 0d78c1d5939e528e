"""Gradients that workers compute and a parameter server applies (Reactor, section 3.4).

A worker delivers the gradients of a learner step as an actor delivers steps. The store of the
parameter server is a queue of gradients.
"""

from collections.abc import Callable, Mapping, Sequence
import queue
import time
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from common.cluster import rpc
from common.cluster.errors import ClusterError, ServiceUnavailableError
from common.cluster.processes import Patience, StopRequest
from common.remote.outbox import RemoteStore
from common.replay.store import Counters, Store, Wire

_REPORT_SECONDS = 1.0
_POLL_SECONDS = 0.001
_SLEPT = 0.8
"""Fraction of the wait for the last update that a worker sleeps before it asks about the next."""
_LONGEST_PAUSE = 0.2
"""Longest such sleep, in seconds: the first wait includes the tracing of the server's graph. It is
also the pause after a failed call."""


class FlatGradients(NamedTuple):
    """The gradients of a learner step.

    Attributes:
      head: int64 [4]: index of the worker, its incarnation, the number of the delivery, and the
        learner step of the parameters from which the gradients were computed.
      names: [M] strings in UTF-8, the names of the metrics.
      metrics: [M] float32, the values of the metrics.
      steps: [P] float32, the gradients.
    """

    head: np.ndarray
    names: np.ndarray
    metrics: np.ndarray
    steps: np.ndarray


class GradientWire(Wire):
    """The form in which `FlatGradients` travel between processes."""

    consumes = True
    put_specs = (
        tf.TensorSpec([4], tf.int64, "head"),
        tf.TensorSpec([None], tf.string, "names"),
        tf.TensorSpec([None], tf.float32, "metrics"),
        tf.TensorSpec([None], tf.float32, "steps"),
    )

    def columns(self, rows: FlatGradients) -> list:
        """Returns the fields."""
        return list(rows)

    def rows(self, columns: Sequence) -> FlatGradients:
        """Reverses `columns`."""
        return FlatGradients(*columns)


class GradientQueue(Store):
    """A first in, first out queue of `FlatGradients`."""

    def __init__(self, num_parameters: int):
        """Creates an empty queue for gradients of P parameters."""
        self.wire = GradientWire()
        self._num_parameters = num_parameters
        self._names: np.ndarray | None = None
        self._queue: queue.Queue[FlatGradients] = queue.Queue()
        self._inserted = 0

    def put(self, rows: FlatGradients) -> bool:
        """Adds the gradients of a learner step.

        Raises:
          ValueError: the gradients are of another network, or their metrics differ from the first.
        """
        copy = FlatGradients(*map(np.array, rows))
        names = copy.names if self._names is None else self._names
        expected = (4,), names.shape, names.shape, (self._num_parameters,)
        if tuple(column.shape for column in copy) != expected or (copy.names != names).any():
            here, sent = (b",".join(column.flat).decode() for column in (names, copy.names))
            raise ValueError(
                f"an update has {self._num_parameters} parameters and the metrics '{here}' here, "
                f"but worker {copy.head.flat[0]} sent {copy.steps.size} parameters and metrics of "
                f"size {copy.metrics.size}, '{sent}': start all roles with the same version of the "
                "program"
            )
        self._names = names
        self._queue.put(copy)
        self._inserted += 1
        return True

    def draw(
        self, num_items: int = 1, seed: int | None = None, timeout_seconds: float = 0.0
    ) -> FlatGradients | None:
        """Removes and returns the oldest gradients; None if there are none before the timeout."""
        del num_items, seed
        try:
            return self._queue.get(timeout=timeout_seconds or None, block=timeout_seconds > 0)
        except queue.Empty:
            return None

    def counters(self) -> Counters:
        """Returns the counters; an item is the gradients of a learner step."""
        waiting = self._queue.qsize()
        return Counters(waiting, self._inserted, self._inserted - waiting)


class GradientSender:
    """Sender of a worker's gradients and reports to the parameter server.

    Attributes:
      patience: limits the wait for the parameter server.
    """

    def __init__(
        self,
        client: rpc.Client,
        worker: int,
        acting: Callable[[], tuple[int, Counters]],
        stop: StopRequest,
    ):
        """Prepares calls.

        Args:
          client: a client of the parameter server.
          worker: index of this worker.
          acting: returns what to report: the actor steps of this start and the replay's counters.
          stop: ends the waits.
        """
        self._store = RemoteStore(client, GradientWire())
        self._worker = worker
        self._acting = acting
        self._stop = stop
        self._reported_at = 0.0
        self._pause = 0.0
        self.patience = Patience("no answer from the parameter server")

    @property
    def incarnation(self) -> int:
        """The incarnation of this start of the worker; 0 before `join`."""
        return self._store.incarnation

    def join(self) -> bool:
        """Requests an incarnation; returns False if a stop was requested before it arrived."""
        return bool(self.patience.until_answered(self._store.join, lambda: self._stop.requested))

    def report(self) -> tuple[int, int]:
        """Reports the worker's actor steps and the counters of its replay.

        Returns:
          The number of the newest update that the server has received, and of the newest that is
          in published parameters.

        Raises:
          ServiceUnavailableError: the parameter server does not answer.
        """
        self._store.num_accepted, counters = self._acting()
        numbers = self._store.report(self._worker, counters)
        self._reported_at = time.monotonic()
        self.patience.renew()
        return numbers

    def report_if_due(self) -> bool:
        """Reports if the last report is at least a second old; the server may be away for a while.

        Returns:
          True if a report was due, even if the server did not answer.

        Raises:
          ClusterError: the server has been gone for too long.
        """
        if time.monotonic() - self._reported_at < _REPORT_SECONDS:
            return False
        try:
            self.report()
        except ServiceUnavailableError as error:
            self.patience.miss(error)
        return True

    def push(
        self, learner_steps: int, gradients: tf.Tensor, metrics: Mapping[str, tf.Tensor]
    ) -> bool:
        """Sends an update and returns once the published parameters contain it.

        It is sent again until the server has it, also to a server that has restarted.

        Args:
          learner_steps: learner step of the parameters from which the gradients were computed.
          gradients: [P] float32.
          metrics: float32 scalars by name.

        Returns:
          False if a stop was requested before that.

        Raises:
          ClusterError: the server refuses the update, or has been gone for too long.
        """
        number = self._store.number + 1
        head = np.array([self._worker, self.incarnation, number, learner_steps], np.int64)
        names, values = tf.constant(list(metrics), tf.string), tf.stack(list(metrics.values()))
        update = FlatGradients(head, names, values, gradients)
        is_sent = False
        while not self._stop.requested:
            try:
                if not is_sent:
                    self._store.number = number - 1  # a repeated delivery has the same number
                    self._send(update)
                    is_sent, sent_at = True, time.monotonic()
                    time.sleep(self._pause)
                received, published = self.report()
                if published >= number:
                    self._store.number = number  # also if the answer to the put was lost
                    self._pause = min(_SLEPT * (time.monotonic() - sent_at), _LONGEST_PAUSE)
                    return True
                is_sent = received >= number
                time.sleep(_POLL_SECONDS)
            except ServiceUnavailableError as error:
                is_sent = False
                self.patience.miss(error)
                self._stop.wait(_LONGEST_PAUSE)
        return False

    def _send(self, gradients: FlatGradients) -> None:
        try:
            self._store.put(gradients)
        except tf.errors.InvalidArgumentError as error:
            line = rpc.first_line(error.message).removeprefix("ValueError: ")
            raise ClusterError(f"the update was refused: {line}") from None
