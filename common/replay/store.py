"""The interface of all stores, local or remote. Actors put rows in, and a learner draws items.

This module also has the limiter of the ratio of samples to inserts, a credit counter, and the seeds
of draws, which differ for each learner step and each part of a message.
"""

import abc
from collections.abc import Callable, Iterable, Sequence
import dataclasses
import os
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import tensorflow as tf

from common.replay.columns import Signature
from common.types import Batch, Nest


class Counters(NamedTuple):
    """Counters of a store, which rate limiters compare; all but the first only grow.

    Attributes:
      items: items stored now.
      inserted: items inserted; where the items are steps of episodes, steps executed.
      sampled: items drawn, counted each time.
      duplicates: items or steps refused because they were received before.
      removed: items removed.
      missing: items removed before the outputs of their updates arrived.
    """

    items: int = 0
    inserted: int = 0
    sampled: int = 0
    duplicates: int = 0
    removed: int = 0
    missing: int = 0

    @classmethod
    def of(cls, values: tf.Tensor | np.ndarray) -> Self:
        """Returns the counters in `values`, int64 [6]."""
        return cls(*np.asarray(values).tolist())

    @classmethod
    def total(cls, counters: Iterable["Counters"]) -> Self:
        """Returns the sum of each counter."""
        return cls(*(sum(column) for column in zip(*counters)))


class Drawn(Protocol):
    """Items drawn from a store, as a named tuple.

    Attributes:
      steps: nest of [B, ...], or [B, T, ...] for sequences and unrolls.
    """

    steps: Nest

    @property
    def token(self) -> tf.Tensor:
        """The argument of `Store.write_back`: int64 [B], or [0] where nothing is written back."""

    def batch(self) -> Batch:
        """Returns the batch from which updates learn."""

    def _replace(self, **fields: Any) -> Self: ...


class Wire(abc.ABC):
    """The form in which a store's rows and draws travel between processes: lists of columns.

    Only rows with keys are drawn from processes other than their store's.

    Attributes:
      put_specs: a spec for each column of a put, with the column's name in error messages.
      draw_bytes: maximum bytes of a drawn item in a message; only for rows with keys.
      output_specs: a spec for each column of outputs that `Store.write_back` receives from another
        process with the token; only for rows with keys.
      consumes: whether each item is drawn only once.
    """

    put_specs: Sequence[tf.TensorSpec]
    draw_bytes: int
    output_specs: Sequence[tf.TensorSpec] = ()
    consumes = False

    @abc.abstractmethod
    def columns(self, rows: Any) -> list:
        """Converts an argument of `Store.put` to columns."""

    @abc.abstractmethod
    def rows(self, columns: Sequence) -> Any:
        """Reverses `columns`."""

    def drawn_columns(self, drawn: Any) -> list:
        """Converts a result of `Store.draw` to columns; can be traced into a graph."""
        raise NotImplementedError

    def drawn(self, parts: Sequence[Sequence[tf.Tensor]]) -> Any:
        """Reverses `drawn_columns` and joins the parts of a draw."""
        raise NotImplementedError


class NestWire(Wire):
    """The form of rows that are nests of columns and are drawn only once.

    Attributes:
      signature: the columns of a row.
    """

    consumes = True

    def __init__(self, specs: Nest):
        """Prepares the columns; `specs` is a nest of `tf.TensorSpec` without batch dimension."""
        self.signature = Signature(specs)
        self.put_specs = self.signature.column_specs

    def columns(self, rows: Nest) -> list:
        """See base class."""
        return self.signature.flatten(rows)

    def rows(self, columns: Sequence) -> Nest:
        """See base class."""
        return self.signature.unflatten(columns)


def equal_batch(steps: Nest) -> Batch:
    """Returns a batch of equally probable rows [B, ...], which are learnt from only once."""
    steps = tf.nest.map_structure(tf.convert_to_tensor, steps)
    size = len(tf.nest.flatten(steps)[0])
    return Batch(steps, tf.fill([size], 1.0 / size), tf.constant(size, tf.float32))


class Store(abc.ABC):
    """A store of steps, episodes, unrolls or gradients. All methods are thread-safe.

    Attributes:
      wire: form in which rows and draws travel.
      keyed: whether each row has a key, so that a repeated `put` changes nothing. `put` can then
        also be traced into a graph.
      by_actor: whether each actor's part is saved in a separate file.
    """

    wire: Wire
    keyed: bool = False
    by_actor: bool = False

    @abc.abstractmethod
    def put(self, rows: Any) -> Any:
        """Adds rows; returns False if the store has no room for them now."""

    @abc.abstractmethod
    def draw(self, num_items: Any, seed: Any = None) -> Any:
        """Draws items.

        Args:
          num_items: an int or an int32 scalar tensor.
          seed: an int or an int64 scalar tensor that determines the draw, together with the
            contents; None or 0 draws with the store's own generator.

        Returns:
          `Drawn`, or None if there are too few.

        Raises:
          tf.errors.FailedPreconditionError: there is nothing to draw.
        """

    def write_back(self, token: Any, outputs: Nest) -> Any:
        """Stores the outputs of the updates that learnt from a draw, such as new priorities."""
        del token, outputs
        return tf.zeros([], tf.int64)

    @abc.abstractmethod
    def counters(self) -> Counters:
        """Returns the counters."""

    def counters_tensor(self) -> tf.Tensor:
        """Returns the counters as int64 [6]."""
        return tf.numpy_function(lambda: np.array(self.counters(), np.int64), [], tf.int64)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the contents to a file; a store through which rows only pass writes none.

        Raises:
          ReplayFileError: the file cannot be written; an earlier file of that name is unchanged.
        """
        del path

    def load(self, path: str | os.PathLike[str]) -> None:
        """Loads saved contents into this store, which must be empty.

        Raises:
          ReplayFileError: the file cannot be read, is damaged, or is of a different store.
        """
        del path

    def trim(self) -> Any:
        """Removes items above a soft capacity; returns the number removed."""
        return tf.zeros([], tf.int64)

    def follow(self, version: Callable[[], int]) -> None:
        """Accepts only steps of the parameters' version `version()` from now on.

        A store of steps of any version, and a client of another store, still accept all steps.
        """
        del version

    def mass(self) -> tuple[Any, Any]:
        """Returns the sum of all items' masses (float64) and their number (int64).

        An item is drawn with the probability mass / sum.
        """
        items = self.counters_tensor()[0]
        return tf.cast(items, tf.float64), items


@dataclasses.dataclass(frozen=True)
class RateLimiter:
    """A limit on how far actors and learner may run ahead of each other.

    The credit is the number of samples that inserts have earned and the learner has not drawn:

        credit = samples_per_insert * (inserted - min_size) - sampled.

    The learner may sample while the credit stays above -tolerance; actors may insert while it stays
    below +tolerance. The limiter never blocks: callers that have to wait poll it.

    The counters are those of the store, summed over its shards. A shard that restarts loses its
    insert and sample counts together. The difference is then missing from the sums, so the side
    that appears to be ahead waits until it is made up.

    Attributes:
      min_size: items inserted before the first sample.
      samples_per_insert: ratio to keep; None lets both sides run free (Ape-X, section 3).
      tolerance: samples by which either side may run ahead; must be at least those of one call.
      min_items: number of stored items below which actors may insert whatever the credit, since the
        learner cannot draw. Steps of running episodes are counted but not yet stored.
    """

    min_size: int = 0
    samples_per_insert: float | None = None
    tolerance: float = 0.0
    min_items: int = 0

    def _credit(self, counters: Counters) -> float:
        assert self.samples_per_insert is not None
        paid = self.samples_per_insert * (counters.inserted - self.min_size)
        return paid - counters.sampled

    def may_sample(self, counters: Counters, num_samples: int) -> bool:
        """Returns whether the learner may draw `num_samples` items now."""
        if counters.inserted < self.min_size:
            return False
        if self.samples_per_insert is None:
            return True
        return self._credit(counters) - num_samples >= -self.tolerance

    def may_insert(self, counters: Counters) -> bool:
        """Returns whether an actor may go on acting and inserting now."""
        if self.samples_per_insert is None:
            return True
        if counters.inserted < self.min_size or counters.items < self.min_items:
            return True
        return self._credit(counters) <= self.tolerance


UNLIMITED = RateLimiter()
"""The limiter for a store whose capacity limits both sides."""


def derive_seed(*parts: int) -> int:
    """Returns a seed in [1, 2^63) that depends on all parts, which must not be negative.

    Use the same number of parts in all calls, since a last part of 0 is ignored.
    """
    return int(np.random.SeedSequence(parts).generate_state(1, np.uint64)[0] >> np.uint64(1)) or 1
