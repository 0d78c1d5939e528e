"""A bounded queue of unrolls, from which a learner takes its batches."""

import collections
from collections.abc import Sequence
import threading

import numpy as np

from common.replay.memory import Signature, Statistics
from common.types import Nest


class UnrollQueue:
    """A first in, first out queue of unrolls that actors offer (AQL section 4, appendix A.1).

    An offer is taken whole or refused, and no call blocks, so that an actor may repeat an offer
    whose answer was lost: the queue knows the number of the last offer that it took from each
    incarnation. Thread-safe.

    Attributes:
      signature: the columns of an unroll.
      capacity: unrolls that the queue holds at most; None: any number.
    """

    def __init__(self, specs: Nest, capacity: int | None = None):
        """Makes an empty queue.

        Args:
          specs: nest of `tf.TensorSpec` of shape [T, ...]: the columns of an unroll.
          capacity: unrolls that it holds at most; None: any number.

        Raises:
          ValueError: `capacity` is less than 1.
        """
        if capacity is not None and capacity < 1:
            raise ValueError(f"capacity must be at least 1, is {capacity}")
        self.signature = Signature(specs)
        self.capacity = capacity
        self._lock = threading.Lock()
        self._rows: collections.deque[Sequence[np.ndarray]] = collections.deque()
        self._last_offers: dict[int, int] = {}
        self._inserted = self._duplicates = self._sampled = 0

    def offer(self, incarnation: int, number: int, unrolls: Nest) -> bool:
        """Adds unrolls, unless they do not fit now.

        Args:
          incarnation: a number that this start of the actors has alone.
          number: of the offer: 1, 2, ... in its incarnation.
          unrolls: nest of [M, T, ...]; the queue keeps a copy.

        Returns:
          False if the queue has no room for all M now. Otherwise True, also for an offer that was
          taken before, which changes nothing.

        Raises:
          ValueError, TypeError: `unrolls` is a nest of another structure.
          ValueError: M exceeds the capacity, `number` skips one, or a column has another dtype or
            shape, or values that are not finite. The message names the column, and the queue is as
            it was.
        """
        columns = self._columns(unrolls)
        num_rows = len(columns[0])
        with self._lock:
            last = self._last_offers.get(incarnation)
            if last is not None and number > last + 1:
                raise ValueError(f"number must be at most {last + 1}, is {number}")
            if number > (last or 0):
                if self.capacity is not None and len(self._rows) + num_rows > self.capacity:
                    return False
                self._rows.extend(zip(*map(np.array, columns)))
                self._last_offers[incarnation] = number
                self._inserted += num_rows
            else:
                self._duplicates += num_rows
        return True

    def take(self, count: int) -> Nest | None:
        """Removes the oldest unrolls, nest of [count, T, ...]; None if there are fewer."""
        with self._lock:
            if len(self._rows) < count:
                return None
            rows = [self._rows.popleft() for _ in range(count)]
            self._sampled += count
        return self.signature.unflatten([np.stack(column) for column in zip(*rows)])

    def size(self) -> int:
        """Returns the number of unrolls in the queue."""
        return len(self._rows)

    def statistics(self) -> Statistics:
        """Returns the counters; an item is an unroll, and one that was taken is a sampled one."""
        with self._lock:
            size = len(self._rows)
            return Statistics(
                *(size, size, 0, self._inserted, self._duplicates, 0, 0),
                *(self._sampled, self._sampled, 0, 0),
            )

    def _columns(self, unrolls: Nest) -> list[np.ndarray]:
        """Returns the columns in order, after a check of their dtypes and shapes."""
        columns = [np.asarray(column) for column in self.signature.flatten(unrolls)]
        num_rows = columns[0].shape[:1]
        for name, dtype, shape, column in zip(
            self.signature.names, self.signature.dtypes, self.signature.shapes, columns
        ):
            if column.dtype != dtype.as_numpy_dtype:
                raise ValueError(f"column {name} must be {dtype.name}, is {column.dtype}")
            if column.shape != (*num_rows, *shape):
                raise ValueError(
                    f"column {name} must have shape {[*num_rows, *shape]}, has {list(column.shape)}"
                )
            if dtype.is_floating and not np.isfinite(column).all():
                raise ValueError(f"column {name} must be finite, has NaN or infinite values")
        if self.capacity is not None and num_rows[0] > self.capacity:
            raise ValueError(
                f"an offer of {num_rows[0]} unrolls exceeds the queue, which holds {self.capacity}"
            )
        return columns
