"""Every environment as a `dm_env.Environment`, behind `make("suite:domain:task", seed)`."""

from common.environments.registry import UnknownEnvironmentError, make, names

__all__ = ["UnknownEnvironmentError", "make", "names"]
