"""Loading of the compiled replay ops."""

from collections.abc import Callable, Sequence
import functools
import pathlib
import types
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import op_def_registry

from common.user_error import UserError

_REBUILD = (
    "run `python setup.py build_ext --inplace` in the repository to build them for this version"
)


class ReplayLibraryError(UserError):
    """A library of replay ops that is missing or was built for another TensorFlow."""


def find(directory: pathlib.Path, version: str) -> pathlib.Path:
    """Returns the library in `directory` that was built for TensorFlow `version`.

    The version is part of the file's name, so that it can be checked before loading. A library for
    another TensorFlow fails with an undefined symbol or, worse, loads and crashes later.

    Raises:
      ReplayLibraryError: there is no such library. The message has the command that builds it, and
        both versions if there are libraries for other versions.
    """
    library = directory / f"_ops.tf-{version}.so"
    if library.exists():
        return library
    others = [path.name[len("_ops.tf-") : -len(".so")] for path in directory.glob("_ops.tf-*.so")]
    if others:
        raise ReplayLibraryError(
            f"the replay ops were built for TensorFlow {', '.join(sorted(others))}, but TensorFlow "
            f"{version} is installed: {_REBUILD}"
        )
    raise ReplayLibraryError(f"the replay ops are not built yet: {_REBUILD}")


@functools.cache
def ops() -> types.SimpleNamespace:
    """Returns the generated wrappers of the replay ops, which `cc/*ops.cc` declare."""
    library = find(pathlib.Path(__file__).parent, tf.__version__)
    try:
        module = tf.load_op_library(str(library))
    except tf.errors.NotFoundError as error:
        raise ReplayLibraryError(
            f"{library.name} does not load with TensorFlow {tf.__version__}: {_REBUILD} ({error})"
        ) from error
    functions = {}
    for name, function in vars(module).items():
        definition = op_def_registry.get(name.title().replace("_", ""))
        if name.startswith(("replay_", "episode_")) and definition is not None:
            functions[name] = _checked(function, definition.input_arg)
    return types.SimpleNamespace(**functions)


def _checked(function: Callable, inputs: Sequence[Any]) -> Callable:
    """Returns an op with readable errors, which eagerly do not contain names of graph nodes.

    Args:
      function: the op's generated wrapper.
      inputs: definitions of the op's inputs.
    """
    dtypes = [(each.name, tf.as_dtype(each.type)) for each in inputs if each.type]  # not lists

    @functools.wraps(function)
    def call(*args, **kwargs):
        for (name, dtype), value in zip(dtypes, args):
            check_dtype(name, value, dtype)
        try:
            return function(*args, **kwargs)
        except tf.errors.OpError as error:
            message = error.message.rsplit("}} ", 1)[-1].partition(" [Op:")[0]
            raise type(error)(None, None, message) from None

    return call


def check_dtype(name: str, value: Any, dtype: tf.DType) -> None:
    """Raises InvalidArgumentError for a tensor of another dtype or an array of another kind.

    TensorFlow itself would give only the argument's number, and silently round float NumPy keys.
    """
    given = getattr(value, "dtype", dtype)
    if given is not dtype and not _converts(given, dtype):
        raise tf.errors.InvalidArgumentError(
            None, None, f"{name} must be {dtype.name}, is {tf.as_dtype(given).name}"
        )


@functools.cache
def _converts(given: np.dtype | tf.DType, dtype: tf.DType) -> bool:
    return isinstance(given, np.dtype) and np.can_cast(given, dtype.as_numpy_dtype, "same_kind")
