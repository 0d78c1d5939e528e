"""Errors of the cluster: one line each, for the person who started the run."""


class ClusterError(Exception):
    """Something about the cluster is wrong; the message says what to do."""


class AddressInUseError(ClusterError):
    """Another process serves at the address already."""


class ServiceUnavailableError(ClusterError):
    """A service did not answer: it is starting, gone, or slower than the call's timeout.

    A call that timed out may still be applied by the service.
    """


class WrongTokenError(ClusterError):
    """A service refused the caller's token."""


class MessageTooLargeError(ClusterError):
    """The arguments or the reply of a call exceed what one message may hold."""
