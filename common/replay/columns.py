"""The columns of a stored step, and the keys of steps.

A key is an int64 = 0 | shard (5 bits) | actor (12) | incarnation (14) | step (32). It says which
actor made the step, and when. So the memory recognises a retried insert, and a restarted actor does
not reuse the keys of its earlier start (Ape-X, appendix F: keys encode actor and environment step).
Consecutive steps of an actor have consecutive keys.
"""

from collections.abc import Sequence
import dataclasses
import math

import numpy as np
import tensorflow as tf
import tree

from common.replay.footprint import (
    ACTOR_BITS,
    INCARNATION_BITS,
    MAX_INCARNATIONS,
    SHARD_BITS,
    STEP_BITS,
)
from common.types import Nest


@dataclasses.dataclass(frozen=True)
class Bytes:
    """The spec of a column of byte strings, used instead of a `tf.TensorSpec` of shape [].

    The memory stores each string at its own length, but RPC messages are sized for the longest one.
    A NumPy column must be an object array of `bytes`: dtype "S" loses zeros at the end.

    Attributes:
      max_bytes: length of the longest string allowed.
      prefix: bytes with which each string must start.
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


class Signature:
    """The columns of a stored step.

    Attributes:
      specs: nest of `Bytes` and of `tf.TensorSpec` without batch dimension.
      names: names of the columns, in the nest's order, as in `dtypes` and `shapes`.
      max_bytes: length of the longest string allowed in each column; 0 for other columns.
    """

    def __init__(self, specs: Nest):
        """Flattens the nest of specs.

        Raises:
          ValueError: the spec of a column of strings is not `Bytes`, or a column's shape is not
            fully defined.
        """
        self.specs = specs
        flat = tree.flatten_with_path(specs)
        self.names = _names(specs)
        self.dtypes = [spec.dtype for _, spec in flat]
        self.shapes = [spec.shape for _, spec in flat]
        self.max_bytes = [getattr(spec, "max_bytes", 0) for _, spec in flat]
        self.prefixes = [getattr(spec, "prefix", b"") for _, spec in flat]
        self.suffixes = [getattr(spec, "suffix", b"") for _, spec in flat]
        for name, dtype, shape, max_bytes in zip(
            self.names, self.dtypes, self.shapes, self.max_bytes
        ):
            if dtype == tf.string and not max_bytes:
                raise ValueError(f"column {name} holds strings: its spec must be Bytes(max_bytes)")
            if not shape.is_fully_defined():
                raise ValueError(f"column {name} has a shape that is not fully defined, {shape}")
        # A flat named tuple, the usual case, is handled without `tree`, which takes microseconds.
        is_flat = hasattr(specs, "_make") and len(flat) == len(specs)
        is_flat = is_flat and all(len(path) == 1 for path, _ in flat)
        self._flat_type = type(specs) if is_flat else None

    @property
    def attributes(self) -> dict[str, list]:
        """The attributes that describe the columns to the op that creates a memory."""
        names = ("names", "dtypes", "shapes", "max_bytes", "prefixes", "suffixes")
        return {name: getattr(self, name) for name in names}

    def flatten(self, steps: Nest) -> list:
        """Returns the columns of `steps` in order.

        Raises:
          ValueError: `steps` has a different structure.
        """
        if type(steps) is self._flat_type:
            return list(steps)
        try:
            tree.assert_same_structure(self.specs, steps)
        except (ValueError, TypeError):
            given = ", ".join(_names(steps)) or "none"
            raise ValueError(
                f"steps must have the structure of the specs: a {type(self.specs).__name__} with "
                f"the columns {', '.join(self.names)}, is a {type(steps).__name__} with {given}"
            ) from None
        return tree.flatten(steps)

    def unflatten(self, columns: Sequence) -> Nest:
        """Returns columns as a nest of the signature's structure."""
        if self._flat_type is not None:
            return self._flat_type._make(columns)
        return tree.unflatten_as(self.specs, columns)

    def checked(self, steps: Nest) -> list[np.ndarray]:
        """Returns the columns of `steps` [M, ...] as arrays; does not check the bytes of strings.

        Raises:
          ValueError: `steps` has a different structure, or a column has the wrong dtype or shape,
            or values that are not finite.
        """
        columns = [np.asarray(column) for column in self.flatten(steps)]
        num_rows = columns[0].shape[:1]
        for name, dtype, shape, column in zip(self.names, self.dtypes, self.shapes, columns):
            if column.dtype != dtype.as_numpy_dtype:
                raise ValueError(f"column {name} must be {dtype.name}, is {column.dtype}")
            if column.shape != (*num_rows, *shape):
                raise ValueError(
                    f"column {name} must have shape {[*num_rows, *shape]}, has {list(column.shape)}"
                )
            if dtype.is_floating and not np.isfinite(column).all():
                raise ValueError(f"column {name} must be finite, has NaN or infinite values")
        return columns

    def set_shapes(self, leading: Sequence[int | None], columns: Sequence[tf.Tensor]) -> None:
        """Sets the static shapes of columns in a graph to [leading..., ...]."""
        for column, shape in zip(columns, self.shapes):
            column.set_shape(tf.TensorShape(leading).concatenate(shape))

    @property
    def bytes_per_step(self) -> int:
        """The raw bytes of a step whose strings have their maximum length."""
        fixed = sum(s.num_elements() * d.size for s, d in zip(self.shapes, self.dtypes))
        return fixed + sum(self.max_bytes)

    @property
    def message_bytes(self) -> int:
        """The maximum number of bytes of a step in a message."""
        return sum(
            max_bytes + shape.num_elements() * _most_message_bytes(dtype)
            for shape, dtype, max_bytes in zip(self.shapes, self.dtypes, self.max_bytes)
        )

    @property
    def column_specs(self) -> list[tf.TensorSpec]:
        """A spec of unknown shape for each column; the stores check the shapes."""
        return [
            tf.TensorSpec(None, dtype, f"column {name}")
            for name, dtype in zip(self.names, self.dtypes)
        ]


def _most_message_bytes(dtype: tf.DType) -> int:
    """Returns the maximum number of bytes of an element in a message. Integers are varints.

    For a string this is the overhead, without the string's own bytes.
    """
    if dtype == tf.string:
        return 6  # tag and length
    if dtype in (tf.half, tf.bfloat16):
        return 3
    if not dtype.is_integer:
        return dtype.size
    return math.ceil(8 * dtype.size / 7) if dtype.is_unsigned else 10


def _names(nest: Nest) -> list[str]:
    paths = (path for path, _ in tree.flatten_with_path(nest))
    return ["/".join(map(str, path)) or "step" for path in paths]


_SHARD_SHIFT = ACTOR_BITS + INCARNATION_BITS + STEP_BITS


def make_keys(shard, actor, incarnation, step) -> np.ndarray:
    """Returns int64 keys; the arguments are integers or integer arrays that broadcast.

    Raises:
      ValueError: a part does not fit its bits.
    """
    key = np.int64(0)
    for name, value, bits in (
        ("shard", shard, SHARD_BITS),
        ("actor", actor, ACTOR_BITS),
        ("incarnation", incarnation, INCARNATION_BITS),
        ("step", step, STEP_BITS),
    ):
        value = np.asarray(value, np.int64)
        if np.any(value < 0) or np.any(value >> bits):
            raise ValueError(f"{name} must be in [0, 2^{bits}), is {value}")
        key = (key << bits) | value
    return key


def transition_keys(shard: int, actor, incarnation: int, step) -> np.ndarray:
    """Returns keys with the number of an incarnation from `Inbox.next_incarnation`."""
    return make_keys(shard, actor, incarnation % MAX_INCARNATIONS, step)


def shard_of(keys: np.ndarray) -> np.ndarray:
    """Returns the shard of each key, int64."""
    return np.asarray(keys, np.int64) >> _SHARD_SHIFT
