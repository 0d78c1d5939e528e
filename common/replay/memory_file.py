"""The error of a replay memory's file."""

import tensorflow as tf

from common.reporting.user_error import UserError


class ReplayFileError(UserError):
    """A file of a replay memory that cannot be written or loaded."""


def check(wrong: tf.Tensor) -> None:
    """Raises an error of the line that an op outputs if it cannot write or load a file.

    Args:
      wrong: string scalar, empty if the op has succeeded.

    Raises:
      ReplayFileError: the op has failed.
    """
    if line := wrong.numpy().decode(errors="replace"):
        raise ReplayFileError(line)
