"""Errors of environments, with messages of one line for the person who named one."""


class UnusableEnvironmentError(ValueError):
    """An environment cannot be made or used; the message is one line that says why."""


class UnknownEnvironmentError(UnusableEnvironmentError):
    """No environment has that name; the message lists near names."""
