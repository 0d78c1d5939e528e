"""A store of the steps of one rollout, which are learnt from and then dropped."""

from collections.abc import Callable, Sequence
import threading
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from common.replay.signature import Signature
from common.replay.store import Counters, Store, Wire, equal_batch
from common.types import Batch, Nest


class Rollout(NamedTuple):
    """N steps that were taken with one version of the parameters.

    Attributes:
      version: int64 [N].
      steps: nest of [N, ...].
    """

    version: np.ndarray
    steps: Nest

    @property
    def token(self) -> tf.Tensor:
        """Nothing: the steps are gone."""
        return tf.zeros([0], tf.int64)

    def batch(self) -> Batch:
        """Returns what updates learn from."""
        return equal_batch(self.steps)


class RolloutWire(Wire):
    """The form in which rollouts travel."""

    consumes = True
    draw_bytes = 1  # a draw is never cut, since it empties the store

    def __init__(self, specs: Nest):
        """Takes the columns of a step: nest of `tf.TensorSpec` without batch dimension."""
        self.signature = Signature(specs)
        self.row_bytes = self.signature.message_bytes + 8
        version = tf.TensorSpec([None], tf.int64, "version")
        self.put_specs = [version, *self.signature.column_specs]

    def columns(self, rows: Rollout) -> list:
        """Returns the versions, and the columns of the steps."""
        return [rows.version, *self.signature.flatten(rows.steps)]

    def rows(self, columns: Sequence) -> Rollout:
        """Reverses `columns`."""
        return Rollout(columns[0], self.signature.unflatten(columns[1:]))

    def drawn_columns(self, drawn: Rollout) -> list:
        """Returns the columns."""
        return self.columns(drawn)

    def drawn(self, parts: Sequence[Sequence[tf.Tensor]]) -> Rollout:
        """Returns the only part."""
        (part,) = parts
        return self.rows(part)


class RolloutStore(Store):
    """The steps of the present policy. A draw empties it, since the next policy is another one.

    All steps that it holds have one version. Steps of a version that has been drawn come too late
    and are dropped: their sender, or another in its place, has sent twice. Of others it takes those
    of the version that it follows; without one, they replace those that it holds.
    """

    def __init__(self, specs: Nest, capacity: int):
        """Makes an empty store.

        Args:
          specs: columns of a step, nest of `tf.TensorSpec` without batch dimension.
          capacity: steps that it holds at most.
        """
        self.wire = RolloutWire(specs)
        self.capacity = capacity
        self._lock = threading.Lock()
        self._puts: list[list[np.ndarray]] = []
        self._held = self._inserted = self._sampled = 0
        self._version: int | None = None
        self._drawn_version: int | None = None
        self._wanted: Callable[[], int] | None = None

    def follow(self, version: Callable[[], int]) -> None:
        """Takes steps of `version()` alone from now on, that of the learner.

        A learner that has returned to an earlier checkpoint gets steps of later versions.
        """
        self._wanted = version

    def put(self, rows: Rollout) -> bool:
        """Adds steps, of which it keeps a copy; returns False if they do not fit now.

        Raises:
          ValueError: a column is wrong, there are several versions, or the steps never fit.
        """
        columns = self._columns(rows)
        num_rows = len(columns[0])
        if not num_rows:
            return True
        version = int(columns[0][0])
        wanted = version if self._wanted is None else self._wanted()
        with self._lock:
            if version == self._drawn_version or version != wanted:
                self._inserted += num_rows
                return True
            if version != self._version:
                self._puts, self._held, self._version = [], 0, version
            if self._held + num_rows > self.capacity:
                return False
            self._puts.append(columns)
            self._held += num_rows
            self._inserted += num_rows
        return True

    def draw(self, num_items: int, seed: int | None = None) -> Rollout | None:
        """Returns the oldest steps and drops the others; None if there are too few."""
        del seed
        with self._lock:
            if self._held < num_items:
                return None
            puts, self._puts, self._held = self._puts, [], 0
            self._drawn_version = self._version
            self._sampled += num_items
        return self.wire.rows([np.concatenate(column)[:num_items] for column in zip(*puts)])

    def counters(self) -> Counters:
        """Returns the counters; steps that were dropped count as removed."""
        with self._lock:
            held, inserted, sampled = self._held, self._inserted, self._sampled
        return Counters(held, inserted, sampled, removed=inserted - sampled - held)

    def _columns(self, rows: Rollout) -> list[np.ndarray]:
        """Returns copies of the columns, after a check."""
        steps = self.wire.signature.checked(rows.steps)
        version, num_rows = np.asarray(rows.version), len(steps[0])
        if version.dtype != np.int64 or version.shape != (num_rows,):
            raise ValueError(
                f"version must be int64 [{num_rows}], is {version.dtype} {list(version.shape)}"
            )
        if num_rows > self.capacity:
            raise ValueError(f"{num_rows} steps exceed the store, which holds {self.capacity}")
        if (version != version[:1]).any():
            raise ValueError(f"version must be one, is {version.min()} to {version.max()}")
        return [*map(np.array, (version, *steps))]
