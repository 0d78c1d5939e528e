"""A memory behind TensorFlow's RPC: the service in one process, its face in the others."""

import math
from typing import Any

import tensorflow as tf

from common.cluster import rpc
from common.replay import memory as memory_lib
from common.replay import seeds
from common.replay.accounts import Accounts

Nest = Any

_BYTES_BESIDE_STEP = 32
"""What key, mass or priority, and length of an item take in a message, at most."""


class ReplayService:
    """Registers the methods of a memory on a server that has not started yet, and keeps accounts.

    Shapes, dtypes and priorities are checked by the replay ops, whose errors name the argument and
    reach the caller with their type. Rows that no message could hold are refused before they are
    drawn or read. No method blocks.
    """

    def __init__(self, server: rpc.Server, memory: memory_lib.Memory, distribution: str = "sample"):
        self._memory = memory
        self._distribution = distribution
        self._accounts = Accounts()
        self._max_batch = _rows_per_message(memory.signature)
        self._finished = tf.Variable(False, trainable=False)
        self._learner_present = tf.Variable(False, trainable=False)
        int64, int32 = tf.TensorSpec([], tf.int64), tf.TensorSpec([], tf.int32)
        int64s, floats = tf.TensorSpec([None], tf.int64), tf.TensorSpec([None], tf.float32)
        columns = [tf.TensorSpec(None, dtype) for dtype in memory.signature.dtypes]
        server.register(
            "replay_insert",
            self._insert,
            [int64, int64, int64s, int64s, tf.TensorSpec([None], tf.int32), floats, *columns],
        )
        self._insert_here = tf.function(
            self._insert_transitions, input_signature=[int64, int64, int64s, floats, *columns]
        )
        server.register("replay_sample", self._sample, [int32, int64])
        server.register("replay_read", self._read, [int64s])
        server.register("replay_update_priorities", memory.update_priorities, [int64s, floats])
        server.register("replay_remove_to_fit", memory.remove_to_fit, [])
        server.register("replay_mass", lambda: memory.mass(distribution), [])
        server.register("replay_statistics", memory.statistics_tensor, [])
        server.register("replay_incarnation", self._accounts.next_incarnation, [])
        server.register("replay_accepted", self._serve_accepted, [])
        server.register("replay_leave", self._leave, [tf.TensorSpec([], tf.bool)])

    @property
    def finished(self) -> bool:
        """Whether the learner said that the run is over."""
        return bool(self._finished)

    @property
    def learner_present(self) -> bool:
        """Whether a learner has asked for the accounts and not taken its leave since."""
        return bool(self._learner_present)

    def accepted(self) -> dict[int, int]:
        """Returns how many transitions were accepted from each incarnation."""
        return _as_dict(self._accounts.table())

    def new_incarnation(self) -> int:
        """Hands out an incarnation to actors in this process."""
        return int(self._accounts.next_incarnation())

    def insert(self, incarnation: int, accepted: int, keys, steps: Nest, priorities) -> None:
        """Adds transitions of actors in this process, who have added `accepted` after them."""
        self._insert_here(
            incarnation, accepted, keys, priorities, *self._memory.signature.flatten(steps)
        )

    def _insert_transitions(self, incarnation, accepted, keys, priorities, *columns):
        no_keys, no_lengths = tf.zeros([0], tf.int64), tf.zeros([0], tf.int32)
        return self._insert(incarnation, accepted, keys, no_keys, no_lengths, priorities, *columns)

    def _insert(self, incarnation, accepted, keys, item_keys, item_lengths, priorities, *columns):
        steps = self._memory.signature.unflatten(columns)
        self._memory.insert(keys, steps, priorities, item_keys, item_lengths)
        statistics = self._memory.statistics_tensor()
        with tf.control_dependencies([statistics]):  # only what went well is accepted
            noted = self._accounts.raise_to(incarnation, accepted)
        with tf.control_dependencies([noted]):
            return tf.identity(statistics)

    def _sample(self, batch_size, seed):
        with tf.control_dependencies([self._fits("batch_size", batch_size)]):
            sample = self._memory.sample(batch_size, self._distribution, seed=seed)
        return [*sample[:5], *self._memory.signature.flatten(sample.steps)]

    def _read(self, keys):
        with tf.control_dependencies([self._fits("the number of keys", tf.size(keys))]):
            found, steps = self._memory.read(keys)
        return [found, *self._memory.signature.flatten(steps)]

    def _fits(self, name, count):
        return tf.debugging.Assert(
            count <= self._max_batch,
            [f"{name} must be at most {self._max_batch} to fit a message, is", count],
        )

    def _serve_accepted(self):
        self._learner_present.assign(True)
        return self._accounts.table()

    def _leave(self, finished):
        self._learner_present.assign(False)
        self._finished.assign(finished)
        return tf.constant(True)


class RemoteMemory:
    """The memory of a `ReplayService`, with what actors and learners need of `Memory`.

    What exceeds a message goes as several calls, of which a failure of one does not undo the
    others. A retried insert never duplicates.
    Errors are those of `rpc.Client.call`; `tf.errors.InvalidArgumentError` is a caller's mistake,
    and its call leaves the memory as it was.
    """

    def __init__(self, client: rpc.Client, specs: Nest):
        self._client = client
        self.signature = memory_lib.Signature(specs)
        self._rows_per_message = _rows_per_message(self.signature)
        self._no_item_keys = tf.zeros([0], tf.int64)
        self._no_item_lengths = tf.zeros([0], tf.int32)
        self.incarnation = 0
        """On whose account inserts go; 0 until `new_incarnation`."""
        self.num_accepted = 0
        """Transitions that the memory has accepted from this incarnation."""

    def insert(self, keys, steps: Nest, priorities) -> memory_lib.Statistics:
        """Adds transitions, each an item, and returns the memory's counters."""
        columns = self.signature.flatten(steps)
        for begin in range(0, max(1, len(keys)), self._rows_per_message):
            end = begin + self._rows_per_message
            # The last call has what is too much as well, for the memory to refuse.
            rows = slice(begin, end if end < len(keys) else None)
            # One after the other: each says how many will have been accepted after it.
            accepted = self.num_accepted + min(end, len(keys))
            counters = self._client.call(
                "replay_insert",
                [
                    tf.constant(self.incarnation, tf.int64),
                    tf.constant(accepted, tf.int64),
                    keys[rows],
                    self._no_item_keys,
                    self._no_item_lengths,
                    priorities[rows],
                    *(column[rows] for column in columns),
                ],
            )
        self.num_accepted = accepted
        return memory_lib.Statistics.of(counters)

    def declare(self) -> None:
        """Says what was accepted: a replay that has started since the last insert learns it."""
        nothing = [
            tf.zeros([0, *shape], dtype)
            for shape, dtype in zip(self.signature.shapes, self.signature.dtypes)
        ]
        self.insert(self._no_item_keys, self.signature.unflatten(nothing), tf.zeros([0]))

    def sample(self, batch_size: int, seed: int | None = None) -> memory_lib.Sample:
        """Draws items with replacement, as `Memory.sample`; in parts if they exceed a message."""
        calls = max(1, math.ceil(batch_size / self._rows_per_message))
        sizes = [batch_size // calls + (i < batch_size % calls) for i in range(calls)]
        split = seed and calls > 1  # parts of one seed would draw the same
        part_seeds = [seeds.derive(seed, i) if split else seed or 0 for i in range(calls)]
        futures = [
            self._client.call_async(
                "replay_sample", [tf.constant(size, tf.int32), tf.constant(part_seed, tf.int64)]
            )
            for size, part_seed in zip(sizes, part_seeds)
        ]
        parts = [self._as_sample(future.result()) for future in futures]
        return parts[0] if calls == 1 else _join(parts)

    def read(self, keys) -> tuple[tf.Tensor, Nest]:
        """Returns which keys [B] are there and their steps, as `Memory.read`."""
        futures = [
            self._client.call_async("replay_read", [keys[begin : begin + self._rows_per_message]])
            for begin in range(0, max(1, len(keys)), self._rows_per_message)
        ]
        parts = [future.result() for future in futures]
        found, *columns = (tf.concat(column, 0) for column in zip(*parts))
        return found, self.signature.unflatten(columns)

    def update_priorities(self, keys, priorities) -> tf.Tensor:
        """Sets raw priorities and returns how many items were gone, as `Memory`."""
        return self._client.call("replay_update_priorities", [keys, priorities])

    def remove_to_fit(self) -> tf.Tensor:
        """Removes what exceeds a soft capacity and returns how many items, as `Memory`."""
        return self._client.call("replay_remove_to_fit")

    def mass(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the total mass (float64) and the number (int64) of items, as `Memory`."""
        return self._client.call("replay_mass")

    def statistics(self) -> memory_lib.Statistics:
        """Returns the memory's counters."""
        return memory_lib.Statistics.of(self._client.call("replay_statistics"))

    def new_incarnation(self) -> int:
        """Begins an account and returns its number, which tells this life of an actor from others.

        Its last 14 bits are for the keys. It is the same through all restarts of the service.
        """
        self.incarnation = int(self._client.call("replay_incarnation"))
        self.num_accepted = 0
        return self.incarnation

    def accepted(self) -> dict[int, int]:
        """Returns how many transitions were accepted from each incarnation that has added any.

        After a restart of the service, one that has added none since is not among them.
        """
        return _as_dict(self._client.call("replay_accepted", timeout_seconds=1.0))

    def leave(self, finished: bool) -> None:
        """Tells the replay's process that this learner ends, and whether the run is over."""
        self._client.call("replay_leave", [tf.constant(finished)])

    def _as_sample(self, reply) -> memory_lib.Sample:
        return memory_lib.Sample(*reply[:5], self.signature.unflatten(list(reply[5:])))


def _as_dict(table) -> dict[int, int]:
    incarnations, accepted = table
    return dict(zip(incarnations.numpy().tolist(), accepted.numpy().tolist()))


def _rows_per_message(signature: memory_lib.Signature) -> int:
    """Returns how many steps, with what goes with each, a message holds whatever their values."""
    step = sum(
        max_bytes + shape.num_elements() * _wire_bytes(dtype)
        for shape, dtype, max_bytes in zip(signature.shapes, signature.dtypes, signature.max_bytes)
    )
    return max(1, rpc.MAX_ARGUMENT_BYTES // (step + _BYTES_BESIDE_STEP))


def _wire_bytes(dtype: tf.DType) -> int:
    """Returns what an element takes in a message at most; integers travel as varints.

    Of a string that is what it takes besides its bytes.
    """
    if dtype == tf.string:
        return 6  # tag and length
    if dtype in (tf.half, tf.bfloat16):
        return 3
    if not dtype.is_integer:
        return dtype.size
    return math.ceil(8 * dtype.size / 7) if dtype.is_unsigned else 10


def _join(parts: list[memory_lib.Sample]) -> memory_lib.Sample:
    """Joins samples of one memory whose total mass may have moved between the calls."""
    total = parts[0].total_mass
    masses = tf.concat([part.masses * (total / part.total_mass) for part in parts], 0)
    keys, lengths = (
        tf.concat([getattr(part, name) for part in parts], 0) for name in ("keys", "lengths")
    )
    steps = tf.nest.map_structure(
        lambda *columns: tf.concat(columns, 0), *[part.steps for part in parts]
    )
    return memory_lib.Sample(keys, masses, total, parts[0].count, lengths, steps)
