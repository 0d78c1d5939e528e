"""Rendering without a screen, and scaling of pictures."""

from collections.abc import Iterator
import contextlib
import os

import numpy as np

from common.environments.spec import UnusableEnvironmentError

_VARIABLE = "MUJOCO_GL"
_BACKENDS = ("egl", "osmesa", "glfw")


def enable() -> None:
    """Chooses EGL, unless the user has chosen another renderer.

    Call it before a simulator is imported: simulators read the variable at import.
    """
    if os.environ.get(_VARIABLE, "").lower() not in _BACKENDS:
        os.environ[_VARIABLE] = "egl"


@contextlib.contextmanager
def imports() -> Iterator[None]:
    """Prevents simulators that the block imports from loading a renderer, unless one was chosen.

    Raises:
      ModuleNotFoundError: a package is not installed.
      UnusableEnvironmentError: the chosen renderer cannot be loaded.
    """
    os.environ.setdefault(_VARIABLE, "disable")
    try:
        yield
    except ModuleNotFoundError:
        raise
    except (ImportError, AttributeError, RuntimeError) as error:
        raise unusable(error) from error


def unusable(error: Exception) -> UnusableEnvironmentError:
    """Returns the error to raise when a renderer fails to load or draw with any `error`."""
    reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    return UnusableEnvironmentError(
        f"cannot draw with {_VARIABLE}={os.environ.get(_VARIABLE)} ({reason}): drawing without "
        "a screen needs MUJOCO_GL=egl, libEGL and a driver (Debian: apt-get install libegl1 "
        "libgl1-mesa-dri); if the program draws nothing, unset MUJOCO_GL"
    )


def resized(picture: np.ndarray, height: int, width: int) -> np.ndarray:
    """Scales a picture [rows, columns, ...] to [height, width, ...] by nearest neighbour."""
    rows = np.arange(height) * picture.shape[0] // height
    columns = np.arange(width) * picture.shape[1] // width
    return picture[rows[:, np.newaxis], columns]


def in_the_middle(picture: np.ndarray, height: int, width: int) -> np.ndarray:
    """Returns a picture scaled to a square in the middle of a black picture.

    Args:
      picture: uint8 [rows, columns, 3].
      height: height of the result, uint8 [height, width, 3].
      width: width of the result.
    """
    side = min(height, width)
    shown = np.zeros((height, width, 3), np.uint8)
    top, left = (height - side) // 2, (width - side) // 2
    shown[top : top + side, left : left + side] = resized(picture, side, side)
    return shown
