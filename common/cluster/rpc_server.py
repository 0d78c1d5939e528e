"""Servers of methods for the clients in `common.cluster.rpc`."""

from collections.abc import Callable, Sequence
import dataclasses
import errno
import secrets
import socket
import threading
from typing import Any
import weakref

import numpy as np
import tensorflow as tf

from common.cluster.credentials import Credentials
from common.cluster.errors import (
    AddressInUseError,
    ClusterError,
    NoServiceError,
    OtherRunError,
    ServiceUnavailableError,
    WrongTokenError,
)
from common.cluster.rpc import (
    CHALLENGE,
    DESCRIBE,
    NONCE_BYTES,
    OTHER_RUN_TEXT,
    PING,
    WRONG_PROOF_TEXT,
    Client,
)
from common.cluster.topology import split_address, unix_path
from common.types import Nest

MAX_COUNT = 2**44
"""Largest count that a caller may send, unless the argument's spec says otherwise.

Replay keys cannot number more steps of an actor process, and sums over thousands of callers stay
below 2^63.
"""
_CLOSE_SECONDS = 5.0


@dataclasses.dataclass(frozen=True)
class Count:
    """The spec of a non-negative int64 argument, such as a count, a number or an index.

    Attributes:
      name: name of the argument, for error messages.
      most: the largest value allowed.
      shape: shape of the argument.
    """

    name: str
    most: int = MAX_COUNT
    shape: Sequence[int] = ()
    dtype = tf.int64


def in_python(function: Callable[..., Any], dtypes: Any) -> Callable[..., Nest]:
    """Returns a function of tensors for `Server.register` that runs a function of NumPy arrays.

    Args:
      function: returns values that convert to arrays.
      dtypes: dtype of the value, or a list of the values' dtypes.
    """
    return lambda *arguments: tf.numpy_function(function, arguments, dtypes)


class Server:
    """A set of methods at an address, for callers of the same cluster and run only.

    Register every method, then call `start`. Calls run in parallel on TensorFlow's threads.
    """

    def __init__(
        self, address: str, credentials: str | Credentials, advertised_address: str | None = None
    ):
        """Checks that the address can be bound.

        Args:
          address: `host:port` or `unix:/path` to listen at.
          credentials: must match the callers' credentials; a token alone admits every run.
          advertised_address: the address that callers use, in their spelling; None: `address`.

        Raises:
          AddressInUseError: the port is taken.
          ClusterError: the token is empty, or the host does not resolve to an address of this
            machine.
        """
        self._credentials = Credentials.of(credentials)
        if not self._credentials.token:
            raise ClusterError("the cluster token of this server is empty: set REPLAY_RL_TOKEN")
        _check_can_bind(address)
        self.address = address
        self.advertised_address = advertised_address or address
        self._identity = secrets.token_hex(NONCE_BYTES)
        self._functions: list[Any] = []  # the server needs them to stay alive
        self._servers = [tf.distribute.experimental.rpc.Server.create("grpc", address)]
        # Also at exit: an interpreter that ends while Python answers a call hangs for ever.
        self._stop = weakref.finalize(self, _closer(self._servers))
        self._expected = self._credentials.client_proof(self.advertised_address, self._identity)
        answer = in_python(self._answer, tf.string)
        self._offer(CHALLENGE, answer, [tf.TensorSpec([], tf.string, "nonce")])
        self.register(PING, lambda: tf.constant(self._identity), [])
        description = self._credentials.describe()
        self.register(DESCRIBE, lambda: tf.constant(description), [], any_run=True)

    def register(
        self,
        name: str,
        function: Callable[..., Nest],
        input_signature: Sequence[tf.TensorSpec | Count],
        any_run: bool = False,
    ) -> None:
        """Offers `function(*arguments) -> nest of tensors` under `name`.

        The function runs only if the credentials, the shapes of the arguments and the ranges of
        `Count` arguments are right. Otherwise the caller receives `WrongTokenError`,
        `OtherRunError` or `tf.errors.InvalidArgumentError`.

        Args:
          name: unique in this server.
          function: Python function to trace without AutoGraph, or a `tf.function`; returns at
            least one tensor.
          input_signature: a spec for each argument, without the credentials.
          any_run: whether callers of other runs may call it.

        Raises:
          tf.errors.OpError: the server has started, or the name is taken.
        """
        any_run |= self._credentials.run is None

        # The runtime does not enforce a signature's shapes, so the signature has none and the graph
        # checks them. Joining turns a missing string into an empty one.
        def guarded(credentials, *arguments):
            presented = tf.reshape(credentials, [-1])
            proof, run = (tf.strings.reduce_join(part) for part in (presented[:1], presented[1:]))
            admitted = tf.debugging.Assert(tf.equal(proof, self._expected), [WRONG_PROOF_TEXT])
            same_run = any_run | tf.equal(run, "") | tf.equal(run, self._credentials.fingerprint)
            with tf.control_dependencies([admitted]):
                admitted = tf.debugging.Assert(same_run, [OTHER_RUN_TEXT])
            with tf.control_dependencies([admitted]):
                checked = [
                    _checked(argument, spec)
                    for argument, spec in zip(arguments, input_signature, strict=True)
                ]
            with tf.control_dependencies([admitted, *checked]):
                return function(*checked)

        signature = [tf.TensorSpec(None, tf.string, "credentials")]
        signature += [
            tf.TensorSpec(None, spec.dtype, f"argument_{i}")
            for i, spec in enumerate(input_signature)
        ]
        self._offer(name, guarded, signature)

    def _offer(
        self, name: str, function: Callable[..., Nest], signature: Sequence[tf.TensorSpec]
    ) -> None:
        """Registers a TensorFlow function without checks of its callers; raises as `register`."""
        concrete = tf.function(
            function, input_signature=signature, autograph=False
        ).get_concrete_function()
        self._servers[0].register(name, concrete)
        self._functions.append(concrete)

    def _answer(self, nonce: bytes) -> np.ndarray:
        """Returns this start's identity, and the proof that this server knows the token."""
        text = nonce.decode("ascii")
        if len(text) != 2 * NONCE_BYTES:
            raise ValueError(f"a nonce must have {2 * NONCE_BYTES} characters, has {len(text)}")
        proof = self._credentials.server_proof(self.advertised_address, self._identity, text)
        return np.array([self._identity, proof], object)

    def start(self, timeout_seconds: float = 30.0) -> None:
        """Starts serving, and calls the advertised address to check that it leads to this server.

        Raises:
          AddressInUseError: another server answers there.
          ServiceUnavailableError: nothing answers there within the timeout.
        """
        self._servers[0].start()
        client = Client(self.advertised_address, self._credentials)
        try:
            client.wait_until_available(timeout_seconds)
            identity = client.call(PING).numpy().decode()
        except ClusterError as error:
            self.close()
            if isinstance(error, (WrongTokenError, OtherRunError, NoServiceError)):
                raise _address_in_use(self.advertised_address) from None
            raise ServiceUnavailableError(
                f"the server at {self.address} cannot reach itself as {self.advertised_address}: "
                "check the host name, the firewall and proxies, and REPLAY_RL_BIND_HOST "
                f"({error})"
            ) from None
        if identity != self._identity:
            self.close()
            raise _address_in_use(self.advertised_address)

    def close(self) -> None:
        """Stops serving and frees the port; waiting clients receive `ServiceUnavailableError`.

        TensorFlow waits for calls in progress, even those of a client that has vanished. This
        method nevertheless returns after a few seconds.
        """
        self._stop()


def _closer(servers: list[Any]) -> Callable[[], None]:
    """Returns a function that stops servers, but waits at most a few seconds for their end.

    A server stops when its object is deleted, in the thread that drops the last reference. That
    thread is started here, because Python 3.12 cannot start threads at exit.
    """
    is_due = threading.Event()

    def clear() -> None:
        is_due.wait()
        servers.clear()

    thread = threading.Thread(target=clear, name="close", daemon=True)
    thread.start()

    def close() -> None:
        is_due.set()
        thread.join(_CLOSE_SECONDS)

    return close


def _checked(argument: tf.Tensor, spec: tf.TensorSpec | Count) -> tf.Tensor:
    argument = tf.ensure_shape(argument, spec.shape)
    if not isinstance(spec, Count):
        return argument
    most = tf.constant(spec.most, spec.dtype)
    in_range = tf.reduce_all((argument >= 0) & (argument <= most))
    # With int64 data, Assert would build a conditional, which is slower than formatting a text.
    text = tf.strings.format(
        spec.name + " must be from 0 to {}, is {}", (most, argument), summarize=-1
    )
    with tf.control_dependencies([tf.debugging.Assert(in_range, [text])]):
        return tf.identity(argument)


def _address_in_use(address: str) -> AddressInUseError:
    return AddressInUseError(
        f"another process already listens at {address}: stop it, or give this role another port"
    )


def _check_can_bind(address: str) -> None:
    """Binds a plain socket for a moment, because TensorFlow's server only logs a failure to bind.

    Raises:
      AddressInUseError: the port is taken.
      ClusterError: the host does not resolve, or is not an address of this machine.
    """
    if unix_path(address) is not None:
        return  # gRPC replaces a socket without listener; `start` detects another server
    host, port = split_address(address)
    try:
        family, kind, _, _, name = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError:
        raise ClusterError(
            f"cannot resolve the host of {address} on this machine: correct the name, or set "
            "REPLAY_RL_BIND_HOST to the host to listen at, for example 0.0.0.0"
        ) from None
    with socket.socket(family, kind) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # ignores TIME_WAIT, like gRPC
        try:
            probe.bind(name)
            probe.listen()
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise _address_in_use(address) from None
            raise ClusterError(
                f"cannot listen at {address} ({error.strerror}): set REPLAY_RL_BIND_HOST to an "
                "address of this machine, for example 0.0.0.0, or choose another port"
            ) from None
