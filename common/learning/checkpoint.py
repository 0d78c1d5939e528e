"""Checkpoints: a registry of named state, saved as a whole."""

from collections.abc import Iterator, Mapping, Sequence
import contextlib
import os
import pathlib
import shutil

import tensorflow as tf

_PREFIX = "ckpt"
_NAMES_FILE = "checkpoint"
_VALUE_SUFFIX = "/.ATTRIBUTES/VARIABLE_VALUE"


class CheckpointError(ValueError):
    """A checkpoint cannot be read, or is not of this run. One line: which file, what to do."""


class Checkpoints:
    """Saves and restores named trackables (modules, variables) in one directory.

    A save is written beside the old one and named last, so a kill in its middle leaves the old one.
    """

    def __init__(
        self, directory: pathlib.Path, state: Mapping[str, tf.Module | tf.Variable], keep: int = 2
    ):
        self._directory = pathlib.Path(directory)
        self._checkpoint = tf.train.Checkpoint(**state)
        self._keep = keep

    def restore(self) -> bool:
        """Restores the newest checkpoint; False if there is none.

        Raises:
          CheckpointError: it cannot be read, or does not fit the state. Nothing on disk is changed,
            but the state may be half restored: do not save it.
        """
        path = newest(self._directory)
        if path is None:
            return False
        restore_from(path, self._checkpoint)
        return True

    def save(self) -> None:
        """Saves all of the state.

        The files are on the disk before the directory's `checkpoint` file names them, so that
        neither a kill nor a power cut leaves a save that cannot be read as the newest one.

        Raises:
          tf.errors.OpError or OSError: the disk is full, for example. The save before stays.
        """
        self._remove_remains()
        saves = _saves(self._directory)
        number = 1 + (_number(saves[-1]) if saves else 0)
        path = self._directory / f"{_PREFIX}-{number}"
        try:
            self._checkpoint.write(str(path))
            for file in (*self._directory.glob(f"{path.name}.*"), self._directory):
                _sync(file)
            kept = [save.name for save in (*saves, path)][-self._keep :]
            self._write_names(kept)
        except (tf.errors.OpError, OSError):
            _remove(path)
            raise
        for save in saves[: max(0, len(saves) + 1 - self._keep)]:
            _remove(save)

    def _write_names(self, saves: Sequence[str]) -> None:
        """Makes the last of these the newest save, in the form in which TensorFlow reads it."""
        lines = [f'model_checkpoint_path: "{saves[-1]}"']
        lines += [f'all_model_checkpoint_paths: "{name}"' for name in saves]
        temporary = self._directory / f".{_NAMES_FILE}"
        temporary.write_text("\n".join(lines) + "\n")
        _sync(temporary)
        os.replace(temporary, self._directory / _NAMES_FILE)

    def _remove_remains(self) -> None:
        """Removes what a save that was killed has left."""
        for remains in self._directory.glob(f"{_PREFIX}-*_temp*"):
            shutil.rmtree(remains, ignore_errors=True)


def newest(directory: pathlib.Path) -> pathlib.Path | None:
    """Returns the prefix of the newest save's files, None if there is none.

    That is the one which the directory's `checkpoint` file names. Where there is no such file, be
    it that the first save was cut off before it or that a person removed it, it is the save of the
    highest number whose index exists: the index is written last.

    Raises:
      CheckpointError: the `checkpoint` file is not one, or names a save whose files are gone.
    """
    names = pathlib.Path(directory, _NAMES_FILE)
    if not names.exists():
        saves = _saves(names.parent)
        return saves[-1] if saves else None
    try:
        state = tf.train.get_checkpoint_state(str(directory))
    except (UnicodeDecodeError, ValueError, tf.errors.OpError):
        state = None
    if state is None:
        raise CheckpointError(
            f"{names} cannot be read: "
            + _way_out(names.parent, _saves(names.parent), "remove this file")
        )
    path = pathlib.Path(state.model_checkpoint_path)
    if not path.with_name(f"{path.name}.index").exists():
        raise CheckpointError(
            f"{names} names {path.name}, whose files are missing: bring them back, or "
            + _way_out(names.parent, _saves(names.parent), f"remove the file {_NAMES_FILE}")
        )
    return path


def restore_from(path: pathlib.Path, checkpoint: tf.train.Checkpoint) -> None:
    """Restores every variable of `checkpoint` from the save with this prefix.

    What the save holds beyond that is left alone.

    Raises:
      CheckpointError: the save is truncated or otherwise not readable, or it does not hold these
        variables. `checkpoint` may be half restored.
    """
    with _readable_errors(path):
        reader = tf.train.load_checkpoint(str(path))
        there = {
            name.removesuffix(_VALUE_SUFFIX): shape
            for name, shape in reader.get_variable_to_shape_map().items()
        }
        _refuse_foreign(path, there, checkpoint)
        checkpoint.read(str(path)).assert_existing_objects_matched().expect_partial()


@contextlib.contextmanager
def _readable_errors(path: pathlib.Path) -> Iterator[None]:
    try:
        yield
    except CheckpointError:
        raise
    # Of a file that is cut, TensorFlow's readers say IndexError, OpError, or ValueError.
    except (tf.errors.OpError, IndexError, ValueError, AssertionError, RuntimeError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".: ")
        former = [save for save in _saves(path.parent) if save != path]
        files = ", ".join(sorted(file.name for file in path.parent.glob(f"{path.name}.*")))
        raise CheckpointError(
            f"the checkpoint {path} cannot be read, a file is damaged or missing ({reason}): "
            + _way_out(path.parent, former, f"remove {files} and {_NAMES_FILE}")
        ) from None


def _refuse_foreign(
    path: pathlib.Path, there: Mapping[str, list[int]], checkpoint: tf.train.Checkpoint
) -> None:
    """Compares names and shapes before anything is restored."""
    here = _shapes(checkpoint)
    differences = [
        f"{name} is {list(there[name])} there and {shape.as_list()} here"
        if name in there
        else f"{name} is not there"
        for name, shape in here.items()
        if name not in there or not shape.is_compatible_with(there[name])
    ]
    if differences:
        more = f", and {len(differences) - 1} more" if len(differences) > 1 else ""
        raise CheckpointError(
            f"the checkpoint {path} is of another run or of another version of this program: "
            f"{differences[0]}{more}; continue it as it was begun, or give --workdir a new "
            "directory"
        )


def _shapes(checkpoint: tf.train.Checkpoint) -> dict[str, tf.TensorShape]:
    """Returns the shape of each variable by its name in a save: the shortest path to it, as TF."""
    view = tf.train.TrackableView(checkpoint)
    shapes, queue, seen = {}, [("", checkpoint)], {id(checkpoint)}  # variables have no hash
    for path, node in queue:  # grows as it goes
        if isinstance(node, tf.Variable):
            shapes[path.removesuffix("/")] = node.shape
        for name, child in view.children(node).items():
            if id(child) not in seen:
                seen.add(id(child))
                queue.append((f"{path}{name}/", child))
    return shapes


def _saves(directory: pathlib.Path) -> list[pathlib.Path]:
    """Returns the prefixes of the saves whose index is there, in the order of their numbers."""
    indices = directory.glob(f"{_PREFIX}-*.index")
    return sorted((one.with_suffix("") for one in indices if _is_save(one.stem)), key=_number)


def _is_save(name: str) -> bool:
    return name.removeprefix(f"{_PREFIX}-").isdigit()


def _number(save: pathlib.Path) -> int:
    return int(save.name.removeprefix(f"{_PREFIX}-"))


def _sync(path: pathlib.Path) -> None:
    """Returns when a file, or the names in a directory, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(save: pathlib.Path) -> None:
    """Removes the files of a save, its index first: without one it is none."""
    for file in sorted(
        save.parent.glob(f"{save.name}.*"), key=lambda file: file.suffix != ".index"
    ):
        file.unlink(missing_ok=True)


def _way_out(directory: pathlib.Path, saves: list[pathlib.Path], how: str) -> str:
    if saves:
        return f"{how} to go on from {saves[-1].name}"
    return f"{directory} has no other save, give --workdir a new directory to begin anew"
