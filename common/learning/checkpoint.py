"""Checkpoints of named state, saved and restored as a whole, and the files of policies.

A policy file contains either the parameters of a run's best evaluation, or layers exported for
other programs.
"""

from collections.abc import Iterator, Mapping, Sequence
import contextlib
import math
import os
import pathlib
import re
import shutil
from typing import Any, NamedTuple

import numpy as np
import sonnet as snt
import tensorflow as tf

from common.reporting.records import replace_file, skipped_if_full, whole_file
from common.user_error import UserError

_PREFIX = "ckpt"
_SAVE = re.compile(rf"{_PREFIX}-[1-9][0-9]{{0,17}}")
_PARTIAL = re.compile(rf"{_SAVE.pattern}_temp(_[0-9a-f]+)?")
_FILE = re.compile(rf"({_SAVE.pattern})\.(data-\d+-of-\d+|index\.tempstate\d+)")
_NAMES_FILE = "checkpoint"
_NEWEST = re.compile(rb'^model_checkpoint_path: "(%s)"$' % _SAVE.pattern.encode(), re.MULTILINE)
_UNREADABLE = "cannot be read ({}): correct this and start again; remove no files"
_OF_DAMAGE = (tf.errors.OpError, tf.errors.DataLossError, tf.errors.OutOfRangeError, IndexError)
"""TensorFlow's errors for wrong content. A malformed index raises the first, without a code."""


class CheckpointError(UserError):
    """Error of a checkpoint that cannot be read or belongs to another run; it names the file."""


class Checkpoints:
    """The checkpoints of named state in a directory.

    A new checkpoint is written next to the previous checkpoint and only then named as the newest.
    The previous checkpoint therefore stays valid if the process is killed while it writes.
    """

    def __init__(
        self, directory: pathlib.Path, state: Mapping[str, tf.Module | tf.Variable], keep: int = 2
    ):
        """Prepares to save and restore; reads nothing yet.

        Args:
          directory: the directory of the checkpoints.
          state: modules and variables by name.
          keep: number of checkpoints that stay on disk.
        """
        self._directory = pathlib.Path(directory)
        self._checkpoint = tf.train.Checkpoint(**state)
        self._keep = keep

    def restore(self) -> bool:
        """Restores the newest checkpoint, which may have more variables.

        Returns:
          False if there is no checkpoint.

        Raises:
          CheckpointError: it cannot be read, or does not fit the state. The files are unchanged,
            but the state may be partly restored: do not save it.
        """
        path = newest(self._directory)
        if path is None:
            return False
        with _readable(path) as plain:
            self._checkpoint.read(plain).assert_existing_objects_matched().expect_partial()
        return True

    def save(self) -> None:
        """Saves the state.

        The files are on the disk before the directory's file `checkpoint` names them, so that even
        after a kill or a power cut the newest checkpoint is readable.

        Raises:
          tf.errors.OpError: TensorFlow cannot write the files; the previous checkpoint stays.
          OSError: the disk is full, for example; the previous checkpoint stays.
        """
        self._directory.mkdir(exist_ok=True)  # fails if the run directory was moved or removed
        self._remove_partial_files()
        saves = _saves(self._directory)
        number = 1 + (_number(saves[-1]) if saves else 0)
        path = self._directory / f"{_PREFIX}-{number}"
        saves.append(path)
        try:
            self._checkpoint.write(str(path))
            for file in (*self._directory.glob(f"{path.name}.*"), self._directory):
                _sync(file)
            self._write_names([save.name for save in saves[-self._keep :]])
        except (tf.errors.OpError, OSError):
            _remove(path)
            self._remove_partial_files()
            raise
        for save in saves[: -self._keep]:
            _remove(save)

    def _write_names(self, saves: Sequence[str]) -> None:
        """Names the last of `saves` as the newest checkpoint, in TensorFlow's file format."""
        lines = [f'model_checkpoint_path: "{saves[-1]}"']
        lines += [f'all_model_checkpoint_paths: "{name}"' for name in saves]
        replace_file(self._directory / _NAMES_FILE, "\n".join(lines) + "\n")

    def _remove_partial_files(self) -> None:
        """Removes files without an index, which killed or failed saves and removals left behind."""
        whole = {save.name for save in _saves(self._directory)}
        for entry in list(self._directory.iterdir()):
            is_partial = _PARTIAL.fullmatch(entry.name)
            if is_partial and entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)
            elif is_partial or ((torn := _FILE.fullmatch(entry.name)) and torn[1] not in whole):
                entry.unlink(missing_ok=True)


def load_networks(directory: pathlib.Path, learner: tf.Module) -> None:
    """Restores the networks of another run's newest checkpoint, target networks included.

    Optimisers, and variables outside of the learner's modules, such as counters, stay unchanged.

    Args:
      directory: a run directory, or a directory of checkpoints.
      learner: a learner with networks of the same sizes and optimisers of the same kinds.

    Raises:
      CheckpointError: there is no checkpoint, or it does not fit.
    """
    below = directory / "checkpoints"
    children = tf.train.TrackableView(learner).children(learner)
    others = [part for part in children.values() if isinstance(part, snt.Optimizer | tf.Variable)]
    own = [variable for part in others for variable in getattr(part, "variables", [part])]
    values = [variable.numpy() for variable in own]
    try:
        if not Checkpoints(below if below.is_dir() else directory, {"learner": learner}).restore():
            raise CheckpointError("there is no checkpoint")
    except CheckpointError as error:
        reason = str(error).partition("; continue")[0]
        raise CheckpointError(f"--init_from={directory}: {reason}") from None
    for variable, value in zip(own, values):
        variable.assign(value)


def newest(directory: pathlib.Path) -> pathlib.Path | None:
    """Returns the prefix of the newest checkpoint's files, or None if there is no checkpoint.

    The directory's file `checkpoint` names the newest checkpoint. That file is missing if the first
    save was interrupted or a person removed it. The newest checkpoint is then the highest-numbered
    checkpoint with an index file, because the index is written last.

    Raises:
      CheckpointError: the file `checkpoint` is malformed, or names a checkpoint without files.
    """
    names = pathlib.Path(directory, _NAMES_FILE)
    try:
        found = _NEWEST.search(names.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        saves = _saves(names.parent)
        return saves[-1] if saves else None
    except OSError as error:
        raise CheckpointError(f"{names} {_UNREADABLE.format(error.strerror)}") from None
    if found is None:
        raise CheckpointError(
            f"{names} cannot be read: " + _way_out(names.parent, "remove this file")
        )
    path = names.with_name(found[1].decode())
    if not path.with_suffix(".index").exists():
        raise CheckpointError(
            f"{names} names {path.name}, whose files are missing: put them back, or "
            + _way_out(names.parent, f"remove the file {_NAMES_FILE}")
        )
    return path


@contextlib.contextmanager
def _readable(path: pathlib.Path) -> Iterator[str]:
    """Yields a prefix of a checkpoint's files without special characters.

    TensorFlow reads the prefix of a restore as a pattern, in which brackets, backslashes and other
    characters have a special meaning. A path through a file descriptor has none of these.

    Raises:
      CheckpointError: TensorFlow cannot read the files, or variables of this program are not in
        them or have other shapes. The message names files for removal only if they are certainly
        damaged: Python can read them, but TensorFlow rejects their content.
    """
    descriptor = os.open(path.parent, os.O_PATH)
    directory = pathlib.Path(f"/proc/self/fd/{descriptor}")
    try:
        yield str(directory / path.name)
    # TensorFlow's readers raise any of these for a truncated file.
    except (tf.errors.OpError, IndexError, ValueError, AssertionError, RuntimeError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".: ")
        reason = reason.rpartition("}} ")[2].replace(str(directory), str(path.parent))
        if isinstance(error, AssertionError) or "incompatible" in reason:
            raise CheckpointError(
                f"the checkpoint {path} does not fit the networks of this run: {reason:.300}; "
                "continue it with the version and flags that it was started with, or give "
                "--workdir a new directory"
            ) from None
        files = sorted(directory.glob(f"{path.name}.*"))
        try:
            for file in files:
                file.read_bytes()
        except OSError as refusal:
            name = pathlib.Path(refusal.filename or path).name
            files, reason = [], f"{name}: {refusal.strerror}"
        is_proved = type(error) in _OF_DAMAGE or not any(".data-" in file.name for file in files)
        if not (files and is_proved):
            raise CheckpointError(f"the checkpoint {path} {_UNREADABLE.format(reason)}") from None
        names = ", ".join(file.name for file in files)
        raise CheckpointError(
            f"the checkpoint {path} cannot be read because a file is damaged or missing "
            f"({reason}): " + _way_out(path.parent, f"remove {names} and {_NAMES_FILE}", path)
        ) from None
    finally:
        os.close(descriptor)


def _saves(directory: pathlib.Path) -> list[pathlib.Path]:
    """Returns the prefixes of the checkpoints that have an index file, in numerical order."""
    saves = (index.with_suffix("") for index in directory.glob(f"{_PREFIX}-*.index"))
    return sorted((save for save in saves if _SAVE.fullmatch(save.name)), key=_number)


def _number(save: pathlib.Path) -> int:
    return int(save.name.removeprefix(f"{_PREFIX}-"))


def _sync(path: pathlib.Path) -> None:
    """Waits until a file, or the names in a directory, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(save: pathlib.Path) -> None:
    """Removes a checkpoint's files, the index first: without it the other files are ignored."""
    for kind in ("index", "data-*-of-*"):
        for file in save.parent.glob(f"{save.name}.{kind}"):
            file.unlink(missing_ok=True)


def _way_out(directory: pathlib.Path, how: str, damaged: pathlib.Path | None = None) -> str:
    saves = [save for save in _saves(directory) if save != damaged]
    if saves:
        return f"{how} to continue from {saves[-1].name}"
    return f"{directory} has no other checkpoint, so give --workdir a new directory to start again"


class StoredPolicy(NamedTuple):
    """The contents of a policy file.

    Attributes:
      parameters: [P] float32, in the order in which they are published to actors.
      learner_steps: number of updates behind the parameters.
      episode_return: mean return of the evaluation.
    """

    parameters: np.ndarray
    learner_steps: int
    episode_return: float


def read_policy(path: pathlib.Path, num_parameters: int | None) -> StoredPolicy | None:
    """Returns the contents of a policy file, or None if there is no file.

    Args:
      path: path of the file.
      num_parameters: P of the agent. None does not read the parameters and returns them empty.

    Raises:
      CheckpointError: the file is damaged, or has another number of parameters.
    """
    try:
        with np.load(path) as file:
            steps, mean = int(file["learner_steps"]), float(file["episode_return"])
            is_read = num_parameters is not None
            flat = np.asarray(file["parameters"]) if is_read else np.empty(0, np.float32)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CheckpointError(f"{path} {_UNREADABLE.format(error.strerror)}") from None
    except Exception as error:  # damage can raise any error
        reason = " ".join(str(error).split()) or type(error).__name__
        raise CheckpointError(f"{path} cannot be read ({reason}): remove it") from None
    if flat.dtype != np.float32 or flat.shape != (num_parameters or 0,) or not math.isfinite(mean):
        raise CheckpointError(
            f"{path} has parameters {flat.dtype} {list(flat.shape)} and the return {mean}, not "
            f"float32 [{num_parameters or 0}] and a finite number: it belongs to another run, or "
            "is damaged"
        )
    return StoredPolicy(flat, steps, mean)


def write_policy(path: pathlib.Path, policy: StoredPolicy) -> None:
    """Writes a policy file, or keeps the previous file and logs a warning if the disk is full."""
    with skipped_if_full("the best policy is not saved"):
        path.parent.mkdir(exist_ok=True)
        with whole_file(path) as file:
            np.savez_compressed(file, **policy._asdict())


def export_policy(
    path: str | os.PathLike, layers: Sequence[tuple[str, Sequence[np.ndarray]]]
) -> None:
    """Writes the layers of a policy in the format that docs/read_policy.py reads.

    Args:
      path: path of the file, which ends in .npz.
      layers: result of `Policy.layers`.
    """
    arrays: dict[str, Any] = {
        f"{i}_{j}": parameter
        for i, (_, parameters) in enumerate(layers)
        for j, parameter in enumerate(parameters)
    }
    names = np.array([name for name, _ in layers])
    counts = np.array([len(parameters) for _, parameters in layers])
    np.savez_compressed(path, layers=names, counts=counts, **arrays)
