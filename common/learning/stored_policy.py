"""Files of a policy: the parameters of a run's best evaluation, and layers for any program."""

from collections.abc import Sequence
import os
import pathlib
from typing import Any, NamedTuple
import zipfile

from absl import logging
import numpy as np

from common.learning.checkpoint import CheckpointError
from common.reporting.disk import disk_full


class StoredPolicy(NamedTuple):
    """The contents of a file.

    Attributes:
      parameters: [P] float32, in the order in which they are published to actors.
      learner_steps: updates that the parameters have had.
      episode_return: mean return of the evaluation.
    """

    parameters: np.ndarray
    learner_steps: int
    episode_return: float


def read(path: pathlib.Path) -> StoredPolicy | None:
    """Returns the contents of a file, None if there is none.

    Raises:
      CheckpointError: it is damaged.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            parameters, steps, mean = (file[name] for name in StoredPolicy._fields)
            if parameters.dtype != np.float32 or parameters.ndim != 1:
                raise ValueError(f"parameters are {parameters.dtype} {list(parameters.shape)}")
            return StoredPolicy(parameters, int(steps), float(mean))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        reason = " ".join(str(error).split())
        raise CheckpointError(f"{path} cannot be read ({reason}): remove it") from None


def write(path: pathlib.Path, policy: StoredPolicy) -> None:
    """Writes a whole file, or leaves the old one and logs a warning while the disk is full."""
    temporary = path.with_name(f".{path.name}")
    try:
        with open(temporary, "wb") as file:
            np.savez_compressed(file, **policy._asdict())
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        reason = disk_full(error)
        if not reason:
            raise
        logging.warning("the best policy is not kept: %s", reason)


def export(path: str | os.PathLike, layers: Sequence[tuple[str, Sequence[np.ndarray]]]) -> None:
    """Writes the layers of a policy, as docs/read_policy.py reads them.

    Args:
      path: ends in .npz.
      layers: as of `Policy.layers`.
    """
    arrays: dict[str, Any] = {
        f"{i}_{j}": parameter
        for i, (_, parameters) in enumerate(layers)
        for j, parameter in enumerate(parameters)
    }
    names = np.array([name for name, _ in layers])
    counts = np.array([len(parameters) for _, parameters in layers])
    np.savez_compressed(path, layers=names, counts=counts, **arrays)
