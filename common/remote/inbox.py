"""The RPC service of a store that other processes use.

Its inbox takes each delivery only once, however often it arrives.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
import contextlib
import secrets
import threading
import time

import numpy as np
import tensorflow as tf

from common.cluster import rpc, rpc_server
from common.replay import footprint
from common.replay.store import Counters, Store

PART_BYTES = 3 * 2**20
"""Size in bytes of each part but the last of a delivery that exceeds a message."""
_IDENTITIES = 1 << 32
_PRESENT_SECONDS = 10.0
"""Age of the last report beyond which its sender counts as gone; senders report every second."""
_HELD_SECONDS = 60.0
"""Time for which an incomplete delivery is held after its last part, since its sender may be gone.
A sender that is only slow sends all parts again."""


def pack(columns: Sequence) -> bytes:
    """Serialises columns to one byte string, for a delivery that exceeds a message."""
    parts = [tf.io.serialize_tensor(column).numpy() for column in columns]
    return np.array([len(part) for part in parts], np.int64).tobytes() + b"".join(parts)


def unpack(packed: bytes, dtypes: Sequence[tf.DType]) -> list[np.ndarray]:
    """Reverses `pack`.

    Raises:
      tf.errors.InvalidArgumentError: the bytes are not columns of these dtypes.
    """
    begin = 8 * len(dtypes)
    if len(packed) < begin:
        raise tf.errors.InvalidArgumentError(None, None, "a delivery is cut short")
    columns = []
    for size, dtype in zip(np.frombuffer(packed[:begin], np.int64), dtypes):
        columns.append(tf.io.parse_tensor(packed[begin : begin + size], dtype).numpy())
        begin += size
    return columns


@contextlib.contextmanager
def _mistakes_as_value_errors() -> Iterator[None]:
    """Converts errors of the replay ops, since `tf.numpy_function` keeps only Python's types."""
    try:
        yield
    except tf.errors.InvalidArgumentError as error:
        raise ValueError(error.message) from None


class Inbox:
    """Receiver of deliveries to a store, with a count of the actor steps accepted from each start.

    An incarnation identifies one start of a sender, such as an actor process. It is identity * 2^14
    + number. The identity is drawn when this inbox is created, so that incarnations of different
    services differ (two of a run's n services draw the same identity with probability n^2 / 2^33).
    The number becomes part of replay keys.

    The deliveries of an incarnation are numbered 1, 2, ..., and each is taken once. A store whose
    rows have keys needs no numbers. With each delivery a sender states how many of its actor steps
    are accepted after it. A restarted service therefore recovers the count from the sender's next
    delivery, and a repeated or late call changes nothing. Methods on tensors can be traced into
    graphs.
    """

    def __init__(self, store: Store):
        """Creates an empty table; `store` receives the deliveries."""
        self._store = store
        # Not the module random, which a user's environment may seed.
        self._identity = 1 + secrets.randbelow(_IDENTITIES - 1)
        # A random start, so that a new service does not repeat the numbers of an earlier one.
        self._number = secrets.randbelow(footprint.MAX_INCARNATIONS)
        self._accepted = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, 0)
        self._one_at_a_time = tf.CriticalSection()
        self._lock = threading.RLock()
        self._received: dict[int, int] = {}
        self._heard: set[int] = set()  # not those known only from a checkpoint
        self._parts: dict[tuple[int, int], tuple[float, dict[int, bytes]]] = {}
        self._done: dict[int, int] = {}
        self._closed = False
        self._reports: dict[int, tuple[float, Counters]] = {}

    def next_incarnation(self) -> int:
        """Returns a new incarnation, whose number is free in the table if any number is."""
        count = footprint.MAX_INCARNATIONS
        with self._lock:
            taken = {incarnation % count for incarnation in self.accepted()}
            following = [(self._number + 1 + i) % count for i in range(count)]
            # If no number is free, the next one was given out longest ago.
            self._number = next((n for n in following if n not in taken), following[0])
            return self._identity * count + self._number

    def raise_to(self, incarnation: tf.Tensor, accepted: tf.Tensor) -> tf.Tensor:
        """Increases an incarnation's accepted steps to at least `accepted`; returns the count."""

        def raise_():
            most = tf.maximum(self._accepted.lookup(incarnation), accepted)
            with tf.control_dependencies([self._accepted.insert(incarnation, most)]):
                return tf.identity(most)

        return self._one_at_a_time.execute(raise_)

    def table(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns incarnations and the actor steps accepted from each, both int64 [n]."""
        return self._accepted.export()

    def accepted(self) -> dict[int, int]:
        """Returns the table as a dictionary from incarnation to accepted steps."""
        return as_dict(self.table())

    @_mistakes_as_value_errors()
    def put(self, incarnation: int, number: int, *columns: np.ndarray) -> bool:
        """Puts a delivery into the store, unless it was taken before.

        Returns:
          False if the store has no room for it now.

        Raises:
          ValueError: the delivery before this one is missing, or the store refuses the rows.
        """
        with self._lock:
            if not self._is_new(incarnation, number):
                return True
            if not self._store.put(self._store.wire.rows(columns)):
                return False
            self._received[incarnation] = number
            self._heard.add(incarnation)
        return True

    @_mistakes_as_value_errors()
    def put_part(self, incarnation: int, number: int, size: int, offset: int, part: bytes) -> bool:
        """Takes a part of a delivery; puts the delivery, as `put` does, once it is complete.

        Returns:
          True if the delivery was taken, now or before.
        """
        with self._lock:
            if not self._is_new(incarnation, number):
                return True
            now = time.monotonic()
            _, parts = self._parts.pop((incarnation, number), (now, {}))
            parts[int(offset)] = part
            if sum(map(len, parts.values())) < size:
                held = {
                    key: each for key, each in self._parts.items() if now - each[0] < _HELD_SECONDS
                }
                self._parts = held | {(incarnation, number): (now, parts)}
                return False
            whole = b"".join(parts[offset] for offset in sorted(parts))
            dtypes = [spec.dtype for spec in self._store.wire.put_specs]
            return self.put(incarnation, number, *unpack(whole, dtypes))

    def report(self, sender: int, incarnation: int, counters: Sequence[int]) -> tuple[int, int]:
        """Records the counters of a sender's own store.

        Returns:
          The numbers of the incarnation's newest received and newest processed delivery.
        """
        with self._lock:
            self._reports[sender] = time.monotonic(), Counters.of(counters)
            received = self._received.get(incarnation, 0)
            return received, received if self._closed else self._done.get(incarnation, 0)

    def reported(self) -> list[Counters]:
        """Returns the counters of the senders that have reported lately."""
        now = time.monotonic()
        with self._lock:
            reports = list(self._reports.values())
        return [counters for at, counters in reports if now - at < _PRESENT_SECONDS]

    def acknowledge(self, numbers: Mapping[int, int]) -> None:
        """Marks deliveries as processed, which `report` tells their senders.

        Args:
          numbers: number of the last processed delivery of each incarnation. After a restart this
            includes the numbers in the checkpoint, up to which no delivery is taken again.
        """
        with self._lock:
            self._done.update(numbers)
            for incarnation, number in numbers.items():
                self._received[incarnation] = max(number, self._received.get(incarnation, 0))

    def close(self) -> None:
        """Reports every received delivery as processed, so that no sender waits any longer."""
        self._closed = True

    def _is_new(self, incarnation: int, number: int) -> bool:
        if self._store.keyed:
            return True
        last = self._received.get(incarnation, 0)
        if number > last + 1 and incarnation in self._heard:
            raise ValueError(f"number must be at most {last + 1}, is {number}")
        return number > last


def as_dict(table: tuple[tf.Tensor, tf.Tensor]) -> dict[int, int]:
    """Converts a result of `Inbox.table` to a dictionary from incarnation to accepted steps."""
    incarnations, accepted = table
    return dict(zip(incarnations.numpy().tolist(), accepted.numpy().tolist(), strict=True))


class StoreService:
    """The service of a store of any kind, whose clients are `RemoteStore`.

    The store checks its arguments. Its errors name the wrong argument and reach the caller with
    their type. A request for more items than a message can hold is refused before any item is
    drawn. No method blocks.

    Attributes:
      store: the store.
      inbox: receives the deliveries to the store.
      finished: whether the learner has said that the run is over.
      learner_present: whether a learner has called `accepted` and has not disconnected since.
    """

    def __init__(self, server: rpc_server.Server, store: Store):
        """Registers the methods on a server that has not started yet.

        Args:
          server: offers the methods.
          store: the store.
        """
        self.store, self.inbox = store, Inbox(store)
        self.finished = self.learner_present = False
        in_python = rpc_server.in_python
        int32, int64 = tf.TensorSpec([], tf.int32), tf.TensorSpec([], tf.int64)
        counters = rpc_server.Count("counters", shape=[len(Counters._fields)])
        incarnation = rpc_server.Count("incarnation", tf.int64.max)
        accepted = rpc_server.Count("accepted")
        head = [incarnation, rpc_server.Count("number"), accepted]
        part = [rpc_server.Count("size"), rpc_server.Count("offset"), tf.TensorSpec([], tf.string)]
        methods: list[tuple[str, Callable, list]] = [
            ("join", in_python(self.inbox.next_incarnation, tf.int64), []),
            ("put", self._put, [*head, *store.wire.put_specs]),
            ("put_part", self._put_part, [*head, *part]),
            ("report", self._report, [rpc_server.Count("sender"), incarnation, accepted, counters]),
            ("counters", store.counters_tensor, []),
            ("trim", store.trim, []),
            ("mass", store.mass, []),
            ("accepted", in_python(self._serve_accepted, [tf.int64, tf.int64]), []),
            ("disconnect", in_python(self._disconnect, tf.bool), [tf.TensorSpec([], tf.bool)]),
        ]
        if store.keyed:
            self._most_drawn = max(1, rpc.MAX_ARGUMENT_BYTES // store.wire.draw_bytes)
            outputs = [tf.TensorSpec([None], tf.int64), *store.wire.output_specs]
            methods += [
                ("draw", self._draw, [int32, int64]),
                ("write_back", self._write_back, outputs),
            ]
        for name, function, signature in methods:
            server.register(f"store_{name}", function, signature)

    def accepted(self) -> dict[int, int]:
        """Returns the number of actor steps accepted from each incarnation."""
        return self.inbox.accepted()

    def _put(self, incarnation, number, accepted, *columns):
        if self.store.keyed:
            is_taken = tf.constant(True)
            self.store.put(self.store.wire.rows(columns))
        else:
            is_taken = tf.numpy_function(self.inbox.put, [incarnation, number, *columns], tf.bool)
        return self._answer(is_taken, incarnation, accepted)

    def _put_part(self, incarnation, number, accepted, *part):
        is_taken = tf.numpy_function(self.inbox.put_part, [incarnation, number, *part], tf.bool)
        return self._answer(is_taken, incarnation, accepted)

    def _answer(self, is_taken, incarnation, accepted):
        """Returns whether a delivery was taken, and the counters after it, int64 [1 + 6]."""
        is_taken.set_shape([])
        with tf.control_dependencies([is_taken]):  # Python functions run in any order otherwise
            counters = self.store.counters_tensor()
        counters.set_shape([len(Counters._fields)])
        with tf.control_dependencies([counters]):  # a failed put must not be counted
            if tf.get_static_value(is_taken):
                noted = self.inbox.raise_to(incarnation, accepted)
            else:  # there is no room, or parts of the delivery are missing
                noted = tf.cond(
                    is_taken, lambda: self.inbox.raise_to(incarnation, accepted), lambda: accepted
                )
        with tf.control_dependencies([noted]):
            return tf.concat([[tf.cast(is_taken, tf.int64)], counters], 0)

    def _report(self, sender, incarnation, accepted, counters):
        with tf.control_dependencies([self.inbox.raise_to(incarnation, accepted)]):
            numbers = [sender, incarnation, counters]
            return tf.stack(tf.numpy_function(self.inbox.report, numbers, [tf.int64, tf.int64]))

    def _draw(self, num_items, seed):
        text = f"num_items must be from 1 to {self._most_drawn} to fit a message, is"
        in_range = (num_items >= 1) & (num_items <= self._most_drawn)
        fits = tf.debugging.Assert(in_range, [text, num_items])
        with tf.control_dependencies([fits]):
            return self.store.wire.drawn_columns(self.store.draw(num_items, seed))

    def _write_back(self, token, *outputs):
        return self.store.write_back(token, outputs[0] if len(outputs) == 1 else outputs)

    def _serve_accepted(self) -> list[np.ndarray]:
        self.learner_present = True
        return [column.numpy() for column in self.inbox.table()]

    def _disconnect(self, finished: np.bool_) -> bool:
        self.learner_present, self.finished = False, bool(finished)
        return True
