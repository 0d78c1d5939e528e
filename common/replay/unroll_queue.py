"""A bounded queue of unrolls, from which a learner takes its batches."""

import collections
from collections.abc import Sequence
import threading
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from common.replay.signature import Signature
from common.replay.store import Counters, Store, Wire, equal_batch
from common.types import Batch, Nest


class UnrollBatch(NamedTuple):
    """Unrolls taken from a queue.

    Attributes:
      steps: nest of [B, T, ...].
    """

    steps: Nest

    @property
    def token(self) -> tf.Tensor:
        """Nothing: the unrolls are gone."""
        return tf.zeros([0], tf.int64)

    def batch(self) -> Batch:
        """Returns what updates learn from."""
        return equal_batch(self.steps)


class UnrollWire(Wire):
    """The form in which unrolls travel.

    Attributes:
      signature: the columns of an unroll.
    """

    consumes = True

    def __init__(self, specs: Nest):
        """Computes sizes; `specs` are those of the queue."""
        self.signature = Signature(specs)
        self.row_bytes = self.draw_bytes = self.signature.message_bytes
        self.put_specs = self.signature.column_specs

    def columns(self, rows: Nest) -> list:
        """Returns the columns of unrolls."""
        return self.signature.flatten(rows)

    def rows(self, columns: Sequence) -> Nest:
        """Reverses `columns`."""
        return self.signature.unflatten(columns)

    def drawn_columns(self, drawn: UnrollBatch) -> list:
        """Returns the columns of the unrolls."""
        return self.signature.flatten(drawn.steps)

    def drawn(self, parts: Sequence[Sequence[tf.Tensor]]) -> UnrollBatch:
        """Joins batches."""
        columns = [tf.concat(column, 0) for column in zip(*parts)]
        return UnrollBatch(self.signature.unflatten(columns))


class UnrollQueue(Store):
    """A first in, first out queue of unrolls, which are learnt from once (AQL section 4, A.1).

    Attributes:
      signature: the columns of an unroll.
      capacity: unrolls that the queue holds at most.
    """

    def __init__(self, specs: Nest, capacity: int):
        """Makes an empty queue.

        Args:
          specs: nest of `tf.TensorSpec` of shape [T, ...]: the columns of an unroll.
          capacity: unrolls that it holds at most.

        Raises:
          ValueError: `capacity` is less than 1.
        """
        if capacity < 1:
            raise ValueError(f"capacity must be at least 1, is {capacity}")
        self.wire = UnrollWire(specs)
        self.signature = self.wire.signature
        self.capacity = capacity
        self._lock = threading.Lock()
        self._rows: collections.deque[Sequence[np.ndarray]] = collections.deque()
        self._inserted = self._sampled = 0

    def put(self, rows: Nest) -> bool:
        """Adds unrolls, unless they do not fit now.

        Args:
          rows: nest of [M, T, ...]; the queue keeps a copy.

        Returns:
          False if the queue has no room for all M now.

        Raises:
          ValueError, TypeError: `rows` is a nest of another structure.
          ValueError: M exceeds the capacity, or a column has another dtype or shape, or values that
            are not finite. The message names the column, and the queue is as it was.
        """
        columns = self.signature.checked(rows)
        num_rows = len(columns[0])
        if num_rows > self.capacity:
            raise ValueError(f"{num_rows} unrolls exceed the queue, which holds {self.capacity}")
        with self._lock:
            if len(self._rows) + num_rows > self.capacity:
                return False
            self._rows.extend(zip(*map(np.array, columns)))
            self._inserted += num_rows
        return True

    def draw(self, num_items, seed=None) -> UnrollBatch | None:
        """Removes and returns the oldest unrolls; None if there are fewer than `num_items`."""
        del seed
        count = int(num_items)
        if count < 1:
            raise ValueError(f"num_items must be at least 1, is {count}")
        with self._lock:
            if len(self._rows) < count:
                return None
            rows = [self._rows.popleft() for _ in range(count)]
            self._sampled += count
        return UnrollBatch(self.signature.unflatten([np.stack(column) for column in zip(*rows)]))

    def counters(self) -> Counters:
        """Returns the counters; an item is an unroll, and one that was taken counts as sampled."""
        with self._lock:
            return Counters(len(self._rows), self._inserted, self._sampled)
