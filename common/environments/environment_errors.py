"""Errors of environments, with messages of one line for the person who named one."""


class UnusableEnvironmentError(ValueError):
    """An environment that cannot be made or used; the message is one line that says why."""


class UnknownEnvironmentError(UnusableEnvironmentError):
    """A name that no environment has; the message lists near names."""
