"""Errors of the cluster, with messages for the person who started the run."""


class ClusterError(Exception):
    """An error of the cluster; the message says what is wrong and what to do.

    Attributes:
      is_transient: whether the same program may succeed later without any change.
    """

    is_transient = False


class AddressInUseError(ClusterError):
    """Error of a server whose address another process already uses."""

    is_transient = True


class ServiceUnavailableError(ClusterError):
    """Error of a call without a reply: the service is starting, gone, or slower than the timeout.

    The service may still execute a call that timed out.
    """

    is_transient = True


class NoServiceError(ClusterError):
    """Error of a call to an address at which something other than a cluster's service answers."""


class UnknownHostError(ServiceUnavailableError):
    """Error of an address whose host name does not resolve."""

    is_transient = False


class OtherRunError(ClusterError):
    """Error of a call between processes of different runs."""


class WrongTokenError(ClusterError):
    """Error of a call to a service that cannot prove that it knows the caller's token."""


class MessageTooLargeError(ClusterError):
    """Error of a call whose arguments or reply exceed the size limit of a message."""
