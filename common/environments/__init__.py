"""Every environment as a `dm_env.Environment`, made by `make("suite:domain:task", seed)`."""

from common.environments.environment_errors import (
    BrokenSpecError,
    UnknownEnvironmentError,
    UnusableEnvironmentError,
)
from common.environments.registry import frames_per_step, make, make_batch, names

__all__ = [
    "BrokenSpecError",
    "UnknownEnvironmentError",
    "UnusableEnvironmentError",
    "frames_per_step",
    "make",
    "make_batch",
    "names",
]
