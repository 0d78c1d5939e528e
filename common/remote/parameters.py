"""Immutable, versioned snapshots of the learner's parameters for actors and evaluator.

Version and parameters of a snapshot are one tensor that is replaced as a whole, so that no reader
receives a mixture of two versions. Large snapshots are read in slices; each request names its
version. Actors read in the background, so that reading does not delay them.
"""

from collections.abc import Callable
import dataclasses
import threading
import time

import numpy as np
import tensorflow as tf

from common.cluster import rpc, rpc_server
from common.cluster.errors import ServiceUnavailableError
from common.cluster.processes import Background, Patience, StopRequest

ONLINE, TARGET = "parameters", "target"
"""Names of the online networks, which actors and evaluator use, and of the target networks."""
SLICE_SIZE = 500_000
"""Parameters (float32) in a slice: 2 MB, half of what a message holds."""
_MAX_READ_ATTEMPTS = 20
_STATUS_FIELDS = 5  # int64: version, learner_steps, actor_steps, wall milliseconds, finished
_HEADER_FLOATS = 2
"""Length of a stored snapshot's header, the bits of its int64 version, in float32 numbers."""
_PUBLICATIONS = 2**32
"""Versions reserved for each start of the publisher, more than a run has updates."""


@dataclasses.dataclass(frozen=True)
class LearnerStatus:
    """The learner's progress when it published its newest snapshot.

    Attributes:
      version: version of that snapshot. It grows with every publication, also across restarts of
        the learner.
      learner_steps: updates done.
      actor_steps: environment steps of all actors.
      wall_seconds: seconds since the run's first start.
      finished: whether the snapshot is the run's last.
    """

    version: int
    learner_steps: int
    actor_steps: int
    wall_seconds: float
    finished: bool


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """A complete version of the parameters.

    Attributes:
      status: the version and the counters published with it.
      flat: [P] float32, the parameters in the publisher's order; the reader's own copy.
    """

    status: LearnerStatus
    flat: np.ndarray


class ParameterService:
    """Publisher of parameters."""

    def __init__(
        self,
        server: rpc_server.Server,
        num_parameters: int,
        keep_versions: int = 4,
        name: str = ONLINE,
        start: int = 0,
    ):
        """Registers the methods.

        Args:
          server: offers the methods; must not have started yet.
          num_parameters: P.
          keep_versions: number of versions that stay readable, including the newest; 4 P bytes
            each.
          name: name of the networks; a server may publish several networks.
          start: number of the publisher's start, which grows with each start, so that new versions
            are larger than any that readers still hold. It is not a time: a clock may be set back.
        """
        self.num_parameters = num_parameters
        self._version = start * _PUBLICATIONS
        self._status = tf.Variable(tf.zeros([_STATUS_FIELDS], tf.int64), trainable=False)
        # Slot v mod K holds version v. Tracing needs variables with a value.
        self._slots = [
            tf.Variable(tf.zeros([_HEADER_FLOATS]), trainable=False, shape=tf.TensorShape([None]))
            for _ in range(keep_versions)
        ]
        server.register(f"{name}_status", self._serve_status, [])
        server.register(
            f"{name}_read",
            self._serve_slice,
            [
                rpc_server.Count("version", tf.int64.max),
                rpc_server.Count("offset", num_parameters),
                rpc_server.Count("size", SLICE_SIZE),
            ],
        )

    def publish(
        self,
        flat: np.ndarray | tf.Tensor,
        learner_steps: int,
        actor_steps: int,
        wall_seconds: float,
        finished: bool = False,
    ) -> int:
        """Publishes a copy of `flat` as the newest snapshot and returns its version.

        Only one thread may publish.

        Args:
          flat: [P] float32.
          learner_steps: updates done.
          actor_steps: environment steps of all actors.
          wall_seconds: seconds since the run's first start.
          finished: whether this is the run's last snapshot.
        """
        self._version = version = self._version + 1
        header = np.array([version], np.int64).view(np.float32)
        self._slots[version % len(self._slots)].assign(tf.concat([header, flat], axis=0))
        self._status.assign(
            [version, learner_steps, actor_steps, round(1000 * wall_seconds), finished]
        )
        return version

    def _serve_status(self) -> tuple[tf.Tensor, tf.Tensor]:
        return self._status.read_value(), tf.constant(self.num_parameters, tf.int64)

    def _serve_slice(self, version: tf.Tensor, offset: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
        """Returns `flat[offset:offset + size]` of a version; nothing if its slot was reused."""
        slot = tf.cast(tf.math.floormod(version, len(self._slots)), tf.int32)
        packed = tf.switch_case(slot, [variable.read_value for variable in self._slots])
        is_there = tf.equal(tf.bitcast(packed[:_HEADER_FLOATS], tf.int64), version)
        size = tf.where(is_there, size, tf.constant(0, tf.int64))
        begin = offset + _HEADER_FLOATS
        return packed[begin : begin + size]


class ParameterClient:
    """Reader of the snapshots of a `ParameterService`."""

    def __init__(self, client: rpc.Client, name: str = ONLINE):
        self._client = client
        self._name = name

    def latest(self) -> LearnerStatus:
        """Returns the learner's progress; raises the errors of `rpc.Client.call`."""
        return self._latest()[0]

    def read(self, if_newer_than: int = 0) -> Snapshot | None:
        """Returns the newest snapshot, or None if its version is not above `if_newer_than`.

        Raises:
          ServiceUnavailableError: no answer, or versions are replaced faster than they can be read.
          ClusterError: see `rpc.Client.call`.
        """
        for _ in range(_MAX_READ_ATTEMPTS):
            status, num_parameters = self._latest()
            if status.version <= if_newer_than:
                return None
            flat = self._read_version(status.version, num_parameters)
            if flat is not None:
                return Snapshot(status, flat)
        raise ServiceUnavailableError(
            f"the parameters at {self._client.address} are published faster than they can be "
            "read: publish less often, or keep more versions"
        )

    def _latest(self) -> tuple[LearnerStatus, int]:
        """Returns the learner's progress and P."""
        fields, num_parameters = self._client.call(f"{self._name}_status")
        version, learner_steps, actor_steps, wall_ms, finished = fields.numpy().tolist()
        status = LearnerStatus(version, learner_steps, actor_steps, wall_ms / 1000, bool(finished))
        return status, int(num_parameters)

    def _read_version(self, version: int, num_parameters: int) -> np.ndarray | None:
        """Returns the parameters [P] float32 of a version, or None if it was replaced."""
        offsets = range(0, num_parameters, SLICE_SIZE)
        futures = [
            self._client.call_async(
                f"{self._name}_read",
                [*np.int64([version, offset, min(SLICE_SIZE, num_parameters - offset)])],
            )
            for offset in offsets
        ]
        flat = np.empty([num_parameters], np.float32)
        for offset, future in zip(offsets, futures, strict=True):
            part = future.result().numpy()
            if part.size == 0:
                return None
            flat[offset : offset + SLICE_SIZE] = part
        return flat


_CLOSE_SECONDS = 6.0
"""Longest wait for the thread to end; longer than the timeout of a call."""


class ParameterPuller:
    """Background reader of the newest snapshot.

    While the learner is gone, actors continue with their last parameters (Ape-X appendix F).

    Attributes:
      version: version of the parameters in use.
      age_steps: learner steps between the snapshot in use and the one before it.
      finished: whether the snapshot in use is the run's last.
    """

    def __init__(self, client: ParameterClient):
        self._client = client
        self._wanted = threading.Event()
        self._closed = False
        self._snapshot: Snapshot | None = None
        self.version = 0
        self.age_steps = 0
        self.finished = False
        self._learner_steps = 0
        self._began = 0.0
        self._patience = Patience("no answer from the learner")
        self._thread = Background(self._pull_on_request, "pull")

    def wait(self, load: Callable[[np.ndarray], None], stop: StopRequest) -> bool:
        """Waits for the first snapshot, loads it and starts the background thread.

        Args:
          load: takes the parameters, [P] float32.
          stop: ends the wait.

        Returns:
          False if a stop was requested before the first snapshot.

        Raises:
          ClusterError: the learner refuses the token, or does not answer for too long.
        """
        self._snapshot = self._patience.until_answered(self._client.read, lambda: stop.requested)
        if self._snapshot is None:
            return False
        self.apply(load)
        self._thread.start()
        return True

    def request(self) -> None:
        """Requests the newest snapshot; returns at once."""
        self._wanted.set()

    def apply(self, load: Callable[[np.ndarray], None]) -> None:
        """Loads the newest snapshot, if one has arrived since the last call.

        Args:
          load: takes the parameters, [P] float32.

        Raises:
          ClusterError: the learner refuses the token, or has been gone for too long.
        """
        self._thread.check()
        snapshot, self._snapshot = self._snapshot, None
        # On a slow network the same snapshot can arrive twice.
        if snapshot is not None and snapshot.status.version > self.version:
            load(snapshot.flat)
            status = snapshot.status
            self.version, self.finished = status.version, status.finished
            self.age_steps = status.learner_steps - self._learner_steps
            self._learner_steps = status.learner_steps
            self._began = time.monotonic() - status.wall_seconds

    @property
    def wall_seconds(self) -> float:
        """Seconds since the run's first start by the learner's clock, less a snapshot's transit."""
        return time.monotonic() - self._began

    def close(self) -> None:
        """Ends the background thread."""
        self._closed = True
        self._wanted.set()
        self._thread.join(_CLOSE_SECONDS)

    def _pull_on_request(self) -> None:
        while True:
            requested = self._wanted.wait(timeout=1.0)
            if self._closed:
                return
            self._wanted.clear()
            try:
                self._pull(requested)
                self._patience.renew()
            except ServiceUnavailableError as error:
                self._patience.miss(error)

    def _pull(self, requested: bool) -> None:
        # Without a request, checks for the end of the run: an actor may be waiting for credit.
        if requested or self._client.latest().finished:
            self._snapshot = self._client.read(if_newer_than=self.version) or self._snapshot
