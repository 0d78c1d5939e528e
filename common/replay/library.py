"""Loading of the compiled replay ops."""

from collections.abc import Callable
import functools
import pathlib
import types

import tensorflow as tf

_REBUILD = "run `python setup.py build_ext --inplace` in the repository to build them for it"


class ReplayLibraryError(ImportError):
    """A library of replay ops that is missing or was built for another TensorFlow."""


def find(directory: pathlib.Path, version: str) -> pathlib.Path:
    """Returns the library in `directory` that was built for TensorFlow `version`.

    The version is part of the file's name, so that it can be checked before loading: a library for
    another TensorFlow fails with an undefined symbol or, worse, loads and crashes later.

    Raises:
      ReplayLibraryError: there is none; the message names both versions and the command to build.
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
    """Returns the replay ops: generated wrappers, declared in `cc/*ops.cc`."""
    library = find(pathlib.Path(__file__).parent, tf.__version__)
    try:
        module = tf.load_op_library(str(library))
    except tf.errors.NotFoundError as error:
        raise ReplayLibraryError(
            f"{library.name} does not load with TensorFlow {tf.__version__}: {_REBUILD} ({error})"
        ) from error
    functions = {
        name: _readable(function)
        for name, function in vars(module).items()
        if name.startswith(("replay_", "episode_")) and callable(function)
    }
    return types.SimpleNamespace(**functions)


def _readable(function: Callable) -> Callable:
    """Returns an op whose eager errors say what is wrong, without the names of graph nodes."""

    @functools.wraps(function)
    def call(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except tf.errors.OpError as error:
            message = error.message.rsplit("}} ", 1)[-1].partition(" [Op:")[0]
            raise type(error)(None, None, message) from None

    return call
