"""Probes that tell why an address does not answer; TensorFlow's client only reports a timeout.

This module does not import TensorFlow.
"""

import socket
import time

from common.cluster.errors import NoServiceError, ServiceUnavailableError, UnknownHostError
from common.cluster.topology import connect

# HTTP/2's client preface with an empty SETTINGS frame (RFC 9113, section 3.4). A server answers
# with a SETTINGS frame of its own; the frame's fourth byte is its type.
_EMPTY_SETTINGS = b"\0\0\0\x04\0\0\0\0\0"
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _EMPTY_SETTINGS
_SETTINGS_TYPE = 4


def probe(address: str, timeout_seconds: float = 2.0) -> None:
    """Returns if an HTTP/2 server, such as gRPC's, answers at the address.

    Args:
      address: `host:port` or `unix:/path`.
      timeout_seconds: for the connection, and for each read.

    Raises:
      UnknownHostError: the host does not resolve.
      ServiceUnavailableError: nothing listens there, or it sends nothing.
      NoServiceError: something else listens there.
    """
    try:
        with connect(address, timeout_seconds) as connection:
            connection.sendall(_PREFACE)
            answer = _receive(connection, len(_EMPTY_SETTINGS))
    except socket.gaierror as error:
        raise UnknownHostError(
            f"cannot resolve the host of {address} ({error.strerror}): correct it in TF_CONFIG, "
            "or the network's name service"
        ) from None
    except OSError as error:
        raise ServiceUnavailableError(
            f"nothing answers at {address} ({error.strerror or error})"
        ) from None
    if not answer:
        raise ServiceUnavailableError(f"the process that listens at {address} sends nothing")
    if len(answer) < len(_EMPTY_SETTINGS) or answer[3] != _SETTINGS_TYPE:
        raise NoServiceError(
            f"the process at {address} is no service of a cluster: correct the address in TF_CONFIG"
        )


def is_gone(address: str) -> bool:
    """Returns whether nothing listens at an address, though its host answers."""
    try:
        connect(address, 2.0).close()
    except (ConnectionRefusedError, FileNotFoundError):
        return True
    except OSError:
        pass  # slow, or away for a while
    return False


def check(address: str, patience_seconds: float) -> None:
    """Returns if a role serves at the address or may do so later.

    Args:
      address: `host:port` or `unix:/path`.
      patience_seconds: how long to wait for its host to resolve. On a cluster that is starting its
        machines, their names appear only when they do.

    Raises:
      UnknownHostError: the host does not resolve in time.
      NoServiceError: something else listens there.
    """
    deadline = time.monotonic() + patience_seconds
    while True:
        try:
            probe(address)
            return
        except UnknownHostError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)
        except ServiceUnavailableError:
            return


def _receive(connection: socket.socket, size: int) -> bytes:
    answer = b""
    while len(answer) < size and (more := connection.recv(size - len(answer))):
        answer += more
    return answer
