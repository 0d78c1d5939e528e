"""A replay memory that other processes use through RPC: the service and its client."""

from collections.abc import Iterator
import math

import numpy as np
import tensorflow as tf

from common.cluster import rpc
from common.replay import memory as memory_lib
from common.replay import seeds
from common.replay.accounts import Accounts, as_dict
from common.types import Nest

_BYTES_BESIDE_STEP = 32
"""The most that an item's key, mass or priority, and length take in a message."""


class ReplayService:
    """An RPC service for a memory that counts the steps accepted from each incarnation.

    The replay ops check shapes, dtypes and priorities; their errors name the argument and reach the
    caller with their type. A call for more rows than a message can hold is refused before any row
    is drawn or read. No method blocks.
    """

    def __init__(self, server: rpc.Server, memory: memory_lib.Memory, sequence_length: int = 0):
        """Registers the methods of `memory` on a server that has not started yet.

        Args:
          server: serves the methods.
          memory: the memory.
          sequence_length: T, steps of each item that is drawn; 0: items are one step.

        Raises:
          ValueError: a sequence exceeds a message.
        """
        self._memory = memory
        self._sequence_length = sequence_length
        self._accounts = Accounts()
        self._max_batch = _items_per_message(memory.signature, sequence_length)
        self._finished = tf.Variable(False, trainable=False)
        self._learner_present = tf.Variable(False, trainable=False)
        int64, int32 = tf.TensorSpec([], tf.int64), tf.TensorSpec([], tf.int32)
        int64s, floats = tf.TensorSpec([None], tf.int64), tf.TensorSpec([None], tf.float32)
        int32s = tf.TensorSpec([None], tf.int32)
        columns = [tf.TensorSpec(None, dtype) for dtype in memory.signature.dtypes]
        insert_signature = [int64, int64, int64s, floats, int64s, int32s, *columns]
        server.register("replay_insert", self._insert, insert_signature)
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

    def _insert(self, incarnation, accepted, keys, priorities, item_keys, item_lengths, *columns):
        steps = self._memory.signature.unflatten(columns)
        self._memory.insert(keys, steps, priorities, item_keys, item_lengths)
        statistics = self._memory.statistics_tensor()
        with tf.control_dependencies([statistics]):  # a failed insert must not be counted
            noted = self._accounts.raise_to(incarnation, accepted)
        with tf.control_dependencies([noted]):
            return tf.identity(statistics)

    def _sample(self, batch_size, seed):
        with tf.control_dependencies([self._fits("batch_size", batch_size)]):
            sample = self._memory.sample(batch_size, max_length=self._sequence_length, seed=seed)
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

    def __init__(self, client: rpc.Client, specs: Nest, sequence_length: int = 0):
        """Prepares calls.

        Args:
          client: calls the service.
          specs: those of the service's memory.
          sequence_length: T, that of the service.

        Raises:
          ValueError: a sequence exceeds a message.
        """
        self._client = client
        self.signature = memory_lib.Signature(specs)
        self._sequence_length = sequence_length
        self._default_items = memory_lib.DefaultItems()
        self._rows_per_message = _items_per_message(self.signature, 0)
        self._items_per_message = _items_per_message(self.signature, sequence_length)
        self.incarnation = 0
        self.num_accepted = 0

    def insert(
        self, keys, steps: Nest, priorities, item_keys=None, item_lengths=None
    ) -> memory_lib.Statistics:
        """Adds steps and the items that view them, and returns the memory's counters.

        An item may view steps of earlier calls. The memory refuses and counts it as incomplete if
        one of them is gone, as after a restart of the service.

        Args and errors are those of `Memory.insert`.
        """
        columns = self.signature.flatten(steps)
        most = self._rows_per_message
        if item_keys is None:
            messages = _messages_of_steps(len(keys), most)
        else:
            keys, *columns = map(np.asarray, (keys, *columns))
            messages = _messages_of_items(keys, item_keys, item_lengths, most)
        accepted = self.num_accepted
        for count, rows, items in messages:
            # In sequence, since each call says how many steps are accepted after it.
            accepted += count
            counters = self._client.call(
                "replay_insert",
                [
                    tf.constant(self.incarnation, tf.int64),
                    tf.constant(accepted, tf.int64),
                    keys[rows],
                    priorities[items],
                    *self._default_items(
                        None if item_keys is None else item_keys[items],
                        None if item_lengths is None else item_lengths[items],
                    ),
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
        """Draws items with replacement; see `Memory.sample`.

        Raises:
          ValueError: `max_length` is not the sequence length of the service.
        """
        if max_length != self._sequence_length:
            raise ValueError(
                f"max_length must be {self._sequence_length}, the sequence length of the service, "
                f"is {max_length}"
            )
        calls = max(1, math.ceil(batch_size / self._items_per_message))
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


def _messages_of_steps(num_steps: int, most: int) -> Iterator[tuple[int, slice, slice]]:
    """Yields the number and the rows of the steps of each message; each step is an item."""
    for begin in range(0, max(1, num_steps), most):
        end = begin + most
        # The last message also has surplus rows of other columns, for the memory to refuse.
        rows = slice(begin, end if end < num_steps else None)
        yield min(end, num_steps) - begin, rows, rows


def _messages_of_items(
    keys, item_keys, item_lengths, most: int
) -> Iterator[tuple[int, slice | np.ndarray, slice]]:
    """Yields the number and the rows of the steps, and the rows of the items, of each message.

    A step travels with the first item that views it, because the memory drops a step that no item
    views. So all steps of an item are stored when it arrives. Steps without an item are counted in
    the last message; where there are several, they are not sent.

    Args:
      keys: [S] int64, keys of the steps.
      item_keys: [I] int64.
      item_lengths: [I] int32, or None.
      most: steps, and items, that fit a message.
    """
    num_steps, num_items = len(keys), len(item_keys)
    if num_steps <= most and num_items <= most:
        yield num_steps, slice(None), slice(None)
        return
    first_keys = np.asarray(item_keys)
    ends = first_keys + (1 if item_lengths is None else np.asarray(item_lengths))
    is_left = np.ones(num_steps, bool)
    rows, begin = np.zeros(0, np.int64), 0
    for item in range(num_items):
        new = np.flatnonzero(is_left & (keys >= first_keys[item]) & (keys < ends[item]))
        if item > begin and (len(rows) + len(new) > most or item - begin == most):
            yield len(rows), rows, slice(begin, item)
            rows, begin = rows[:0], item
        is_left[new] = False
        rows = np.concatenate([rows, new])
    yield len(rows) + np.count_nonzero(is_left), rows, slice(begin, None)


def rows_per_message(signature: memory_lib.Signature) -> int:
    """Returns how many rows of these columns always fit a message with what belongs to them."""
    row = sum(
        max_bytes + shape.num_elements() * _wire_bytes(dtype)
        for shape, dtype, max_bytes in zip(signature.shapes, signature.dtypes, signature.max_bytes)
    )
    return rpc.MAX_ARGUMENT_BYTES // (row + _BYTES_BESIDE_STEP)


def _items_per_message(signature: memory_lib.Signature, sequence_length: int) -> int:
    """Returns how many items, with their keys and priorities, always fit a message.

    Args:
      signature: the columns of a step.
      sequence_length: steps of an item; 0: one, which is not checked here.

    Raises:
      ValueError: a sequence exceeds a message.
    """
    steps = rows_per_message(signature)
    if sequence_length == 0:
        return max(1, steps)
    if steps < sequence_length:
        raise ValueError(
            f"a sequence of {sequence_length} steps exceeds a message, which holds {steps}: make "
            "the sequences shorter or the observations smaller"
        )
    return steps // sequence_length


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
