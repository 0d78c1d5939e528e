"""Clients over `tf.distribute.experimental.rpc`, whose gaps they close together with `rpc_server`.

The runtime checks dtypes but not shapes, "starts" on a port that it could not bind, waits for ever
for a server that is not there, and admits every caller. Its `StatusOrResult` adds an op to whatever
graph is being traced when the garbage collector deletes it.

The cluster's token is never sent. A server first proves to each client that it knows the token, by
an HMAC of the client's nonce. The client then presents a proof of its own with each call, which
only this start of this server accepts.

A message holds at most 4 MiB. float32 and strings are sent as they are in memory, integers as
varints: a uint8 of 128 or more takes two bytes, a negative int32 ten. Bulk uint8 is twelve times
slower than the same bytes as a string or bitcast to float32.
"""

from collections.abc import Callable, Iterator, Sequence
import contextlib
import hmac
import secrets
import threading
import time
from typing import Any
import uuid

import numpy as np
import tensorflow as tf
from tensorflow.distribute.experimental.rpc.kernels import gen_rpc_ops

from common.cluster.credentials import Credentials
from common.cluster.errors import (
    ClusterError,
    MessageTooLargeError,
    NoServiceError,
    ServiceUnavailableError,
    WrongTokenError,
)
from common.cluster.topology import check_address, probe
from common.types import Nest

# TensorFlow keeps gRPC's default limit of 4 MiB a message; 64 KiB are for headers and credentials.
MAX_ARGUMENT_BYTES = 4 * 2**20 - 2**16
_VARINT_BYTES = 10


def most_bytes(tensors: Sequence[tf.Tensor]) -> int:
    """Returns an upper bound on the bytes that eager arguments take in a message."""
    size = 0
    for tensor in tensors:
        if tensor.dtype == tf.string:
            size += sum(len(value) + 6 for value in np.ravel(tensor.numpy()))  # 6: tag and length
        else:
            is_float = tensor.dtype in (tf.float32, tf.float64)
            each = tensor.dtype.size if is_float else _VARINT_BYTES
            size += each * tensor.shape.num_elements()
    return size


DEFAULT_TIMEOUT_SECONDS = 30.0
_PROBE_SECONDS = 2.0
_POLL_SECONDS = 0.2
PING = "ping"
DESCRIBE = "describe"
CHALLENGE = "challenge"
NONCE_BYTES = 16
WRONG_PROOF_TEXT = "replay_rl: no proof of the cluster token"
OTHER_RUN_TEXT = "replay_rl: other run"


class _RestartedError(ServiceUnavailableError):
    """Error of a call that did nothing, as its proof was for an earlier start of the server."""


class Future:
    """A pending call. Dropping the future does not cancel the call."""

    def __init__(
        self,
        client: "Client",
        handle: tf.Tensor,
        deleter: tf.Tensor,
        output_specs: Nest,
        repeat: Callable[[], "Future"] | None,
    ):
        self._client = client
        self._handle = handle
        self._deleter = deleter  # the reply is deleted with this tensor
        self._output_specs = output_specs
        self._repeat = repeat

    def result(self) -> Nest:
        """Waits for the reply, a nest of tensors; raises the errors of `Client.call`.

        In a graph, call it once. Errors then occur when the graph runs, as TensorFlow errors that
        `Client.readable_errors` converts.
        """
        specs = tf.nest.flatten(self._output_specs)
        dtypes = [spec.dtype for spec in specs]
        if tf.executing_eagerly():
            try:
                with self._client.readable_errors():
                    values = gen_rpc_ops.rpc_get_value(self._handle, Tout=dtypes)
            except _RestartedError:
                if self._repeat is None:
                    raise
                return self._repeat().result()
        else:
            values = gen_rpc_ops.rpc_get_value(self._handle, Tout=dtypes)
            with tf.control_dependencies(values):
                # Graph executors free a tensor after its last use, so the deleter needs a use here.
                gen_rpc_ops.delete_rpc_future_resource(self._handle, self._deleter)
            values = [
                tf.ensure_shape(value, spec.shape)
                for value, spec in zip(values, specs, strict=True)
            ]
        return tf.nest.pack_sequence_as(self._output_specs, values)


class Client:
    """Caller of the methods of a `Server`, from eager code, graphs and `tf.data` functions.

    It connects at the first call, so that roles may start in any order, and recovers within seconds
    when a lost server is back. The server has to prove that it knows the token, and to prove it
    again after each of its restarts. Thread-safe.
    """

    def __init__(
        self,
        address: str,
        credentials: str | Credentials,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    ):
        """Creates a client that is not connected yet.

        Args:
          address: the advertised `host:port` or `unix:/path` of the server.
          credentials: this process's credentials. A token alone matches servers of every run.
          timeout_seconds: default timeout of calls.

        Raises:
          ClusterError: the address is malformed.
        """
        check_address(address)
        self.address = address
        self.timeout_seconds = timeout_seconds
        self._credentials = Credentials.of(credentials)
        self._lock = threading.Lock()
        with tf.init_scope():
            self._presented = tf.constant(["", self._credentials.fingerprint])
            # Graphs outlive a server's start, so they read a variable; eager calls save this time.
            self._presented_by_graphs = tf.Variable(self._presented, trainable=False)
        self._connection: Any = None
        self._output_specs: dict[str, Nest] = {}

    def call(
        self, method: str, arguments: Sequence[Any] = (), timeout_seconds: float | None = None
    ) -> Nest:
        """Calls a method and waits for its reply.

        Args:
          method: name of a registered method.
          arguments: tensors, or values that convert to tensors of the registered dtypes.
          timeout_seconds: how long the reply may take. The server may still execute a call that
            timed out.

        Returns:
          The nest of tensors that the method returned.

        Raises:
          ServiceUnavailableError: no reply in time.
          WrongTokenError: the server does not know the token.
          OtherRunError: the server belongs to another run.
          NoServiceError: something other than a server of this kind answers.
          MessageTooLargeError: arguments or reply exceed 4 MiB.
          ClusterError: the server has no such method.
          tf.errors.OpError: the method itself failed; the error has the type of the method's error.
        """
        return self.call_async(method, arguments, timeout_seconds).result()

    def call_async(
        self, method: str, arguments: Sequence[Any] = (), timeout_seconds: float | None = None
    ) -> Future:
        """Starts a call and returns its future at once; arguments and errors as for `call`."""
        timeout = self.timeout_seconds if timeout_seconds is None else timeout_seconds
        self._connect(timeout)
        if method not in self._output_specs:
            self._connection = None  # the next call reconnects: the server may have changed
            if method not in (PING, DESCRIBE):
                self.call(PING)  # raises OtherRunError if that is the reason
            raise ClusterError(
                f"the service at {self.address} has no method {method!r}, only "
                f"{', '.join(sorted(self._output_specs))}: check that TF_CONFIG has the address of "
                "the right job and that all roles run the same version"
            )
        tensors = [tf.convert_to_tensor(argument) for argument in arguments]
        return self._send(method, tensors, timeout, lambda: self._send(method, tensors, timeout))

    def _send(
        self,
        method: str,
        tensors: Sequence[tf.Tensor],
        timeout_seconds: float,
        repeat: Callable[[], Future] | None = None,
    ) -> Future:
        """Starts a call; `repeat` starts it again if the server has restarted and refused it."""
        connection, output_specs = self._connect(timeout_seconds), self._output_specs[method]
        is_eager = tf.executing_eagerly()
        presented = self._presented if is_eager else self._presented_by_graphs.read_value()
        with self.readable_errors():
            handle, deleter = gen_rpc_ops.rpc_call(
                connection._client_handle,
                method_name=method,
                args=[presented, *tensors],
                timeout_in_ms=_milliseconds(timeout_seconds),
            )
        return Future(self, handle, deleter, output_specs, repeat)

    def wait_until_available(self, timeout_seconds: float) -> None:
        """Polls the service with short calls and returns when it answers.

        Args:
          timeout_seconds: how long to poll.

        Raises:
          ServiceUnavailableError: the service did not answer within the timeout.
          WrongTokenError: the service does not know the token.
          OtherRunError: the service belongs to another run.
          NoServiceError: something other than a server of this kind answers.
        """
        deadline = time.monotonic() + timeout_seconds
        while True:
            remaining = deadline - time.monotonic()
            try:
                self.call(PING, timeout_seconds=min(1.0, max(0.05, remaining)))
                return
            except ServiceUnavailableError:
                if time.monotonic() + _POLL_SECONDS >= deadline:
                    raise ServiceUnavailableError(
                        f"the service at {self.address} did not answer for {timeout_seconds:g} s: "
                        "check that its role runs and that this is its address"
                    ) from None
            time.sleep(_POLL_SECONDS)

    @contextlib.contextmanager
    def readable_errors(self) -> Iterator[None]:
        """Converts TensorFlow errors of calls inside a graph to the errors of `call`.

        A graph's first call after a restart of the server raises `ServiceUnavailableError`.
        """
        try:
            yield
        except tf.errors.OpError as error:
            if OTHER_RUN_TEXT in error.message:
                raise self._other_run() from None
            if WRONG_PROOF_TEXT in error.message and self._connection is not None:
                with self._lock:
                    self._greet(self._connection, self.timeout_seconds)
                raise _RestartedError(
                    f"the service at {self.address} has restarted: call it again"
                ) from None
            readable = _readable(error, self.address)
            if readable is None:
                raise
            raise readable from None

    def _connect(self, timeout_seconds: float) -> Any:
        if self._connection is not None:
            return self._connection
        with self._lock:
            if self._connection is None:
                # TensorFlow's client leaks six threads if nothing answers.
                probe(self.address, min(timeout_seconds, _PROBE_SECONDS))
                # Without a unique name a client may share the handle of another client.
                name = f"client_{uuid.uuid4().hex}"
                with tf.init_scope(), self.readable_errors():
                    connection = tf.distribute.experimental.rpc.Client.create(
                        "grpc",
                        self.address,
                        name=name,
                        timeout_in_ms=_milliseconds(timeout_seconds),
                    )
                # Only this private attribute has the output specs of the methods.
                self._output_specs = connection._method_registry
                self._greet(connection, timeout_seconds)
                self._connection = connection
            return self._connection

    def _greet(self, connection: Any, timeout_seconds: float) -> None:
        """Makes the service prove that it knows the token, then sets the proof that calls present.

        Raises:
          WrongTokenError: the service does not know the token, or has another address.
          NoServiceError: the service gives no proof.
          ServiceUnavailableError: no reply in time.
        """
        nonce = secrets.token_hex(NONCE_BYTES)
        try:
            with tf.init_scope():
                handle, _deleter = gen_rpc_ops.rpc_call(
                    connection._client_handle,
                    method_name=CHALLENGE,
                    args=[tf.constant(nonce)],
                    timeout_in_ms=_milliseconds(timeout_seconds),
                )
                (answer,) = gen_rpc_ops.rpc_get_value(handle, Tout=[tf.string])
                identity, proof = [*np.ravel(answer.numpy()), b"", b""][:2]
        except tf.errors.OpError as error:
            raise _readable(error, self.address) or NoServiceError(
                f"the process at {self.address} does not prove that it knows the cluster's token: "
                "check that all roles run the same version, and which program listens there"
            ) from None
        facts = self.address, identity.decode("ascii", "replace")
        expected = self._credentials.server_proof(*facts, nonce)
        if not hmac.compare_digest(proof, expected.encode()):
            raise WrongTokenError(
                f"the service at {self.address} does not know this role's token, or has another "
                "address in its TF_CONFIG: start every role with the same REPLAY_RL_TOKEN or "
                "REPLAY_RL_TOKEN_FILE and the same addresses in TF_CONFIG, and check which program "
                "listens there"
            )
        with tf.init_scope():
            self._presented = tf.constant(
                [self._credentials.client_proof(*facts), self._credentials.fingerprint]
            )
            self._presented_by_graphs.assign(self._presented)

    def _other_run(self) -> ClusterError:
        """Asks the service for its run and returns the error that lists the differences."""
        with tf.init_scope():
            description = self.call(DESCRIBE).numpy().decode()
        return self._credentials.other_run(self.address, description)


def _milliseconds(seconds: float) -> int:
    return max(1, int(seconds * 1000))  # 0 would mean to wait for ever


_UNAVAILABLE = (
    *(tf.errors.InternalError, tf.errors.UnavailableError),
    *(tf.errors.DeadlineExceededError, tf.errors.CancelledError),
)


def _readable(error: tf.errors.OpError, address: str) -> ClusterError | None:
    """Returns the cluster error that replaces a TensorFlow error, None if it is to stay."""
    text = error.message
    if isinstance(error, tf.errors.ResourceExhaustedError) and "larger than max" in text:
        return MessageTooLargeError(
            f"a message to or from {address} exceeds 4 MiB: split it into several calls "
            f"({first_line(text)})"
        )
    if isinstance(error, _UNAVAILABLE):
        return ServiceUnavailableError(
            f"the service at {address} did not answer in time or is gone "
            f"({type(error).__name__}: {first_line(text)})"
        )
    if isinstance(error, tf.errors.UnimplementedError):
        return NoServiceError(
            f"the process at {address} is not a service of a cluster: correct the address in "
            f"TF_CONFIG, and check http_proxy and no_proxy ({first_line(text)})"
        )
    return None


def first_line(text: str) -> str:
    """Returns the first line of a TensorFlow error's message, without the names of graph nodes."""
    return text.split("\n", 1)[0].rsplit("}} ", 1)[-1]
