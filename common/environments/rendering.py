"""Pictures from MuJoCo without a screen."""

import os

from common.environments.environment_errors import UnusableEnvironmentError

_VARIABLE = "MUJOCO_GL"
_BACKENDS = ("egl", "osmesa", "glfw")


def enable() -> None:
    """Chooses EGL, unless the user has chosen another renderer.

    Call it before a simulator is imported: simulators read the variable at import.
    """
    if os.environ.get(_VARIABLE, "").lower() not in _BACKENDS:
        os.environ[_VARIABLE] = "egl"


def disable() -> None:
    """Keeps simulators from loading a renderer, unless one has been chosen already."""
    os.environ.setdefault(_VARIABLE, "disable")


def unusable(error: Exception) -> UnusableEnvironmentError:
    """Returns the error to raise when a renderer fails to load or draw with any `error`."""
    reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    return UnusableEnvironmentError(
        f"cannot draw with {_VARIABLE}={os.environ.get(_VARIABLE)} ({reason}): without a screen it "
        "takes MUJOCO_GL=egl, libEGL and a driver (Debian: apt-get install libegl1 "
        "libgl1-mesa-dri); what draws nothing needs none of it: unset MUJOCO_GL"
    )
