"""Environments as `dm_env.Environment`s, created by `make("suite:domain:task", seed)`."""

from common.environments.registry import frames_per_step, make, make_batch, names, opened
from common.environments.spec import (
    BrokenSpecError,
    UnknownEnvironmentError,
    UnusableEnvironmentError,
)

__all__ = [
    "BrokenSpecError",
    "UnknownEnvironmentError",
    "UnusableEnvironmentError",
    "frames_per_step",
    "make",
    "make_batch",
    "names",
    "opened",
]
