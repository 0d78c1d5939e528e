"""An example of a new kind of data: the rollouts of PPO, with their store, wire and writer.

Everything else is there: services, clients, outboxes and the learner's loop take any store.
"""

from collections.abc import Callable, Sequence
import threading
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from common.acting.unrolls import UnrollAdder
from common.agents.data import Data
from common.remote.outbox import Delivery, Writer
from common.replay.rate_limiter import UNLIMITED, RateLimiter
from common.replay.signature import Signature
from common.replay.store import Counters, Store, Wire
from common.types import Batch, Nest, Unrolls


class Rollouts(NamedTuple):
    """M rollouts of T timesteps.

    Attributes:
      returns: [M] float32, of each rollout.
      steps: nest of [M, T, ...].
    """

    returns: np.ndarray
    steps: Nest

    @property
    def token(self) -> tf.Tensor:
        """Nothing: the rollouts are gone."""
        return tf.zeros([0], tf.int64)

    def batch(self) -> Batch:
        """Returns what updates learn from, with `Rollouts` as its steps."""
        size = len(self.returns)
        rollouts = tf.nest.map_structure(tf.convert_to_tensor, self)
        return Batch(rollouts, tf.fill([size], 1.0 / size), tf.constant(size, tf.float32))


class RolloutWire(Wire):
    """The form in which rollouts travel."""

    consumes = True
    draw_bytes = 1  # a draw is never cut, since it empties the store

    def __init__(self, specs: Nest):
        """Takes the columns of a rollout: nest of `tf.TensorSpec` of shape [T, ...]."""
        self.signature = Signature(specs)
        self.row_bytes = self.signature.message_bytes + 4
        self.put_specs = [
            tf.TensorSpec([None], tf.float32, "returns"),
            *self.signature.column_specs,
        ]

    def columns(self, rows: Rollouts) -> list:
        """Returns the returns, and the columns of the steps."""
        return [rows.returns, *self.signature.flatten(rows.steps)]

    def rows(self, columns: Sequence) -> Rollouts:
        """Reverses `columns`."""
        return Rollouts(columns[0], self.signature.unflatten(columns[1:]))

    def drawn_columns(self, drawn: Rollouts) -> list:
        """Returns the columns."""
        return self.columns(drawn)

    def drawn(self, parts: Sequence[Sequence[tf.Tensor]]) -> Rollouts:
        """Returns the only part."""
        (part,) = parts
        return self.rows(part)


class RolloutStore(Store):
    """Rollouts of the present policy; a draw empties it, since the next policy is another one."""

    def __init__(self, specs: Nest, capacity: int):
        """Makes an empty store of at most `capacity` rollouts."""
        self.wire = RolloutWire(specs)
        self.capacity = capacity
        self._shapes = [tf.TensorShape([]), *self.wire.signature.shapes]
        self._lock = threading.Lock()
        self._rows: list[Sequence[np.ndarray]] = []
        self._inserted = self._sampled = 0

    def put(self, rows: Rollouts) -> bool:
        """Adds rollouts, of which it keeps a copy; returns False if they do not fit now.

        Raises:
          ValueError: a column is wrong, or the rollouts never fit.
        """
        columns = [np.array(column) for column in self.wire.columns(rows)]
        num_rows = len(columns[0])
        for spec, shape, column in zip(self.wire.put_specs, self._shapes, columns):
            if column.dtype != spec.dtype.as_numpy_dtype:
                raise ValueError(f"{spec.name} must be {spec.dtype.name}, is {column.dtype}")
            if column.shape != (num_rows, *shape):
                expected = [num_rows, *shape]
                raise ValueError(f"{spec.name} must have shape {expected}, has {column.shape}")
            if spec.dtype.is_floating and not np.isfinite(column).all():
                raise ValueError(f"{spec.name} must be finite")
        if num_rows > self.capacity:
            raise ValueError(f"{num_rows} rollouts exceed the store, which holds {self.capacity}")
        with self._lock:
            if len(self._rows) + num_rows > self.capacity:
                return False
            self._rows.extend(zip(*columns))
            self._inserted += num_rows
        return True

    def draw(self, num_items: int, seed: int | None = None) -> Rollouts | None:
        """Returns the oldest rollouts and drops the others; None if there are too few."""
        del seed
        with self._lock:
            if len(self._rows) < num_items:
                return None
            rows, self._rows = self._rows[:num_items], []
            self._sampled += num_items
        return self.wire.rows([np.stack(column) for column in zip(*rows)])

    def counters(self) -> Counters:
        """Returns the counters; a rollout that was dropped counts as removed."""
        with self._lock:
            held, inserted, sampled = len(self._rows), self._inserted, self._sampled
        return Counters(held, inserted, sampled, removed=inserted - sampled - held)


class RolloutData(Data):
    """Rollouts of T timesteps, for which all actors wait until the learner has read the last."""

    in_lockstep = True

    def __init__(self, config: Any, columns: Callable[[Unrolls], Nest]):
        """Reads `rollout_length` and `num_rollouts`, those of an update."""
        self._config, self._columns = config, columns
        self.steps_per_item = config.rollout_length

    def make_adder(self, num_environments: int) -> UnrollAdder:
        """Builds the adder for a batch of environments."""
        return UnrollAdder(num_environments, self._config.rollout_length)

    def make_store(self, specs: Nest, seed: int, num_shards: int = 1) -> RolloutStore:
        """Builds the learner's store; see base class."""
        return RolloutStore(specs, self._config.num_rollouts)

    def wire(self, specs: Nest) -> RolloutWire:
        """See base class."""
        return RolloutWire(specs)

    def make_writer(self, **_: Any) -> Writer:
        """Builds the writer of some actors; see base class."""
        return _RolloutWriter(self._columns)

    def rate_limiter(self, num_samples: int, num_ahead: int | None) -> RateLimiter:
        """Returns no limit: the store's capacity is one."""
        return UNLIMITED


class _RolloutWriter(Writer):
    def __init__(self, columns: Callable[[Unrolls], Nest]):
        super().__init__()
        self._columns = columns

    def count_steps(self, added: Unrolls) -> int:
        """Returns the number of timesteps at which an action was taken."""
        return int(np.count_nonzero(~added.is_last))

    def deliveries(self, collected: Sequence[Unrolls]) -> list[Delivery]:
        """Returns each rollout by itself, so that a store with any room takes it."""
        deliveries = []
        for added in collected:
            for i in range(len(added.number)):
                one = tf.nest.map_structure(lambda column, i=i: column[i : i + 1], added)
                rollout = Rollouts(one.reward.sum(1), self._columns(one))
                deliveries.append(Delivery(rollout, self.count_steps(one)))
        return deliveries
