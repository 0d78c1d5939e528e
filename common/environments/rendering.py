"""Pictures from MuJoCo without a screen."""

import os

from common.environments.errors import UnusableEnvironmentError

_VARIABLE = "MUJOCO_GL"
_BACKENDS = ("egl", "osmesa", "glfw")


def enable() -> None:
    """Chooses EGL, unless the user chose another renderer.

    To be called before a simulator is imported, which is when they read the variable.
    """
    if os.environ.get(_VARIABLE, "").lower() not in _BACKENDS:
        os.environ[_VARIABLE] = "egl"


def disable() -> None:
    """Keeps a simulator from loading a renderer, unless there is one chosen already."""
    os.environ.setdefault(_VARIABLE, "disable")


def unusable(error: Exception) -> UnusableEnvironmentError:
    """The error for a renderer that does not load or draw, which raise errors of any kind."""
    reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    return UnusableEnvironmentError(
        f"cannot draw with {_VARIABLE}={os.environ.get(_VARIABLE)} ({reason}): without a screen it "
        "takes MUJOCO_GL=egl, libEGL and a driver (Debian: apt-get install libegl1 "
        "libgl1-mesa-dri); what draws nothing needs none of it: unset MUJOCO_GL"
    )
