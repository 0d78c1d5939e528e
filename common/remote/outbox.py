"""The client of a store in another process, and the outbox that sends deliveries to it."""

from collections.abc import Iterable, Sequence
import contextlib
import math
import queue
import time
from typing import Any

import numpy as np
import tensorflow as tf
import tree

from common.cluster import rpc
from common.cluster.errors import ServiceUnavailableError
from common.cluster.processes import Background, Patience, StopRequest
from common.data.data import Delivery
from common.remote import inbox
from common.remote.shards import CountersOfAll
from common.replay import store
from common.replay.library import check_dtype
from common.replay.store import Counters, RateLimiter, Store, Wire
from common.types import Nest

_MOST_BYTES = rpc.MAX_ARGUMENT_BYTES - 64
"""Bytes of a put in a single call; the rest is for its numbers."""


_NOTHING = Counters()


class RemoteStore(Store):
    """A client of a `StoreService`.

    What exceeds a message travels in several calls; rows are put once all of them have arrived. A
    retry never duplicates. Errors are those of `rpc.Client.call`.
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
        accepted = self.num_accepted + steps
        head = np.int64([self.incarnation, self.number + 1, accepted])
        tensors = [_checked(*pair) for pair in zip(columns, self.wire.put_specs, strict=True)]
        if rpc.most_bytes(tensors) <= _MOST_BYTES:
            answer = self._client.call("store_put", [*head, *tensors])
        else:
            answer = self._put_in_parts(head, inbox.pack(tensors))
        if not answer[0]:
            return False
        self.number += 1
        self.num_accepted = accepted
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
        arguments = [*np.int64([sender, self.incarnation, self.num_accepted]), np.int64(counters)]
        received, done = self._client.call("store_report", arguments).numpy().tolist()
        return received, done

    def draw(self, num_items: int, seed: int | None = None) -> Any:
        """Draws rows with keys, which stay in the store; see its `draw`."""
        most_drawn = max(1, rpc.MAX_ARGUMENT_BYTES // self.wire.draw_bytes)
        calls = max(1, math.ceil(num_items / most_drawn))
        sizes = [num_items // calls + (i < num_items % calls) for i in range(calls)]
        split = seed and calls > 1  # with one seed all parts would draw the same items
        part_seeds = [store.derive_seed(seed, i) if split else seed or 0 for i in range(calls)]
        futures = [
            self._client.call_async("store_draw", [np.int32(size), np.int64(part_seed)])
            for size, part_seed in zip(sizes, part_seeds)
        ]
        return self.wire.drawn([tf.nest.flatten(future.result()) for future in futures])

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

    def _put_in_parts(self, head: np.ndarray, packed: bytes) -> np.ndarray:
        """Sends the parts of a delivery at once; returns the answer to the last one that came."""
        futures = [
            self._client.call_async(
                "store_put_part",
                [
                    *head,
                    *np.int64([len(packed), offset]),
                    packed[offset : offset + inbox.PART_BYTES],
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


_CLOSE_SECONDS = 5.0
"""Time that `close` has for sending the remaining deliveries."""
_DROP_SECONDS = 1.0
"""Time that `close` has where the remaining deliveries are dropped, for the one under way."""
_REFUSED_SECONDS = 0.005, 0.05
"""Shortest and longest time between calls to a full store, which carry the whole delivery each."""
_CREDIT_SECONDS = 0.01


class Outbox:
    """Sender of deliveries in order, each of which is repeated until the store has it.

    A background thread sends, while the actors go on (Ape-X algorithm 1). In lockstep the actors go
    on only once the store has taken all, so that neither side runs ahead of the other (AQL
    algorithm 1).
    """

    def __init__(
        self,
        store: RemoteStore,
        limiter: RateLimiter,
        stop: StopRequest,
        others: Sequence[RemoteStore] = (),
        in_lockstep: bool = False,
        job: str = "replay",
        most_waiting: int = 4,
    ):
        """Prepares to send.

        Args:
          store: the store, or the shard of it, to which these actors add.
          limiter: limits how far the actors may run ahead of the learner.
          stop: ends the waits.
          others: the store's other shards, if the limit is over all.
          in_lockstep: whether the actors wait until all is sent.
          job: that keeps the store, for messages.
          most_waiting: deliveries that may wait; beyond them the actors wait. All may in lockstep.
        """
        self._store = store
        self._limiter = limiter
        self._stop = stop
        self._total_counters = CountersOfAll(others)
        self._in_lockstep = in_lockstep
        # In lockstep actors wait for credit, where they learn of the end of the run.
        size = 0 if in_lockstep else most_waiting
        self._queue: queue.Queue[Delivery | None] = queue.Queue(size)
        self._thread = Background(self._send_all, "send")
        self._counters: Counters | None = None
        self._deadline = math.inf
        self._patience = Patience(f"no answer from the {job}")

    @property
    def incarnation(self) -> int:
        """The incarnation of this start of the actors."""
        return self._store.incarnation

    @property
    def num_accepted(self) -> int:
        """Actor steps that the store has accepted since this start of the actors."""
        return self._store.num_accepted

    def start(self) -> None:
        """Waits for the store, gets an incarnation and starts the background thread."""
        self._patience.until_answered(self._store.join, lambda: self._stop.requested)
        self._thread.start()

    def add(self, deliveries: Iterable[Delivery | None]) -> None:
        """Takes deliveries to be sent; None is the last one.

        Raises:
          Exception: the error that ended the background thread, such as a refused token.
        """
        for delivery in deliveries:
            while not self._is_queued(delivery) and not self._is_late():
                if self._stop.requested:
                    self._begin_to_close()

    def has_credit(self) -> bool:
        """Returns whether the actors may continue; if not, waits for a moment and asks again.

        Raises:
          Exception: the error that ended the background thread.
        """
        self._thread.check()
        if self._in_lockstep:
            all_done = self._queue.all_tasks_done
            with all_done:
                return all_done.wait_for(lambda: not self._queue.unfinished_tasks, _CREDIT_SECONDS)
        if self._counters is None or self._limiter.may_insert(self._counters):
            return True
        self._stop.wait(_CREDIT_SECONDS)
        with contextlib.suppress(ServiceUnavailableError):  # the thread says so
            self._counters = self._total_counters(self._store.counters())
        return self._limiter.may_insert(self._counters)

    def close(self, rest: Iterable[Delivery] = ()) -> None:
        """Sends what waits and ends; gives up after a few seconds without success.

        In lockstep, what waits is dropped: nobody will learn from it.

        Args:
          rest: the last deliveries.

        Raises:
          Exception: the error that ended the background thread.
        """
        if self._in_lockstep:
            self._deadline = time.monotonic()
        self._begin_to_close()
        self.add([*rest, None])
        self._thread.join(max(_DROP_SECONDS, self._deadline - time.monotonic()))

    def _is_queued(self, delivery: Delivery | None) -> bool:
        """Returns whether a delivery has found room in the queue."""
        self._thread.check()
        try:
            self._queue.put(delivery, timeout=0.2)
        except queue.Full:
            return False
        return True

    def _begin_to_close(self) -> None:
        self._deadline = min(self._deadline, time.monotonic() + _CLOSE_SECONDS)

    def _is_late(self) -> bool:
        return time.monotonic() > self._deadline

    def _send_all(self) -> None:
        while (delivery := self._queue.get()) is not None:
            self._patience.until_answered(lambda each=delivery: self._send(each), self._is_late)
            self._queue.task_done()
        self._patience.until_answered(self._store.report, self._is_late)

    def _send(self, delivery: Delivery) -> None:
        pause, longest = _REFUSED_SECONDS
        while not self._store.put(*delivery) and not self._is_late():
            self._patience.renew()
            time.sleep(pause)
            pause = min(2 * pause, longest)
        self._counters = self._total_counters(self._store.last_counters)
