"""A replay memory that other processes use through RPC: the service and its client."""

import math

import tensorflow as tf

from common.cluster import rpc
from common.replay import memory as memory_lib
from common.replay import seeds
from common.replay.accounts import Accounts, as_dict
from common.types import Nest

_BYTES_BESIDE_STEP = 32
"""The most that a row's key, mass or priority, and length take in a message."""


class ReplayService:
    """An RPC service for a memory that counts the steps accepted from each incarnation.

    Items are single steps: sequences are drawn where they are stored (`common.roles.worker`). The
    replay ops check shapes, dtypes and priorities; their errors name the argument and reach the
    caller with their type. A call for more rows than a message can hold is refused before any row
    is drawn or read. No method blocks.
    """

    def __init__(self, server: rpc.Server, memory: memory_lib.Memory):
        """Registers the methods of `memory` on a server that has not started yet."""
        self._memory = memory
        self._accounts = Accounts()
        self._max_batch = max(1, rows_per_message(memory.signature))
        self._finished = tf.Variable(False, trainable=False)
        self._learner_present = tf.Variable(False, trainable=False)
        int64, int32 = tf.TensorSpec([], tf.int64), tf.TensorSpec([], tf.int32)
        int64s, floats = tf.TensorSpec([None], tf.int64), tf.TensorSpec([None], tf.float32)
        columns = [tf.TensorSpec(None, dtype) for dtype in memory.signature.dtypes]
        server.register("replay_insert", self._insert, [int64, int64, int64s, floats, *columns])
        server.register("replay_sample", self._sample, [int32, int64])
        server.register("replay_update_priorities", memory.update_priorities, [int64s, floats])
        server.register("replay_remove_to_fit", memory.remove_to_fit, [])
        server.register("replay_mass", memory.mass, [])
        server.register("replay_statistics", memory.statistics_tensor, [])
        server.register("replay_incarnation", self._accounts.next_incarnation, [])
        server.register("replay_accepted", self._serve_accepted, [])
        server.register("replay_disconnect", self._disconnect, [tf.TensorSpec([], tf.bool)])

    @property
    def finished(self) -> bool:
        """True if the learner has said that the run is over."""
        return bool(self._finished)

    @property
    def learner_present(self) -> bool:
        """True if a learner has called `accepted` and has not disconnected since."""
        return bool(self._learner_present)

    def accepted(self) -> dict[int, int]:
        """Returns the number of steps accepted from each incarnation."""
        return self._accounts.as_dict()

    def _insert(self, incarnation, accepted, keys, priorities, *columns):
        added = tf.size(keys, tf.int64)
        with tf.control_dependencies([self._accounts.checked(incarnation, accepted, added)]):
            self._memory.insert(keys, self._memory.signature.unflatten(columns), priorities)
        statistics = self._memory.statistics_tensor()
        with tf.control_dependencies([statistics]):  # a failed insert must not be counted
            noted = self._accounts.raise_to(incarnation, accepted)
        with tf.control_dependencies([noted]):
            return tf.identity(statistics)

    def _sample(self, batch_size, seed):
        with tf.control_dependencies([self._fits("batch_size", batch_size)]):
            sample = self._memory.sample(batch_size, seed=seed)
        return [*sample[:5], *self._memory.signature.flatten(sample.steps)]

    def _fits(self, name, count):
        return tf.debugging.Assert(
            count <= self._max_batch,
            [f"{name} must be at most {self._max_batch} to fit a message, is", count],
        )

    def _serve_accepted(self):
        self._learner_present.assign(True)
        return self._accounts.table()

    def _disconnect(self, finished):
        self._learner_present.assign(False)
        self._finished.assign(finished)
        return tf.constant(True)


class RemoteMemory:
    """A client of a `ReplayService`; see `ReplayMemory`.

    Rows that exceed a message are sent in several calls; if one of them fails, the others are not
    undone. A retried insert never duplicates. Errors are those of `rpc.Client.call`. After
    `tf.errors.InvalidArgumentError`, a caller's mistake, the call has left the memory unchanged.

    Attributes:
      signature: the columns of a stored step.
      incarnation: the incarnation that inserts are counted for; 0 before `new_incarnation`.
      num_accepted: steps that the memory has accepted from this incarnation.
    """

    def __init__(self, client: rpc.Client, specs: Nest):
        """Prepares calls.

        Args:
          client: calls the service.
          specs: those of the service's memory.
        """
        self._client = client
        self.signature = memory_lib.Signature(specs)
        self._rows_per_message = max(1, rows_per_message(self.signature))
        self.incarnation = 0
        self.num_accepted = 0

    def insert(self, keys, steps: Nest, priorities) -> memory_lib.Statistics:
        """Adds steps, each of them an item, and returns the memory's counters.

        Args and errors are those of `Memory.insert`.
        """
        columns = self.signature.flatten(steps)
        num_steps, most = len(keys), self._rows_per_message
        accepted = self.num_accepted
        for begin in range(0, max(1, num_steps), most):
            # In sequence, since each call says how many steps are accepted after it. The last one
            # also has surplus rows of other columns, for the memory to refuse.
            end = begin + most
            rows = slice(begin, end if end < num_steps else None)
            accepted += min(end, num_steps) - begin
            counters = self._client.call(
                "replay_insert",
                [
                    tf.constant(self.incarnation, tf.int64),
                    tf.constant(accepted, tf.int64),
                    keys[rows],
                    priorities[rows],
                    *(column[rows] for column in columns),
                ],
            )
        self.num_accepted = accepted
        return memory_lib.Statistics.of(counters)

    def report_accepted(self) -> None:
        """Repeats to the service how many steps were accepted from this incarnation.

        A service that has restarted since the last insert does not know the number otherwise.
        """
        nothing = [
            tf.zeros([0, *shape], dtype)
            for shape, dtype in zip(self.signature.shapes, self.signature.dtypes)
        ]
        self.insert(tf.zeros([0], tf.int64), self.signature.unflatten(nothing), tf.zeros([0]))

    def sample(
        self, batch_size: int, seed: int | None = None, max_length: int = 0
    ) -> memory_lib.Sample:
        """Draws items with replacement; see `Memory.sample`."""
        assert max_length == 0, "a service draws single steps"
        calls = max(1, math.ceil(batch_size / self._rows_per_message))
        sizes = [batch_size // calls + (i < batch_size % calls) for i in range(calls)]
        split = seed and calls > 1  # with one seed all parts would draw the same items
        part_seeds = [seeds.derive(seed, i) if split else seed or 0 for i in range(calls)]
        futures = [
            self._client.call_async(
                "replay_sample", [tf.constant(size, tf.int32), tf.constant(part_seed, tf.int64)]
            )
            for size, part_seed in zip(sizes, part_seeds)
        ]
        parts = [self._as_sample(future.result()) for future in futures]
        return parts[0] if calls == 1 else _join(parts)

    def update_priorities(self, keys, priorities) -> tf.Tensor:
        """Sets raw priorities; returns how many of the items are gone (int64)."""
        return self._client.call("replay_update_priorities", [keys, priorities])

    def remove_to_fit(self) -> tf.Tensor:
        """Removes items until the stored steps fit the capacity; returns how many items (int64)."""
        return self._client.call("replay_remove_to_fit")

    def mass(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the sum of all items' masses (float64) and their number (int64)."""
        return self._client.call("replay_mass")

    def statistics(self) -> memory_lib.Statistics:
        """Returns the memory's counters."""
        return memory_lib.Statistics.of(self._client.call("replay_statistics"))

    def new_incarnation(self) -> int:
        """Requests a new incarnation for this client's inserts and returns it.

        The incarnation stays valid when the service restarts.
        """
        self.incarnation = int(self._client.call("replay_incarnation"))
        self.num_accepted = 0
        return self.incarnation

    def accepted(self) -> dict[int, int]:
        """Returns the number of steps accepted from each incarnation.

        After a restart of the service, an incarnation is missing until its next insert.
        """
        return as_dict(self._client.call("replay_accepted", timeout_seconds=1.0))

    def disconnect(self, finished: bool) -> None:
        """Tells the service that this learner ends, and whether the run is over."""
        self._client.call("replay_disconnect", [tf.constant(finished)])

    def _as_sample(self, reply) -> memory_lib.Sample:
        return memory_lib.Sample(*reply[:5], self.signature.unflatten(list(reply[5:])))


def rows_per_message(signature: memory_lib.Signature) -> int:
    """Returns how many rows of these columns always fit a message with what belongs to them."""
    row = sum(
        max_bytes + shape.num_elements() * _wire_bytes(dtype)
        for shape, dtype, max_bytes in zip(signature.shapes, signature.dtypes, signature.max_bytes)
    )
    return rpc.MAX_ARGUMENT_BYTES // (row + _BYTES_BESIDE_STEP)


def _wire_bytes(dtype: tf.DType) -> int:
    """Returns the most bytes that an element takes in a message; integers travel as varints.

    For a string: the bytes in addition to its own.
    """
    if dtype == tf.string:
        return 6  # tag and length
    if dtype in (tf.half, tf.bfloat16):
        return 3
    if not dtype.is_integer:
        return dtype.size
    return math.ceil(8 * dtype.size / 7) if dtype.is_unsigned else 10


def _join(parts: list[memory_lib.Sample]) -> memory_lib.Sample:
    """Joins samples of one memory, whose total mass may have changed between the calls."""
    total = parts[0].total_mass
    masses = tf.concat([part.masses * (total / part.total_mass) for part in parts], 0)
    keys, lengths = (
        tf.concat([getattr(part, name) for part in parts], 0) for name in ("keys", "lengths")
    )
    steps = tf.nest.map_structure(
        lambda *columns: tf.concat(columns, 0), *[part.steps for part in parts]
    )
    return memory_lib.Sample(keys, masses, total, parts[0].count, lengths, steps)
