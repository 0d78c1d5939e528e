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
"""Maximum bytes of the rows in a single call; the rest of the message is for the call's numbers."""


_NOTHING = Counters()


class RemoteStore(Store):
    """A client of a `StoreService`.

    Puts and draws that exceed a message are split into several calls. Rows are put once all their
    parts have arrived. A retry never duplicates rows. Errors are those of `rpc.Client.call`.
    `tf.errors.InvalidArgumentError` is a mistake of the caller, after which the store is unchanged.

    Attributes:
      incarnation: identifies this start of the sender; 0 before `join`.
      num_accepted: actor steps that the store has accepted from this incarnation.
      last_counters: the store's counters after the last `put`.
      number: number of the last delivery that the store has taken.
    """

    def __init__(self, client: rpc.Client, wire: Wire):
        """Prepares calls.

        Args:
          client: calls the service.
          wire: the form in which rows of the service's store travel.
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
        """Delivers rows; the store takes the delivery once, however often the call is repeated.

        Args:
          rows: see the store's `put`.
          steps: number of actor steps that the rows complete.

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
        """Tells the service again how many steps were accepted from this incarnation.

        A service that has restarted since the last delivery does not know the number otherwise.

        Args:
          sender: index of this process among the senders.
          counters: counters of this process's own store.

        Returns:
          The numbers of this incarnation's newest received and newest processed delivery.
        """
        arguments = [*np.int64([sender, self.incarnation, self.num_accepted]), np.int64(counters)]
        received, done = self._client.call("store_report", arguments).numpy().tolist()
        return received, done

    def draw(self, num_items: int, seed: int | None = None) -> Any:
        """Draws rows with keys, which stay in the store; see `Store.draw`."""
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
        """Removes the items above a soft capacity; returns how many were removed (int64)."""
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
        """Tells the service that this learner disconnects, and whether the run is over."""
        self._client.call("store_disconnect", [tf.constant(finished)])

    def _put_in_parts(self, head: np.ndarray, packed: bytes) -> np.ndarray:
        """Sends all parts of a delivery in parallel; returns the answer to the completing part."""
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
    """Returns a column as a tensor, with a check of its dtype that names it in the error."""
    tensor = tf.convert_to_tensor(column)
    check_dtype(spec.name, tensor, spec.dtype)
    return tensor


_CLOSE_SECONDS = 5.0
"""Longest time that `close` takes to send the remaining deliveries."""
_DROP_SECONDS = 1.0
"""Time for the delivery under way to arrive when `close` drops the remaining ones."""
_REFUSED_SECONDS = 0.005, 0.05
"""Shortest and longest pause between calls to a full store. Each carries the whole delivery."""
_CREDIT_SECONDS = 0.01


class Outbox:
    """Sender of deliveries in order, which repeats each delivery until the store has it.

    A background thread sends while the actors continue (Ape-X algorithm 1). In lockstep, the actors
    continue only once the store has taken all deliveries, so that neither side runs ahead of the
    other (AQL algorithm 1).
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
          others: the store's other shards, if the limiter applies to the sums over all shards.
          in_lockstep: whether the actors wait until the store has taken all deliveries.
          job: name of the job that serves the store, for messages.
          most_waiting: deliveries that may wait before the actors wait; no limit in lockstep.
        """
        self._store = store
        self._limiter = limiter
        self._stop = stop
        self._total_counters = CountersOfAll(others)
        self._in_lockstep = in_lockstep
        # In lockstep, actors wait for credit instead, so that they notice the end of the run.
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
        """Waits for the store, requests an incarnation and starts the background thread."""
        self._patience.until_answered(self._store.join, lambda: self._stop.requested)
        self._thread.start()

    def add(self, deliveries: Iterable[Delivery | None]) -> None:
        """Queues deliveries to be sent; None ends the background thread.

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
        with contextlib.suppress(ServiceUnavailableError):  # the thread logs it
            self._counters = self._total_counters(self._store.counters())
        return self._limiter.may_insert(self._counters)

    def close(self, rest: Iterable[Delivery] = ()) -> None:
        """Sends the waiting deliveries and ends; gives up after a few seconds.

        In lockstep, waiting deliveries are dropped, because nobody will learn from them.

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
        """Queues a delivery if there is room; returns whether there was."""
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
