"""Every environment as a `dm_env.Environment`, behind `make("suite:domain:task", seed)`."""

from common.environments.errors import UnknownEnvironmentError, UnusableEnvironmentError
from common.environments.registry import make, names

__all__ = ["UnknownEnvironmentError", "UnusableEnvironmentError", "make", "names"]
