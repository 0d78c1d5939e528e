"""A queue of unrolls that other processes use through RPC: the service and its client."""

import numpy as np
import tensorflow as tf

from common.cluster import rpc
from common.replay import service
from common.replay.accounts import Accounts
from common.replay.memory import Signature
from common.replay.unroll_queue import UnrollQueue
from common.types import Nest


class UnrollService:
    """An RPC service for offers to an `UnrollQueue`, whose errors reach the caller.

    It counts the actor steps accepted from each incarnation.
    """

    def __init__(self, server: rpc.Server, queue: UnrollQueue):
        """Registers the methods on a server that has not started yet.

        Args:
          server: serves the methods.
          queue: the queue.
        """
        self._queue = queue
        self._accounts = Accounts()
        server.register(
            "unrolls_offer",
            self._serve_offer,
            [
                rpc.Count("incarnation", tf.int64.max),
                rpc.Count("number"),
                tf.TensorSpec([], tf.int64),
                *[tf.TensorSpec(None, dtype) for dtype in queue.signature.dtypes],
            ],
        )

    def accepted(self) -> dict[int, int]:
        """Returns the number of actor steps accepted from each incarnation."""
        return self._accounts.as_dict()

    def _serve_offer(self, incarnation, number, accepted, *columns):
        accepted = self._accounts.checked(incarnation, accepted)
        with tf.control_dependencies([accepted]):
            arguments = [incarnation, number, *columns]
            is_taken = tf.numpy_function(self._offer, arguments, tf.bool, stateful=True)
        is_taken = tf.ensure_shape(is_taken, [])
        tf.cond(is_taken, lambda: self._accounts.raise_to(incarnation, accepted), lambda: accepted)
        return is_taken

    def _offer(self, incarnation, number, *columns) -> np.bool_:
        unrolls = self._queue.signature.unflatten(columns)
        return np.bool_(self._queue.offer(int(incarnation), int(number), unrolls))


class RemoteUnrollQueue:
    """A client of an `UnrollService`. Errors are those of `rpc.Client.call`.

    Attributes:
      max_rows: unrolls that always fit a message.
    """

    def __init__(self, client: rpc.Client, specs: Nest):
        """Prepares calls.

        Args:
          client: calls the service.
          specs: those of the service's queue.

        Raises:
          ValueError: an unroll exceeds a message.
        """
        self._client = client
        self._signature = Signature(specs)
        self.max_rows = service.rows_per_message(self._signature)
        if not self.max_rows:
            raise ValueError(
                f"an unroll of {self._signature.bytes_per_step} bytes exceeds a message: make the "
                "unrolls shorter or the observations smaller"
            )

    def offer(self, incarnation: int, number: int, accepted: int, unrolls: Nest) -> bool:
        """Offers at most `max_rows` unrolls; see `UnrollQueue.offer`.

        Args:
          incarnation: a number that this start of the actors has alone.
          number: of the offer.
          accepted: actor steps accepted from the incarnation if this offer is.
          unrolls: nest of [M, T, ...].

        Raises:
          tf.errors.InvalidArgumentError: a ValueError of `UnrollQueue.offer`, or a number that
            cannot be right.
        """
        numbers = [tf.constant(one, tf.int64) for one in (incarnation, number, accepted)]
        columns = self._signature.flatten(unrolls)
        return bool(self._client.call("unrolls_offer", [*numbers, *columns]))
