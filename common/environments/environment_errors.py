"""Errors of environments, with messages of one line for the person who named one."""

import reprlib
from typing import Any


class UnusableEnvironmentError(ValueError):
    """An environment that cannot be made or used; the message is one line that says why."""


class BrokenSpecError(UnusableEnvironmentError):
    """An environment that gives something else than its specs say; a restart would repeat it."""


class UnknownEnvironmentError(UnusableEnvironmentError):
    """A name that no environment has; the message lists near names."""


def kind_of(value: Any) -> str:
    """Returns the dtype and shape of an array or a spec, and a short text of anything else."""
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return f"{value.dtype} {list(value.shape)}"
    return reprlib.repr(value)
