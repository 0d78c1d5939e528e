"""Updates that workers compute and a parameter server applies (Reactor, section 3.4).

A worker sends the gradients of a learner step under its incarnation and a number, in slices. The
server applies each update once and whole, however often its slices arrive.
"""

from collections.abc import Callable
import dataclasses
import queue
import threading
import time

from absl import logging
import numpy as np
import tensorflow as tf

from common.cluster import rpc
from common.cluster.errors import ClusterError, ServiceUnavailableError
from common.cluster.parameters import SLICE_SIZE
from common.cluster.processes import Patience, StopRequest
from common.replay.accounts import Accounts
from common.replay.memory import Statistics
from common.replay.shards import total_of

_PRESENT_SECONDS = 10.0
"""Age of a worker's last report at which it counts as gone; it reports every second."""
_REPORT_SECONDS = 1.0
_POLL_SECONDS = 0.001
_SLEPT = 0.8
"""Share of the last wait for an update that passes before the next one is asked about."""
_RETRY_SECONDS = 0.2


@dataclasses.dataclass(frozen=True)
class Update:
    """The gradients of a learner step.

    Attributes:
      worker: index of the worker.
      incarnation: of that start of the worker, see `common.replay.accounts`.
      number: of the update in its incarnation, from 1.
      learner_steps: updates that the parameters had which the gradients are for.
      gradients: [P] float32.
      metrics: [M] float32, in the order of the agent's names.
    """

    worker: int
    incarnation: int
    number: int
    learner_steps: int
    gradients: np.ndarray
    metrics: np.ndarray


class _Partial:
    """An update of which slices are still missing.

    Attributes:
      incarnation: of the worker.
      number: of the update.
      gradients: [P] float32, valid where slices have arrived.
    """

    def __init__(self, incarnation: int, number: int, size: int):
        self.incarnation, self.number = incarnation, number
        self.gradients = np.empty(size, np.float32)
        self._missing = {offset for offset in range(0, size, SLICE_SIZE)}

    def add(self, offset: int, values: np.ndarray) -> bool:
        """Adds a slice; returns whether the update is whole."""
        self.gradients[offset : offset + len(values)] = values
        self._missing.discard(offset)
        return not self._missing


class UpdateService:
    """Receiver of workers' updates and of what they report about their acting.

    Attributes:
      num_refused: updates refused since this service started.
    """

    def __init__(self, server: rpc.Server, num_parameters: int, num_metrics: int):
        """Registers the methods on a server that has not started yet.

        Args:
          server: offers the methods.
          num_parameters: P, elements of an update.
          num_metrics: M, metrics of an update.
        """
        self._num_parameters = num_parameters
        self._accounts = Accounts()
        self._lock = threading.Lock()
        self._partial: dict[int, _Partial] = {}
        self._received: dict[int, int] = {}
        self._published: dict[int, int] = {}
        self._closed = False
        self._whole: queue.Queue[Update] = queue.Queue()
        self._reports: dict[int, tuple[float, Statistics]] = {}
        self.num_refused = 0
        int64 = tf.TensorSpec([], tf.int64)
        server.register("updates_join", self._accounts.next_incarnation, [])
        server.register(
            "updates_report",
            self._serve_report,
            [int64, int64, int64, tf.TensorSpec([len(Statistics._fields)], tf.int64)],
        )
        server.register(
            "updates_push",
            lambda *arguments: tf.numpy_function(self._push, arguments, tf.int64, stateful=True),
            [
                *[int64] * 6,
                tf.TensorSpec([num_metrics], tf.float32),
                tf.TensorSpec([None], tf.float32),
            ],
        )

    @property
    def num_workers(self) -> int:
        """Workers that have reported lately."""
        return len(self._present())

    @property
    def statistics(self) -> Statistics | None:
        """Counters of the workers' memories, summed; None if no worker has reported lately."""
        reports = self._present()
        return total_of(reports) if reports else None

    def accepted(self) -> dict[int, int]:
        """Returns the actor steps of each incarnation of a worker."""
        return self._accounts.as_dict()

    def take(self, timeout_seconds: float) -> Update | None:
        """Returns the oldest whole update, or None if none arrives in time."""
        try:
            return self._whole.get(timeout=timeout_seconds)
        except queue.Empty:
            return None

    def acknowledge(self, numbers: dict[int, int]) -> None:
        """Tells workers that updates up to a number are in the published parameters.

        Args:
          numbers: by incarnation. After a restart, also those that its checkpoint has.
        """
        with self._lock:
            self._published.update(numbers)
            for incarnation, number in numbers.items():
                self._received[incarnation] = max(number, self._received.get(incarnation, 0))

    def close(self) -> None:
        """Releases workers that wait for updates which come too late to be applied."""
        self._closed = True

    def refuse(self, worker: int, reason: str) -> None:
        """Counts an update that is not applied, and logs it."""
        with self._lock:
            self.num_refused += 1
        logging.warning("refused an update of worker %d: %s", worker, reason)

    def _present(self) -> list[Statistics]:
        now = time.monotonic()
        with self._lock:
            reports = list(self._reports.values())
        return [statistics for at, statistics in reports if now - at < _PRESENT_SECONDS]

    def _serve_report(self, worker, incarnation, actor_steps, statistics):
        counted = self._accounts.raise_to(incarnation, actor_steps)
        with tf.control_dependencies([counted]):
            return tf.numpy_function(self._report, [worker, incarnation, statistics], tf.int64)

    def _report(
        self, worker: np.int64, incarnation: np.int64, statistics: np.ndarray
    ) -> np.ndarray:
        """Notes a report; returns the numbers of the newest received and published update."""
        key = int(incarnation)
        with self._lock:
            self._reports[int(worker)] = time.monotonic(), Statistics.of(statistics)
            received = self._received.get(key, 0)
            published = received if self._closed else self._published.get(key, 0)
        return np.array([received, published], np.int64)

    def _push(
        self, worker, incarnation, number, learner_steps, size, offset, metrics, values
    ) -> np.int64:
        """Takes a slice; returns the number of elements that an update must have."""
        needed = np.int64(self._num_parameters)
        if size != needed:
            if offset == 0:
                self.refuse(int(worker), f"it has {size} parameters instead of {needed}")
            return needed
        sender, key = int(worker), int(incarnation)
        with self._lock:
            if number <= self._received.get(key, 0):
                return needed  # sent again
            partial = self._partial.get(sender)
            if partial is None or partial.incarnation != key or partial.number < number:
                partial = self._partial[sender] = _Partial(key, int(number), int(size))
            if partial.number == number and partial.add(int(offset), values):
                del self._partial[sender]
                self._received[key] = int(number)
                self._whole.put(
                    Update(
                        sender,
                        key,
                        int(number),
                        int(learner_steps),
                        partial.gradients,
                        metrics.copy(),
                    )
                )
        return needed


class UpdateClient:
    """A worker's side of an `UpdateService`.

    Attributes:
      incarnation: of this start of the worker; 0 before `join`.
    """

    def __init__(
        self,
        client: rpc.Client,
        worker: int,
        acting: Callable[[], tuple[int, Statistics]],
        stop: StopRequest,
    ):
        """Prepares calls.

        Args:
          client: of the parameter server.
          worker: index of this worker.
          acting: returns what to report: actor steps of this start, and the memory's counters.
          stop: ends the waits.
        """
        self._client = client
        self._worker = worker
        self._acting = acting
        self._stop = stop
        self._number = 0
        self._reported_at = 0.0
        self._pause = 0.0
        self._patience = Patience("no answer from the parameter server")
        self.incarnation = 0

    def join(self) -> bool:
        """Gets an incarnation; returns False if a stop was requested before that."""
        while not self._stop.requested:
            try:
                self.incarnation = int(self._client.call("updates_join"))
                return True
            except ServiceUnavailableError as error:
                self._wait_for_server(error)
        return False

    def report(self) -> tuple[int, int]:
        """Reports the worker's acting.

        Returns:
          The numbers of the newest update received, and of the newest in published parameters.

        Raises:
          ServiceUnavailableError: the parameter server does not answer.
        """
        actor_steps, statistics = self._acting()
        arguments = [
            tf.constant(self._worker, tf.int64),
            tf.constant(self.incarnation, tf.int64),
            tf.constant(actor_steps, tf.int64),
            tf.constant(statistics, tf.int64),
        ]
        received, published = self._client.call("updates_report", arguments).numpy().tolist()
        self._reported_at = time.monotonic()
        self._patience.renew()
        return received, published

    def report_if_due(self) -> bool:
        """Reports if the last report was a second ago, unless the server is gone.

        Returns:
          Whether it was due.

        Raises:
          ClusterError: the server is gone for too long.
        """
        if time.monotonic() - self._reported_at < _REPORT_SECONDS:
            return False
        try:
            self.report()
        except ServiceUnavailableError as error:
            self._wait_for_server(error)
        return True

    def push(self, learner_steps: int, gradients: tf.Tensor, metrics: tf.Tensor) -> bool:
        """Sends an update, and returns once the published parameters contain it.

        It is sent again until the server has it, also by a server that was restarted.

        Args:
          learner_steps: updates that the parameters had which the gradients are for.
          gradients: [P] float32.
          metrics: [M] float32.

        Returns:
          False if a stop was requested before that.

        Raises:
          ClusterError: the server refuses the update's size, or is gone for too long.
        """
        self._number += 1
        is_sent = False
        while not self._stop.requested:
            try:
                if not is_sent:
                    self._send(learner_steps, gradients, metrics)
                    is_sent, sent_at = True, time.monotonic()
                    time.sleep(self._pause)
                received, published = self.report()
                if published >= self._number:
                    self._pause = _SLEPT * (time.monotonic() - sent_at)
                    return True
                is_sent = received >= self._number
                time.sleep(_POLL_SECONDS)
            except ServiceUnavailableError as error:
                is_sent = False
                self._wait_for_server(error)
        return False

    def _send(self, learner_steps: int, gradients: tf.Tensor, metrics: tf.Tensor) -> None:
        size = int(gradients.shape[0])
        futures = []
        for offset in range(0, size, SLICE_SIZE):
            numbers = self._worker, self.incarnation, self._number, learner_steps, size, offset
            arguments = [tf.constant(number, tf.int64) for number in numbers]
            values = gradients[offset : offset + SLICE_SIZE]
            futures.append(self._client.call_async("updates_push", [*arguments, metrics, values]))
        for future in futures:
            needed = int(future.result())
            if needed != size:
                raise ClusterError(
                    f"the parameter server's network has {needed} parameters, this worker's "
                    f"{size}: start all roles with the same version of the program"
                )

    def _wait_for_server(self, error: Exception) -> None:
        logging.log_every_n_seconds(
            logging.WARNING, "waiting for the parameter server: %s", 60, error
        )
        self._patience.check(error)
        self._stop.wait(_RETRY_SECONDS)
