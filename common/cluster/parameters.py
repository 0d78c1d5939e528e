"""Immutable, versioned snapshots of the learner's parameters for everyone who acts.

A snapshot's header and its parameters are one tensor, replaced as a whole, so no reader can see
half of each of two versions. Large ones are read as slices that name the version they want.
"""

import dataclasses
import threading
import time

import numpy as np
import tensorflow as tf

from common.cluster import rpc
from common.cluster.errors import ClusterError, ServiceUnavailableError

STATUS_METHOD = "parameters_status"
READ_METHOD = "parameters_read"
SLICE_SIZE = 500_000  # float32: 2 MB, half of what a message holds
MAX_READ_ATTEMPTS = 20
_HEADER_FIELDS = 5  # int64: version, learner_steps, actor_steps, wall milliseconds, finished
_HEADER_FLOATS = 2 * _HEADER_FIELDS
_UNSEEN_VERSIONS = 1_000_000


@dataclasses.dataclass(frozen=True)
class Status:
    """The learner's progress at its newest publication.

    Attributes:
        version: of the newest snapshot; 0 before the first. It grows with every publication, also
            from one start of the learner to the next.
        learner_steps: learner updates at its publication.
        actor_steps: environment steps of all actors at its publication.
        wall_seconds: since the run's first start, at its publication.
        finished: whether it is the run's last.
    """

    version: int
    learner_steps: int
    actor_steps: int
    wall_seconds: float
    finished: bool


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """One version whole.

    Attributes:
        status: the version and the counters that were published with it.
        flat: [P] float32, the parameters in the publisher's order; the reader's own copy.
    """

    status: Status
    flat: np.ndarray


class ParameterService:
    """Publishes parameters from the process of a `rpc.Server` that has not started yet.

    Args:
        server: where the methods are registered.
        num_parameters: P.
        keep_versions: how many versions stay readable, the newest among them. Each takes 4P bytes.
    """

    def __init__(self, server: rpc.Server, num_parameters: int, keep_versions: int = 4):
        if num_parameters < 1 or keep_versions < 2:
            raise ValueError(
                "num_parameters must be at least 1 and keep_versions at least 2, "
                f"got {num_parameters} and {keep_versions}"
            )
        self.num_parameters = num_parameters
        self._lock = threading.Lock()
        # Readers keep what they hold while a learner restarts: the clock makes its versions newer.
        self._version = time.time_ns() // 1000
        self._status = tf.Variable(tf.zeros([_HEADER_FIELDS], tf.int64), trainable=False)
        # Version v lives in slot v mod K. A variable without value yet would not trace.
        self._slots = [
            tf.Variable(tf.zeros([_HEADER_FLOATS]), trainable=False, shape=tf.TensorShape([None]))
            for _ in range(keep_versions)
        ]
        server.register(STATUS_METHOD, self._serve_status, [])
        server.register(READ_METHOD, self._serve_slice, [tf.TensorSpec([], tf.int64)] * 3)

    def go_on_after(self, version: int) -> None:
        """Makes the next versions newer than one of a former start, and those shortly after it.

        Whatever the clock says: one that was put back would leave readers with old parameters.
        """
        with self._lock:
            self._version = max(self._version, version + _UNSEEN_VERSIONS)

    def publish(
        self,
        flat: np.ndarray | tf.Tensor,
        learner_steps: int,
        actor_steps: int,
        wall_seconds: float,
        finished: bool = False,
    ) -> int:
        """Makes a copy of `flat`, [P] float32, the newest snapshot and returns its version.

        Raises:
            ValueError: `flat` has another shape or dtype.
        """
        if tuple(flat.shape) != (self.num_parameters,) or tf.as_dtype(flat.dtype) != tf.float32:
            raise ValueError(
                f"flat must be [{self.num_parameters}] float32, got "
                f"{list(flat.shape)} {tf.as_dtype(flat.dtype).name}"
            )
        with self._lock:
            version = self._version + 1
            header = tf.constant(
                [version, learner_steps, actor_steps, round(1000 * wall_seconds), finished],
                tf.int64,
            )
            packed = tf.concat([tf.reshape(tf.bitcast(header, tf.float32), [-1]), flat], axis=0)
            self._slots[version % len(self._slots)].assign(packed)
            self._status.assign(header)
            self._version = version
        return version

    def _serve_status(self) -> tuple[tf.Tensor, tf.Tensor]:
        return self._status.read_value(), tf.constant(self.num_parameters, tf.int64)

    def _serve_slice(self, version: tf.Tensor, offset: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
        """Returns the header, as floats, and `flat[offset:offset + size]`; none if it is gone."""
        slot = tf.cast(tf.math.floormod(version, len(self._slots)), tf.int32)
        packed = tf.switch_case(slot, [variable.read_value for variable in self._slots])
        header = tf.bitcast(tf.reshape(packed[:_HEADER_FLOATS], [_HEADER_FIELDS, 2]), tf.int64)
        size = tf.where(tf.equal(header[0], version), size, tf.constant(0, tf.int64))
        begin = offset + _HEADER_FLOATS
        return tf.concat([packed[:_HEADER_FLOATS], packed[begin : begin + size]], axis=0)


class ParameterClient:
    """Reads the snapshots of a `ParameterService`.

    Args:
        client: of the job that publishes.
    """

    def __init__(self, client: rpc.Client):
        self._client = client

    def latest(self) -> Status:
        """Returns the learner's progress; raises what `rpc.Client.call` does."""
        return self._latest()[0]

    def read(self, if_newer_than: int = 0) -> Snapshot | None:
        """Returns the newest snapshot, or None if its version is not above `if_newer_than`.

        Raises:
            ServiceUnavailableError: no answer, or versions vanish faster than they can be read.
            Otherwise as `rpc.Client.call`.
        """
        for _ in range(MAX_READ_ATTEMPTS):
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

    def _latest(self) -> tuple[Status, int]:
        fields, num_parameters = self._client.call(STATUS_METHOD)
        version, learner_steps, actor_steps, wall_ms, finished = fields.numpy().tolist()
        status = Status(version, learner_steps, actor_steps, wall_ms / 1000, bool(finished))
        return status, int(num_parameters)

    def _read_version(self, version: int, num_parameters: int) -> np.ndarray | None:
        """Returns [P] float32 of one version, or None if it is gone."""
        offsets = range(0, num_parameters, SLICE_SIZE)
        futures = [
            self._client.call_async(
                READ_METHOD,
                [
                    tf.constant(version, tf.int64),
                    tf.constant(offset, tf.int64),
                    tf.constant(min(SLICE_SIZE, num_parameters - offset), tf.int64),
                ],
            )
            for offset in offsets
        ]
        flat = np.empty([num_parameters], np.float32)
        for offset, future in zip(offsets, futures, strict=True):
            part = future.result().numpy()[_HEADER_FLOATS:]
            expected = min(SLICE_SIZE, num_parameters - offset)
            if part.size == 0:
                return None
            if part.size != expected:
                raise ClusterError(
                    f"{self._client.address} sent {part.size} of {expected} "
                    "parameters: do all roles run the same version?"
                )
            flat[offset : offset + expected] = part
        return flat
