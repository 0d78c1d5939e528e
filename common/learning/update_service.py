"""Updates that workers compute and a parameter server applies (Reactor, section 3.4).

A worker sends the gradients of a learner step under its incarnation and a number, in slices. The
server applies each update once and whole, however often its slices arrive.
"""

import dataclasses
import queue
import threading
import time

from absl import logging
import numpy as np
import tensorflow as tf

from common.cluster import rpc
from common.cluster.parameters import SLICE_SIZE
from common.replay.accounts import Accounts
from common.replay.memory import Statistics
from common.replay.shards import total_of

JOIN_METHOD, REPORT_METHOD, PUSH_METHOD = "updates_join", "updates_report", "updates_push"
_PRESENT_SECONDS = 10.0
"""Age of a worker's last report at which it counts as gone; it reports every second."""


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

    def __init__(self, server: rpc.Server, num_parameters: int, num_metrics: int, num_workers: int):
        """Registers the methods on a server that has not started yet.

        Args:
          server: offers the methods.
          num_parameters: P, elements of an update.
          num_metrics: M, metrics of an update.
          num_workers: workers of the run.
        """
        self._num_parameters = num_parameters
        self._accounts = Accounts()
        self._lock = threading.Lock()
        self._partial: dict[int, _Partial] = {}
        self._received: dict[int, int] = {}
        self._published: dict[int, int] = {}
        self._heard: set[int] = set()  # not those that only a checkpoint knows, of an older update
        self._closed = False
        self._whole: queue.Queue[Update] = queue.Queue()
        self._reports: dict[int, tuple[float, Statistics]] = {}
        self.num_refused = 0
        worker = rpc.Count("worker", num_workers - 1)
        incarnation = rpc.Count("incarnation", tf.int64.max)
        server.register(JOIN_METHOD, self._accounts.next_incarnation, [])
        server.register(
            REPORT_METHOD,
            self._serve_report,
            [
                worker,
                incarnation,
                tf.TensorSpec([], tf.int64),
                rpc.Count("statistics", shape=[len(Statistics._fields)]),
            ],
        )
        server.register(
            PUSH_METHOD,
            lambda *arguments: tf.numpy_function(self._push, arguments, tf.int64, stateful=True),
            [
                worker,
                incarnation,
                *[rpc.Count(name) for name in ("number", "learner_steps", "size", "offset")],
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
        actor_steps = self._accounts.checked(incarnation, actor_steps)
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
        """Takes a slice; returns the number of elements that an update must have.

        Raises:
          ValueError: it is no slice of an update, or its number skips one.
        """
        needed = np.int64(self._num_parameters)
        if size != needed:
            if offset == 0:
                self.refuse(int(worker), f"it has {size} parameters instead of {needed}")
            return needed
        expected = min(SLICE_SIZE, size - offset)
        if offset % SLICE_SIZE or len(values) != expected:
            raise ValueError(f"no slice of an update: {len(values)} values at offset {offset}")
        sender, key = int(worker), int(incarnation)
        with self._lock:
            last = self._received.get(key, 0)
            if number <= last:
                return needed  # sent again
            if number > last + 1 and key in self._heard:
                raise ValueError(f"number must be at most {last + 1}, is {number}")
            partial = self._partial.get(sender)
            if partial is None or partial.incarnation != key or partial.number < number:
                partial = self._partial[sender] = _Partial(key, int(number), int(size))
            if partial.number == number and partial.add(int(offset), values):
                del self._partial[sender]
                self._received[key] = int(number)
                self._heard.add(key)
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
