"""A replay memory in this process: the Python interface of the replay ops."""

from collections.abc import Mapping, Sequence
import dataclasses
import functools
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tree

from common.replay import distributions as distributions_lib
from common.replay import library
from common.types import Batch, Nest

HARD_CAPACITY = 2
"""The hard capacity of a memory whose capacity is soft, in capacities. Not in the paper (Ape-X)."""


@dataclasses.dataclass(frozen=True)
class Bytes:
    """The spec of a column of byte strings, in the place of a `tf.TensorSpec` of shape [].

    The memory stores each string at its own length, but RPC messages are sized for the longest one.
    A NumPy column must be an object array of `bytes`: dtype "S" loses zeros at the end.

    Attributes:
      max_bytes: length of the longest string allowed.
      prefix: bytes with which each string must begin.
      suffix: bytes with which each string must end, after the prefix.
    """

    max_bytes: int
    prefix: bytes = b""
    suffix: bytes = b""
    dtype = tf.string
    shape = tf.TensorShape([])

    def __post_init__(self):
        least = max(1, len(self.prefix) + len(self.suffix))
        if self.max_bytes < least:
            raise ValueError(f"max_bytes must be at least {least}, is {self.max_bytes}")


class Sample(NamedTuple):
    """B items drawn from a memory; item k had probability masses[k] / total_mass.

    Attributes:
      keys: [B] int64.
      masses: [B] float64.
      total_mass: float64 scalar.
      count: int64 scalar, items in the memory.
      lengths: [B] int32, steps of each item.
      steps: nest of [B, ...], or [B, T, ...] for sequences.
    """

    keys: tf.Tensor
    masses: tf.Tensor
    total_mass: tf.Tensor
    count: tf.Tensor
    lengths: tf.Tensor
    steps: Nest

    def batch(self) -> Batch:
        """Returns what updates learn from."""
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
      incomplete: items refused because one of their steps is missing.
      unviewed: steps dropped because no item views them.
      removed: items removed.
      sampled: items drawn, counted each time.
      updated: priorities updated.
      missing: priorities skipped because the item is gone.
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

    @classmethod
    def of(cls, values: tf.Tensor) -> "Statistics":
        """Returns the counters in `values`, int64 [11] as from `Memory.statistics_tensor`."""
        return cls(*(int(n) for n in np.asarray(values)))


class Signature:
    """The columns of a stored step.

    Attributes:
      specs: nest of `Bytes` and of `tf.TensorSpec` without batch dimension.
      names: of the columns, in the nest's order, as are dtypes and shapes.
      max_bytes: length of the longest string allowed in each column; 0 if it has no strings.
    """

    def __init__(self, specs: Nest):
        """Flattens the nest of specs.

        Raises:
          ValueError: a column of strings is not specified by `Bytes`.
        """
        self.specs = specs
        flat = tree.flatten_with_path(specs)
        self.names = ["/".join(str(part) for part in path) or "step" for path, _ in flat]
        self.dtypes = [spec.dtype for _, spec in flat]
        self.shapes = [spec.shape for _, spec in flat]
        self.max_bytes = [getattr(spec, "max_bytes", 0) for _, spec in flat]
        self.prefixes = [getattr(spec, "prefix", b"") for _, spec in flat]
        self.suffixes = [getattr(spec, "suffix", b"") for _, spec in flat]
        for name, dtype, max_bytes in zip(self.names, self.dtypes, self.max_bytes):
            if dtype == tf.string and not max_bytes:
                raise ValueError(f"column {name} is of strings: its spec must be Bytes(max_bytes)")
        # A flat named tuple, the usual case, is handled without `tree`, which takes microseconds.
        is_flat = hasattr(specs, "_make") and len(flat) == len(specs)
        is_flat = is_flat and all(len(path) == 1 for path, _ in flat)
        self._flat_type = type(specs) if is_flat else None

    @property
    def attributes(self) -> dict[str, list]:
        """The attributes by which the op that makes a memory describes the columns."""
        names = ("names", "dtypes", "shapes", "max_bytes", "prefixes", "suffixes")
        return {name: getattr(self, name) for name in names}

    def flatten(self, steps: Nest) -> list:
        """Returns the columns of `steps` in order.

        Raises:
          ValueError, TypeError: `steps` is a nest of another structure.
        """
        if type(steps) is self._flat_type:
            return list(steps)
        tree.assert_same_structure(self.specs, steps)
        return tree.flatten(steps)

    def unflatten(self, columns: Sequence) -> Nest:
        """Returns columns as a nest of the signature's structure."""
        if self._flat_type is not None:
            return self._flat_type._make(columns)
        return tree.unflatten_as(self.specs, columns)

    def set_shapes(self, leading: Sequence[int | None], columns: Sequence[tf.Tensor]) -> None:
        """Sets the static shapes of columns in a graph to [leading..., ...]."""
        for column, shape in zip(columns, self.shapes):
            column.set_shape(tf.TensorShape(leading).concatenate(shape))

    @property
    def bytes_per_step(self) -> int:
        """The raw bytes of a step whose strings are as long as they may be."""
        fixed = sum(s.num_elements() * d.size for s, d in zip(self.shapes, self.dtypes))
        return fixed + sum(self.max_bytes)


class Memory:
    """A keyed store of steps, items that view them, and distributions over the items.

    An item views `length` steps with consecutive keys and is identified by the key of its first
    step. A step is kept as long as an item views it. By default each inserted step is an item of
    length 1: a transition. One memory may have several distributions, which all see the same raw
    priorities. All methods are thread-safe and work eagerly or inside a `tf.function`.

    The capacity may be soft (Ape-X, section 4.1: adds are always permitted): below the hard
    capacity only `remove_to_fit` removes items.
    """

    def __init__(
        self,
        specs: Nest,
        capacity: int,
        distributions: Mapping[str, distributions_lib.Distribution],
        removal: str,
        seed: int = 0,
        hard_capacity: int | None = None,
    ):
        """Makes an empty memory.

        Args:
          specs: nest of `tf.TensorSpec` and `Bytes`: the columns of a stored step.
          capacity: steps to keep.
          distributions: distributions over the items, by name.
          removal: name of the distribution that picks the items to remove.
          seed: seed of sampling and removal; 0 takes one from the system.
          hard_capacity: steps above which `insert` removes items; None: the capacity.

        Raises:
          ValueError: `removal` names no distribution, or one that never draws an item of priority
            0 and so might find nothing to remove; the capacity is below 1, or above the hard
            capacity; or a column of strings is not specified by `Bytes`.
        """
        if removal not in distributions:
            raise ValueError(f'removal "{removal}" is none of {list(distributions)}')
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
        self.signature = Signature(specs)
        self.capacity = capacity
        self.hard_capacity = hard_capacity
        # Made once, since converting an empty array takes as long as converting a full one.
        self._no_keys, self._no_lengths = tf.zeros([0], tf.int64), tf.zeros([0], tf.int32)
        self._no_seed = tf.zeros([], tf.int64)
        self._index = {name: i for i, name in enumerate(distributions)}
        self._handle = self._ops.replay_memory(
            uniform_mixes=np.array(
                [getattr(d, "uniform_mix", 0.0) for d in distributions.values()]
            ),
            capacity=capacity,
            hard_capacity=hard_capacity,
            **self.signature.attributes,
            kinds=[d.kind for d in distributions.values()],
            exponents=[d.exponent for d in distributions.values()],
            periods=[getattr(d, "period", 1) for d in distributions.values()],
            removal=self._index[removal],
            seed=seed,
        )

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
          tf.errors.InvalidArgumentError: an argument or a column is wrong, and the message names
            it; the memory is unchanged.
        """
        check_dtype("keys", keys, tf.int64)
        check_dtype("priorities", priorities, tf.float32)
        if item_keys is not None:
            check_dtype("item_keys", item_keys, tf.int64)
        if item_lengths is not None:
            check_dtype("item_lengths", item_lengths, tf.int32)
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
          tf.errors.FailedPreconditionError: there is nothing to draw.
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

        A missing step has zeros, and empty strings in columns of `Bytes`.
        """
        check_dtype("keys", keys, tf.int64)
        found, columns = self._ops.replay_read(self._handle, keys, dtypes=self.signature.dtypes)
        if not tf.executing_eagerly():
            found.set_shape([None])
            self.signature.set_shapes([None], columns)
        return found, self.signature.unflatten(columns)

    def update_priorities(self, keys, priorities) -> tf.Tensor:
        """Sets the raw priorities [B] of items; returns how many of them are gone (int64).

        Raises:
          tf.errors.InvalidArgumentError: a priority is negative or not finite; no priority has
            changed.
        """
        check_dtype("keys", keys, tf.int64)
        check_dtype("priorities", priorities, tf.float32)
        return self._ops.replay_update_priorities(self._handle, keys, priorities)

    def remove_to_fit(self) -> tf.Tensor:
        """Removes items until the stored steps fit the capacity; returns how many items (int64).

        Other calls are served meanwhile; the steps that they add stay until the next removal.
        """
        return self._ops.replay_remove_to_fit(self._handle)

    def mass(self, distribution: str = "sample") -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the sum of all items' masses (float64) and their number (int64).

        Raises:
          ValueError: the memory has no distribution of that name.
        """
        return tuple(self._ops.replay_mass(self._handle, distribution=self._number(distribution)))

    def masses(self, keys, distribution: str = "sample") -> tuple[tf.Tensor, tf.Tensor]:
        """Returns which items [B] there are, [B] bool, and their masses, [B] float64; 0 for others.

        mass / total mass is the probability with which `sample` draws the item.

        Args:
          keys: [B] int64, keys of the items.
          distribution: name of the distribution.

        Raises:
          ValueError: the memory has no distribution of that name.
        """
        check_dtype("keys", keys, tf.int64)
        return tuple(
            self._ops.replay_masses(self._handle, keys, distribution=self._number(distribution))
        )

    def statistics_tensor(self) -> tf.Tensor:
        """Returns the counters as int64 [11], in the order of `Statistics`."""
        return self._ops.replay_statistics(self._handle)

    def statistics(self) -> Statistics:
        """Returns the counters."""
        return Statistics.of(self.statistics_tensor())

    def check(self) -> None:
        """Checks all invariants; raises tf.errors.InternalError that names a broken one."""
        self._ops.replay_check(self._handle)

    def _number(self, distribution: str) -> int:
        if distribution not in self._index:
            raise ValueError(f'distribution "{distribution}" is none of {list(self._index)}')
        return self._index[distribution]


def check_dtype(name: str, value: Any, dtype: tf.DType) -> None:
    """Refuses a tensor of another dtype, and a NumPy array of another kind.

    TensorFlow would name the argument by its number only, and silently round float NumPy keys.
    """
    given = getattr(value, "dtype", dtype)
    if given is not dtype and not _converts(given, dtype):
        raise tf.errors.InvalidArgumentError(
            None, None, f"{name} must be {dtype.name}, is {tf.as_dtype(given).name}"
        )


@functools.cache
def _converts(given: np.dtype | tf.DType, dtype: tf.DType) -> bool:
    return isinstance(given, np.dtype) and np.can_cast(given, dtype.as_numpy_dtype, "same_kind")
