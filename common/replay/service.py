"""A memory behind TensorFlow's RPC: the service in one process, its face in the others."""

import math
import random
from typing import Any

import tensorflow as tf

from common.cluster import rpc
from common.replay import key_layout
from common.replay import memory as memory_lib

Nest = Any

_BYTES_BESIDE_STEP = 32
"""What key, mass or priority, and length of an item take in a message, at most."""


class ReplayService:
    """Registers the methods of a memory on a server that has not started yet.

    Shapes, dtypes and priorities are checked by the replay ops, whose errors name the argument and
    reach the caller with their type. A sample that no message could hold is refused before it is
    drawn. No method blocks.
    """

    def __init__(self, server: rpc.Server, memory: memory_lib.Memory, distribution: str = "sample"):
        self._memory = memory
        self._distribution = distribution
        # At random, so that a new service does not hand out what a former one handed out.
        first = random.randrange(key_layout.MAX_INCARNATIONS)
        self._incarnation = tf.Variable(first, dtype=tf.int64, trainable=False)
        # A variable alone would be read only after others may have counted on.
        self._one_at_a_time = tf.CriticalSection()
        self._max_batch = _rows_per_message(memory.signature)
        self._finished = tf.Variable(False, trainable=False)
        int64s, floats = tf.TensorSpec([None], tf.int64), tf.TensorSpec([None], tf.float32)
        columns = [tf.TensorSpec(None, dtype) for dtype in memory.signature.dtypes]
        server.register(
            "replay_insert", self._insert,
            [int64s, int64s, tf.TensorSpec([None], tf.int32), floats, *columns],
        )
        server.register("replay_sample", self._sample, [tf.TensorSpec([], tf.int32)])
        server.register("replay_update_priorities", memory.update_priorities, [int64s, floats])
        server.register("replay_statistics", memory.statistics_tensor, [])
        server.register("replay_incarnation", self._next_incarnation, [])
        server.register("replay_finish", self._finish, [])

    @property
    def finished(self) -> bool:
        """Whether the learner said that the run is over."""
        return bool(self._finished)

    def _insert(self, keys, item_keys, item_lengths, priorities, *columns):
        steps = self._memory.signature.unflatten(columns)
        self._memory.insert(keys, steps, priorities, item_keys, item_lengths)
        return self._memory.statistics_tensor()

    def _sample(self, batch_size):
        fits = tf.debugging.Assert(
            batch_size <= self._max_batch,
            [f"batch_size must be at most {self._max_batch} to fit a message, is", batch_size],
        )
        with tf.control_dependencies([fits]):
            sample = self._memory.sample(batch_size, self._distribution)
        return [*sample[:5], *self._memory.signature.flatten(sample.steps)]

    def _next_incarnation(self):
        count = self._one_at_a_time.execute(lambda: self._incarnation.assign_add(1).read_value())
        return count % key_layout.MAX_INCARNATIONS

    def _finish(self):
        self._finished.assign(True)
        return tf.constant(True)


class RemoteMemory:
    """The memory of a `ReplayService`, with what actors and learners need of `Memory`.

    What exceeds a message goes as several calls in parallel, of which a failure of one does not
    undo the others. A retried insert never duplicates.
    Errors are those of `rpc.Client.call`; `tf.errors.InvalidArgumentError` is a caller's mistake,
    and its call leaves the memory as it was.
    """

    def __init__(self, client: rpc.Client, specs: Nest):
        self._client = client
        self.signature = memory_lib.Signature(specs)
        self._rows_per_message = _rows_per_message(self.signature)
        self._no_item_keys = tf.zeros([0], tf.int64)
        self._no_item_lengths = tf.zeros([0], tf.int32)

    def insert(self, keys, steps: Nest, priorities) -> memory_lib.Statistics:
        """Adds transitions, each an item, and returns the memory's counters."""
        columns = self.signature.flatten(steps)
        futures = []
        for begin in range(0, max(1, len(keys)), self._rows_per_message):
            end = begin + self._rows_per_message
            # The last call has what is too much as well, for the memory to refuse.
            rows = slice(begin, end if end < len(keys) else None)
            futures.append(
                self._client.call_async(
                    "replay_insert",
                    [keys[rows], self._no_item_keys, self._no_item_lengths, priorities[rows],
                     *(column[rows] for column in columns)],
                )
            )
        statistics = [memory_lib.Statistics.of(future.result()) for future in futures]
        # The calls may arrive in any order: the latest counters are those that have grown most.
        return max(statistics, key=lambda counters: counters[2:])

    def sample(self, batch_size: int) -> memory_lib.Sample:
        """Draws items with replacement, as `Memory.sample`."""
        calls = max(1, math.ceil(batch_size / self._rows_per_message))
        sizes = [batch_size // calls + (i < batch_size % calls) for i in range(calls)]
        futures = [
            self._client.call_async("replay_sample", [tf.constant(size, tf.int32)])
            for size in sizes
        ]
        parts = [self._as_sample(future.result()) for future in futures]
        return parts[0] if calls == 1 else _join(parts)

    def update_priorities(self, keys, priorities) -> tf.Tensor:
        """Sets raw priorities and returns how many items were gone, as `Memory`."""
        return self._client.call("replay_update_priorities", [keys, priorities])

    def statistics(self) -> memory_lib.Statistics:
        """Returns the memory's counters."""
        return memory_lib.Statistics.of(self._client.call("replay_statistics"))

    def new_incarnation(self) -> int:
        """Returns a number that tells this life of an actor from its others."""
        return int(self._client.call("replay_incarnation"))

    def finish(self) -> None:
        """Tells the replay's process that the run is over."""
        self._client.call("replay_finish")

    def _as_sample(self, reply) -> memory_lib.Sample:
        return memory_lib.Sample(*reply[:5], self.signature.unflatten(list(reply[5:])))


def _rows_per_message(signature: memory_lib.Signature) -> int:
    """Returns how many steps, with what goes with each, a message holds whatever their values."""
    step = sum(
        shape.num_elements() * _wire_bytes(dtype)
        for shape, dtype in zip(signature.shapes, signature.dtypes)
    )
    return max(1, rpc.MAX_ARGUMENT_BYTES // (step + _BYTES_BESIDE_STEP))


def _wire_bytes(dtype: tf.DType) -> int:
    """Returns what an element takes in a message at most; integers travel as varints."""
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
