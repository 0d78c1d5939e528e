"""A replay memory of steps and of items that view them: the Python interface of the replay ops.

Distributions over the items decide which items are drawn and which are removed.
"""

from collections.abc import Mapping, Sequence
import dataclasses
import os
from typing import ClassVar, NamedTuple

import numpy as np
import tensorflow as tf

from common.replay import library, saving
from common.replay.columns import Signature
from common.replay.store import Counters, Store, Wire
from common.types import Batch, Nest


class Items(NamedTuple):
    """Steps to be added to a replay, and the items that view them.

    The fields are in the order of the arguments of `Memory.insert`.

    Attributes:
      keys: int64 [S], keys of the steps.
      steps: nest of [S, ...], in the structure of the replay's columns.
      priorities: float32 [I], raw priorities of the items.
      item_keys: int64 [I], key of each item's first step; None: each step is an item (I = S).
      item_lengths: int32 [I], number of steps of each item; None: 1.
    """

    keys: np.ndarray
    steps: Nest
    priorities: np.ndarray
    item_keys: np.ndarray | None = None
    item_lengths: np.ndarray | None = None


UNKNOWN_PRIORITY = -1.0
"""The raw priority of an item whose priority has not been computed yet."""

_MAX_EXPONENT = 7.0
"""Bound on |exponent|. The masses of a full memory of the largest floats then have a finite sum."""


class Distribution:
    """A distribution over the items of a memory.

    Attributes:
      kind: name of the distribution in C++.
      exponent: power of the priority, or of 1 / rank in `RankBased`.
      uniform_mix: share of draws that are uniform.
      period: updates from one ranking to the next.
    """

    kind: ClassVar[str]
    exponent: float
    uniform_mix = 0.0
    period = 1
    _least_exponent = -_MAX_EXPONENT

    def __post_init__(self):
        if not self._least_exponent <= self.exponent <= _MAX_EXPONENT:
            raise ValueError(
                f"exponent must be in [{self._least_exponent:g}, {_MAX_EXPONENT:g}], "
                f"is {self.exponent}"
            )
        if not 0 <= self.uniform_mix <= 1:
            raise ValueError(f"uniform_mix must be in [0, 1], is {self.uniform_mix}")
        if self.period < 1:
            raise ValueError(f"period must be at least 1, is {self.period}")


@dataclasses.dataclass(frozen=True)
class Uniform(Distribution):
    """The same probability for every item, whatever its priority."""

    kind = "uniform"
    exponent = 0.0


@dataclasses.dataclass(frozen=True)
class Proportional(Distribution):
    """P(k) = p_k^exponent / sum_j p_j^exponent (Schaul et al. 2016, equation 1).

    An unknown priority counts as the largest priority seen so far, or as 1 if none was above 0.
    With a positive exponent an item of priority 0 is never drawn. A negative exponent prefers small
    priorities, for removal (Ape-X, appendix D: -0.4); priorities below 1e-6 then count as 1e-6.

    Attributes:
      exponent: power of the priority.
      uniform_mix: share of draws that are uniform; masses include it. If it is above 0 and all
        items have mass 0, every draw is uniform.
    """

    exponent: float
    uniform_mix: float = 0.0
    kind = "proportional"


@dataclasses.dataclass(frozen=True)
class ContextualPriorityTree(Distribution):
    """P(k) ~ p_k^exponent, an unknown p_k inferred from nearby keys (Reactor, 3.3, 6.3, figure 5).

    The items form a balanced tree in the order of keys. An item of unknown priority has the mean
    mass of the smallest subtree around it that contains a known priority. If all masses are 0 or
    unknown, every draw is uniform. Known priorities and exponents work as in `Proportional`.

    Attributes:
      exponent: power of the priority.
      uniform_mix: share of draws that are uniform (epsilon in section 3.3; the paper does not give
        its value). Masses include it. It bounds importance weights of exponent 1 by
        1 / uniform_mix.
    """

    exponent: float = 1.0
    uniform_mix: float = 0.1
    kind = "contextual"


@dataclasses.dataclass(frozen=True)
class RankBased(Distribution):
    """P(k) ~ rank(k)^-exponent, where the largest priority has rank 1 (Schaul et al. 2016, 3.3).

    An item counts as rank 1 until it is ranked with a known priority. Items that are removed
    between two rankings leave their ranks empty.

    Attributes:
      exponent: power of 1 / rank.
      period: updates from one ranking to the next, the maximum age of a rank.
    """

    exponent: float
    period: int = 1
    kind = "rank_based"
    _least_exponent = 0.0


@dataclasses.dataclass(frozen=True)
class Fifo(Distribution):
    """Probability 1 for the item that was inserted first."""

    kind = "fifo"
    exponent = 0.0


def prioritized(exponent: float) -> Proportional | Uniform:
    """Returns P(k) ~ p_k^exponent. An exponent of 0 returns `Uniform`, which needs no tree."""
    return Proportional(exponent) if exponent else Uniform()


HARD_CAPACITY = 2
"""Hard capacity / capacity of a memory whose capacity is soft. Not in the paper (Ape-X)."""
_BYTES_BESIDE_STEP = 40
"""Maximum bytes of a row's key, mass or priority, and length in a message."""


class Sample(NamedTuple):
    """B items drawn from a memory; item k had probability masses[k] / total_mass.

    Attributes:
      keys: [B] int64, keys of the items.
      masses: [B] float64, masses of the items.
      total_mass: float64 scalar, sum of the masses of all items in the memory.
      count: int64 scalar, number of items in the memory.
      lengths: [B] int32, number of steps of each item.
      steps: nest of [B, ...], or [B, T, ...] for sequences.
    """

    keys: tf.Tensor
    masses: tf.Tensor
    total_mass: tf.Tensor
    count: tf.Tensor
    lengths: tf.Tensor
    steps: Nest

    @property
    def token(self) -> tf.Tensor:
        """The keys."""
        return self.keys

    def batch(self) -> Batch:
        """Returns the batch from which updates learn."""
        probabilities = tf.cast(self.masses / self.total_mass, tf.float32)
        return Batch(self.steps, probabilities, tf.cast(self.count, tf.float32))


class Statistics(NamedTuple):
    """Counters of a memory; all but the first three only grow.

    Attributes:
      steps: steps stored now.
      items: items stored now.
      held_bytes: bytes of all strings stored now.
      inserted: items inserted.
      duplicates: steps skipped because their key was stored already.
      incomplete: items refused because one of their steps was missing.
      unviewed: steps dropped because no item viewed them.
      removed: items removed.
      sampled: items drawn, counted each time.
      updated: priorities updated.
      missing: priority updates skipped because the item was gone.
    """

    steps: int
    items: int
    held_bytes: int
    inserted: int
    duplicates: int
    incomplete: int
    unviewed: int
    removed: int
    sampled: int
    updated: int
    missing: int


_COUNTERS = [Statistics._fields.index(name) for name in Counters._fields]


class ItemWire(Wire):
    """The form in which `Items` and samples travel.

    Attributes:
      signature: the columns of a stored step.
    """

    output_specs = (tf.TensorSpec([None], tf.float32),)

    def __init__(self, specs: Nest, sequence_length: int = 0):
        """Computes the columns and the size of a drawn item in a message.

        Args:
          specs: specs of the memory's columns.
          sequence_length: T, steps of a drawn item; 0 if an item is a single step.
        """
        self.signature = Signature(specs)
        step_bytes = self.signature.message_bytes
        self.draw_bytes = max(1, sequence_length) * step_bytes + _BYTES_BESIDE_STEP
        self.put_specs = [
            tf.TensorSpec([None], tf.int64, "keys"),
            tf.TensorSpec([None], tf.float32, "priorities"),
            tf.TensorSpec([None], tf.int64, "item_keys"),
            tf.TensorSpec([None], tf.int32, "item_lengths"),
            *self.signature.column_specs,
        ]

    def columns(self, rows: Items) -> list:
        """Returns step keys, priorities, item keys, item lengths, and the columns of the steps."""
        return [
            rows.keys,
            rows.priorities,
            np.zeros(0, np.int64) if rows.item_keys is None else rows.item_keys,
            np.zeros(0, np.int32) if rows.item_lengths is None else rows.item_lengths,
            *self.signature.flatten(rows.steps),
        ]

    def rows(self, columns: Sequence) -> Items:
        """Reverses `columns`."""
        keys, priorities, item_keys, item_lengths, *steps = columns
        return Items(keys, self.signature.unflatten(steps), priorities, item_keys, item_lengths)

    def drawn_columns(self, drawn: Sample) -> list:
        """Returns the fields of a sample, with the steps as columns."""
        return [*drawn[:5], *self.signature.flatten(drawn.steps)]

    def drawn(self, parts: Sequence[Sequence[tf.Tensor]]) -> Sample:
        """Joins samples of one memory; rescales masses, since its total mass may have changed."""
        samples = [Sample(*part[:5], self.signature.unflatten(list(part[5:]))) for part in parts]
        if len(samples) == 1:
            return samples[0]
        total, count = samples[0].total_mass, samples[0].count
        keys, masses, lengths, steps = tf.nest.map_structure(
            lambda *columns: tf.concat(columns, 0),
            *[(s.keys, s.masses * (total / s.total_mass), s.lengths, s.steps) for s in samples],
        )
        return Sample(keys, masses, total, count, lengths, steps)


class Memory(Store):
    """A keyed store of steps, items that view them, and distributions over the items.

    An item views `length` steps with consecutive keys and is identified by the key of its first
    step. A step is kept as long as an item views it. By default each inserted step is an item of
    length 1: a transition. A memory may have several distributions, which share the raw priorities.
    All methods are thread-safe. All but `counters`, `statistics`, `len`, `save` and `load` also
    work inside a `tf.function`.

    The capacity may be soft (Ape-X, section 4.1: adds are always permitted). Below the hard
    capacity only `trim` then removes items.
    """

    keyed = True

    def __init__(
        self,
        specs: Nest,
        capacity: int,
        distributions: Mapping[str, Distribution],
        removal: str,
        seed: int = 0,
        hard_capacity: int | None = None,
        sequence_length: int = 0,
    ):
        """Creates an empty memory.

        Args:
          specs: nest of `tf.TensorSpec` and `Bytes`: the columns of a stored step.
          capacity: steps to keep.
          distributions: distributions over the items, by name.
          removal: name of the distribution that picks the items to remove.
          seed: seed of sampling and removal; 0 takes one from the system.
          hard_capacity: steps above which `insert` removes items; None: the capacity.
          sequence_length: T, steps that `draw` returns for each item; 0: items are single steps.

        Raises:
          ValueError: `removal` names no distribution, or one with a positive exponent, which may
            never draw items of priority 0 and so find nothing to remove; the capacity is below 1,
            or above the hard capacity; or the spec of a column is wrong (see `Signature`).
        """
        if removal not in distributions:
            raise ValueError(
                f'unknown removal "{removal}": it must be one of {list(distributions)}'
            )
        if distributions[removal].exponent > 0:
            raise ValueError(
                f'removal "{removal}" needs an exponent of at most 0 to be able to remove every '
                f"item, has {distributions[removal].exponent}"
            )
        if capacity < 1:
            raise ValueError(f"capacity must be at least 1, is {capacity}")
        if hard_capacity is None:
            hard_capacity = capacity
        if hard_capacity < capacity:
            raise ValueError(
                f"hard_capacity must be at least the capacity, {capacity}, is {hard_capacity}"
            )
        self._ops = library.ops()
        self.wire = ItemWire(specs, sequence_length)
        self.signature = self.wire.signature
        self.sequence_length = sequence_length
        self.capacity = capacity
        self.hard_capacity = hard_capacity
        # Created once, since converting an empty array takes as long as converting a full one.
        self._no_keys, self._no_lengths = tf.zeros([0], tf.int64), tf.zeros([0], tf.int32)
        self._no_seed = tf.zeros([], tf.int64)
        self._index = {name: i for i, name in enumerate(distributions)}
        self._handle = self._ops.replay_memory(
            uniform_mixes=np.array([d.uniform_mix for d in distributions.values()]),
            capacity=capacity,
            hard_capacity=hard_capacity,
            **self.signature.attributes,
            kinds=[d.kind for d in distributions.values()],
            exponents=[d.exponent for d in distributions.values()],
            periods=[d.period for d in distributions.values()],
            removal=self._index[removal],
            seed=seed,
        )

    def put(self, rows: Items) -> bool:
        """Adds items; raises the errors of `insert`."""
        self.insert(*rows)
        return True

    def draw(self, num_items, seed=None) -> Sample:
        """Draws from the distribution "sample"; see `sample`."""
        return self.sample(num_items, max_length=self.sequence_length, seed=seed)

    def write_back(self, token, outputs) -> tf.Tensor:
        """Sets raw priorities, [B] float32; see `update_priorities`."""
        return self.update_priorities(token, outputs)

    def counters(self) -> Counters:
        """Returns the counters; `statistics` returns more."""
        return Counters.of(self.statistics_tensor().numpy()[_COUNTERS])

    def counters_tensor(self) -> tf.Tensor:
        """Returns the counters as int64 [6]."""
        return tf.gather(self.statistics_tensor(), _COUNTERS)

    def trim(self) -> tf.Tensor:
        """Removes items until the stored steps fit the capacity; returns how many items (int64).

        Other calls are served meanwhile. The steps that they add stay until the next removal.
        """
        return self._ops.replay_remove_to_fit(self._handle)

    def insert(self, keys, steps: Nest, priorities, item_keys=None, item_lengths=None) -> None:
        """Adds steps and the items that view them.

        A key that is stored already is skipped and counted, so a retry never duplicates.

        Args:
          keys: [S] int64, keys of the steps.
          steps: nest of [S, ...].
          priorities: [I] float32, raw: finite and not negative, or UNKNOWN_PRIORITY.
          item_keys: [I] int64, key of each item's first step; None: each step is an item (I = S).
          item_lengths: [I] int32, number of steps of each item; None: 1.

        Raises:
          tf.errors.InvalidArgumentError: an argument or a column is wrong. The message names it;
            the memory is unchanged.
        """
        self._ops.replay_insert(
            self._handle,
            keys,
            self._no_keys if item_keys is None else item_keys,
            self._no_lengths if item_lengths is None else item_lengths,
            priorities,
            self.signature.flatten(steps),
        )

    def sample(
        self, batch_size, distribution: str = "sample", max_length: int = 0, seed=None
    ) -> Sample:
        """Draws items with replacement.

        Args:
          batch_size: B, an int or an int32 scalar tensor.
          distribution: name of the distribution to draw from.
          max_length: 0 returns the first step of each item as [B, ...]. T returns the first T
            steps as [B, T, ...], padded with zeros (empty strings in columns of `Bytes`) after the
            end of shorter items.
          seed: an int or an int64 scalar tensor that determines the draw, together with the
            memory's contents. None or 0 draws with the memory's own generator.

        Raises:
          tf.errors.FailedPreconditionError: no item has a positive mass.
          ValueError: the memory has no distribution of that name.
        """
        sample = self._ops.replay_sample(
            self._handle,
            batch_size,
            self._no_seed if seed is None else seed,
            dtypes=self.signature.dtypes,
            distribution=self._number(distribution),
            max_length=max_length,
        )
        if not tf.executing_eagerly():
            batch = [tf.get_static_value(batch_size)]
            for vector in (sample.keys, sample.masses, sample.lengths):
                vector.set_shape(batch)
            for scalar in (sample.total_mass, sample.count):
                scalar.set_shape([])
            leading = batch + [max_length] if max_length else batch
            self.signature.set_shapes(leading, sample.columns)
        return Sample(*sample[:5], self.signature.unflatten(sample.columns))

    def read(self, keys) -> tuple[tf.Tensor, Nest]:
        """Returns which of the keys [B] are stored, [B] bool, and their steps, nest of [B, ...].

        The row of a missing step has zeros, and empty strings in columns of `Bytes`.
        """
        found, columns = self._ops.replay_read(self._handle, keys, dtypes=self.signature.dtypes)
        if not tf.executing_eagerly():
            found.set_shape([None])
            self.signature.set_shapes([None], columns)
        return found, self.signature.unflatten(columns)

    def update_priorities(self, keys, priorities) -> tf.Tensor:
        """Sets the raw priorities [B] of items; returns how many of them are gone (int64).

        Raises:
          tf.errors.InvalidArgumentError: `insert` would refuse one of the priorities; none has
            changed.
        """
        return self._ops.replay_update_priorities(self._handle, keys, priorities)

    def mass(self, distribution: str = "sample") -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the sum of all items' masses (float64) and their number (int64).

        Raises:
          ValueError: the memory has no distribution of that name.
        """
        return self._masses(self._no_keys, distribution)[2:]

    def masses(self, keys, distribution: str = "sample") -> tuple[tf.Tensor, tf.Tensor]:
        """Returns which items exist, [B] bool, and their masses, [B] float64; 0 for missing ones.

        `sample` draws an item with the probability mass / total mass.

        Args:
          keys: [B] int64, keys of the items.
          distribution: name of the distribution.

        Raises:
          ValueError: the memory has no distribution of that name.
        """
        return self._masses(keys, distribution)[:2]

    def _masses(self, keys, distribution: str) -> tuple[tf.Tensor, ...]:
        number = self._number(distribution)
        return tuple(self._ops.replay_masses(self._handle, keys, distribution=number))

    def statistics_tensor(self) -> tf.Tensor:
        """Returns the counters as int64 [11], in the order of `Statistics`."""
        return self._ops.replay_statistics(self._handle)

    def statistics(self) -> Statistics:
        """Returns the counters."""
        return Statistics(*self.statistics_tensor().numpy().tolist())

    def __len__(self) -> int:
        """Returns the number of items."""
        return self.statistics().items

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the memory's contents to a file, eagerly.

        The file is a snapshot of one moment: steps, items, priorities, the state of each
        distribution and of the random generator, and counters. Other calls are served meanwhile,
        but wait while the state of the distributions is copied, about 25 ms for a million steps.
        Copies of the steps that they remove stay in RAM until they are written. An earlier file of
        that name is replaced once the new one is completely on disk.

        Raises:
          ReplayFileError: the file cannot be written; an earlier file of that name is unchanged.
        """
        saving.check_saved(self._ops.replay_save(self._handle, os.fsencode(path)))

    def load(self, path: str | os.PathLike[str]) -> None:
        """Loads the contents of a saved memory into this one, which must be empty, eagerly.

        From then on the same calls, including draws, have the same results as in the saved memory.

        Raises:
          ReplayFileError: the file cannot be read, is damaged, or is of a memory with other
            arguments (apart from the seed), or this memory is not empty. It is unchanged.
        """
        saving.check_saved(self._ops.replay_load(self._handle, os.fsencode(path)))

    def check(self) -> None:
        """Checks all invariants; raises a tf.errors.InternalError that names a broken one."""
        self._ops.replay_check(self._handle)

    def _number(self, distribution: str) -> int:
        if distribution not in self._index:
            raise ValueError(
                f'unknown distribution "{distribution}": it must be one of {list(self._index)}'
            )
        return self._index[distribution]
