"""Every environment as a `dm_env.Environment`, behind `make("suite:domain:task", seed)`."""

from common.environments.errors import UnknownEnvironmentError, UnusableEnvironmentError
from common.environments.registry import environment_bytes, frames_per_step, make, make_batch, names

__all__ = [
    "UnknownEnvironmentError",
    "UnusableEnvironmentError",
    "environment_bytes",
    "frames_per_step",
    "make",
    "make_batch",
    "names",
]
