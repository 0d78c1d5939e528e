"""A store in another process, as a store."""

import math
from typing import Any

import numpy as np
import tensorflow as tf
import tree

from common.cluster import message_size, rpc
from common.remote import inbox
from common.replay import seeds
from common.replay.signature import check_dtype
from common.replay.store import Counters, Store, Wire
from common.types import Nest

_MOST_BYTES = message_size.MAX_ARGUMENT_BYTES - 64
"""Bytes of a put in a single call; the rest is for its numbers."""


_NOTHING = Counters()


class RemoteStore(Store):
    """A client of a `StoreService`.

    What exceeds a message travels in several calls. If one of the calls for rows with keys fails,
    the others are not undone; a retry never duplicates. Errors are those of `rpc.Client.call`.
    After `tf.errors.InvalidArgumentError`, a caller's mistake, the call has left the store
    unchanged.

    Attributes:
      incarnation: of this start of the sender; 0 before `join`.
      num_accepted: actor steps that the store has accepted from this incarnation.
      last_counters: the store's counters after the last `put`.
      number: of the last delivery taken.
    """

    def __init__(self, client: rpc.Client, wire: Wire):
        """Prepares calls.

        Args:
          client: calls the service.
          wire: of the service's store.
        """
        self.wire = wire
        self._client = client
        self._most_put = max(1, message_size.MAX_ARGUMENT_BYTES // wire.row_bytes)
        self._most_drawn = max(1, message_size.MAX_ARGUMENT_BYTES // wire.draw_bytes)
        self.incarnation = self.num_accepted = self.number = 0
        self.last_counters = Counters()

    def join(self) -> int:
        """Requests an incarnation for this sender's deliveries and returns it.

        The incarnation stays valid when the service restarts.
        """
        self.incarnation = int(self._client.call("store_join"))
        self.num_accepted = self.number = 0
        return self.incarnation

    def put(self, rows: Any, steps: int = 0) -> bool:
        """Delivers rows, each delivery once, however often it is repeated until it is taken.

        Args:
          rows: see the store's `put`.
          steps: actor steps that are accepted with them.

        Returns:
          False if the store has no room for them now.
        """
        columns = self.wire.columns(rows)
        parts = self.wire.cut(columns, self._most_put)
        num_rows, num_done = max(1, np.size(columns[0])), 0
        for part in parts:
            # In sequence, since each call says how many steps are accepted after it.
            num_done += np.size(part[0]) if len(parts) > 1 else num_rows
            accepted = self.num_accepted + steps * num_done // num_rows
            head = [tf.constant(n, tf.int64) for n in (self.incarnation, self.number + 1, accepted)]
            tensors = [_checked(*pair) for pair in zip(part, self.wire.put_specs, strict=True)]
            if message_size.size_of(tensors) <= _MOST_BYTES:
                answer = self._client.call("store_put", [*head, *tensors])
            else:
                answer = self._put_in_parts(head, inbox.pack(tensors))
            if not answer[0]:
                return False
            self.number += 1
        self.num_accepted += steps
        self.last_counters = Counters.of(answer[1:])
        return True

    def report(self, sender: int = 0, counters: Counters = _NOTHING) -> tuple[int, int]:
        """Repeats to the service how many steps were accepted from this incarnation.

        A service that has restarted since the last delivery does not know the number otherwise.

        Args:
          sender: index of this process among the senders.
          counters: of this process's own store.

        Returns:
          The numbers of the newest delivery received, and of the newest that is done with.
        """
        numbers = (sender, self.incarnation, self.num_accepted, counters)
        arguments = [tf.constant(number, tf.int64) for number in numbers]
        received, done = self._client.call("store_report", arguments).numpy().tolist()
        return received, done

    def draw(self, num_items: int, seed: int | None = None) -> Any:
        """Draws items; see the store's `draw`."""
        if self.wire.consumes and self.counters().items < num_items:
            return None
        # In units, since each call draws as many batches as the whole has.
        unit = self.wire.num_batches
        num_units = num_items // unit
        calls = max(1, math.ceil(num_units / max(1, self._most_drawn // unit)))
        sizes = [unit * (num_units // calls + (i < num_units % calls)) for i in range(calls)]
        split = seed and calls > 1  # with one seed all parts would draw the same items
        part_seeds = [seeds.derive(seed, i) if split else seed or 0 for i in range(calls)]
        # What is drawn once is drawn in order, and not by calls that may fail beside each other.
        call = self._client.call if self.wire.consumes else self._client.call_async
        answers = [
            call("store_draw", [tf.constant(size, tf.int32), tf.constant(part_seed, tf.int64)])
            for size, part_seed in zip(sizes, part_seeds)
        ]
        if not self.wire.consumes:
            answers = [future.result() for future in answers]
        parts = [tf.nest.flatten(answer) for answer in answers]
        if self.wire.consumes and not all(len(part[0]) for part in parts):
            return None
        return self.wire.drawn(parts)

    def write_back(self, token: Any, outputs: Nest) -> tf.Tensor:
        """Sends the outputs of updates; returns how many of the items are gone (int64)."""
        return self._client.call("store_write_back", [token, *tree.flatten(outputs)])

    def counters(self) -> Counters:
        """Returns the store's counters."""
        return Counters.of(self._client.call("store_counters"))

    def trim(self) -> tf.Tensor:
        """Removes what exceeds a soft capacity; returns how many items (int64)."""
        return self._client.call("store_trim")

    def mass(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the sum of all items' masses (float64) and their number (int64)."""
        return self._client.call("store_mass")

    def accepted(self) -> dict[int, int]:
        """Returns the number of actor steps accepted from each incarnation.

        After a restart of the service, an incarnation is missing until its next delivery.
        """
        return inbox.as_dict(self._client.call("store_accepted", timeout_seconds=1.0))

    def disconnect(self, finished: bool) -> None:
        """Tells the service that this learner ends, and whether the run is over."""
        self._client.call("store_disconnect", [tf.constant(finished)])

    def _put_in_parts(self, head: list, packed: bytes) -> np.ndarray:
        """Sends the parts of a delivery at once; returns the answer to the last one that came."""
        size = tf.constant(len(packed), tf.int64)
        futures = [
            self._client.call_async(
                "store_put_part",
                [
                    *head,
                    size,
                    tf.constant(offset, tf.int64),
                    tf.constant(packed[offset : offset + inbox.PART_BYTES]),
                ],
            )
            for offset in range(0, len(packed), inbox.PART_BYTES)
        ]
        return max((future.result().numpy() for future in futures), key=lambda answer: answer[0])


def _checked(column: Any, spec: tf.TensorSpec) -> tf.Tensor:
    """Returns a column as a tensor; the service would name one of another dtype by number only."""
    tensor = tf.convert_to_tensor(column)
    check_dtype(spec.name, tensor, spec.dtype)
    return tensor
