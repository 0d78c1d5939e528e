"""Errors of the cluster: one line each, for the person who started the run."""


class ClusterError(Exception):
    """Something about the cluster is wrong; the message says what to do."""

    may_pass = False
    """Whether the same program may succeed at another time, without a change by a person."""


class AddressInUseError(ClusterError):
    """Another process serves at the address already."""

    may_pass = True


class ServiceUnavailableError(ClusterError):
    """A service did not answer: it is starting, gone, or slower than the call's timeout.

    A call that timed out may still be applied by the service.
    """

    may_pass = True


class NoServiceError(ClusterError):
    """Something else than a service of a cluster answers at the address."""


class UnknownHostError(ServiceUnavailableError):
    """The host of an address does not resolve. A role that starts gives it some seconds to."""

    may_pass = False


class OtherRunError(ClusterError):
    """Caller and service are of different runs."""


class WrongTokenError(ClusterError):
    """A service refused the caller's token."""


class MessageTooLargeError(ClusterError):
    """The arguments or the reply of a call exceed what one message may hold."""
