"""The service of a store that other processes use through RPC."""

from collections.abc import Iterator
import contextlib

import numpy as np
import tensorflow as tf

from common.cluster import message_size, rpc
from common.remote.inbox import Inbox
from common.replay.store import MOST_STEPS, Counters, Store

_MOST_BYTES = 1 << 30
"""Upper bound of a delivery that arrives in parts."""


class StoreService:
    """A store of any kind, for the clients `RemoteStore`.

    The store checks what it gets; its errors name the argument and reach the caller with their
    type. A call for more items than a message can hold is refused before any is drawn. No method
    blocks.

    Attributes:
      store: the store.
      inbox: of the deliveries to it.
    """

    def __init__(self, server: rpc.Server, store: Store, former_steps: int = 0):
        """Registers the methods on a server that has not started yet.

        Args:
          server: offers the methods.
          store: the store.
          former_steps: see `Inbox`.
        """
        self.store, self.inbox = store, Inbox(store, former_steps)
        self._most_drawn = max(1, message_size.MAX_ARGUMENT_BYTES // store.wire.draw_bytes)
        self._finished = tf.Variable(False, trainable=False)
        self._learner_present = tf.Variable(False, trainable=False)
        int64, flag = tf.TensorSpec([], tf.int64), tf.TensorSpec([], tf.bool)
        counters = rpc.Count("counters", shape=[len(Counters._fields)])
        incarnation = rpc.Count("incarnation", tf.int64.max)
        head = [incarnation, rpc.Count("number"), int64]
        part = [
            rpc.Count("size", _MOST_BYTES),
            rpc.Count("offset", _MOST_BYTES),
            tf.TensorSpec([], tf.string),
        ]
        keys = tf.TensorSpec([None], tf.int64)
        for name, function, signature in (
            ("join", self.inbox.next_incarnation, []),
            ("put", self._put, [*head, *store.wire.put_specs]),
            ("put_part", self._put_part, [*head, *part]),
            ("report", self._report, [rpc.Count("sender"), incarnation, int64, counters]),
            ("draw", self._draw, [tf.TensorSpec([], tf.int32), int64]),
            ("write_back", self._write_back, [keys, *store.wire.output_specs]),
            ("counters", store.counters_tensor, []),
            ("trim", store.trim, []),
            ("mass", store.mass, []),
            ("accepted", self._serve_accepted, []),
            ("disconnect", self._disconnect, [flag]),
        ):
            server.register(f"store_{name}", function, signature)

    @property
    def finished(self) -> bool:
        """True if the learner has said that the run is over."""
        return bool(self._finished)

    @property
    def learner_present(self) -> bool:
        """True if a learner has called `accepted` and has not disconnected since."""
        return bool(self._learner_present)

    def accepted(self) -> dict[int, int]:
        """Returns the number of actor steps accepted from each incarnation."""
        return self.inbox.accepted()

    def _put(self, incarnation, number, accepted, *columns):
        wire = self.store.wire
        accepted = self.inbox.checked(incarnation, accepted, wire.most_steps(columns))
        with tf.control_dependencies([accepted]):
            if self.store.keyed:
                is_taken = tf.constant(True)
                self.store.put(wire.rows(columns))
            else:
                is_taken = tf.numpy_function(
                    self._put_now, [incarnation, number, *columns], tf.bool
                )
        return self._answer(is_taken, incarnation, accepted)

    def _put_part(self, incarnation, number, accepted, *part):
        accepted = self.inbox.checked(incarnation, accepted, MOST_STEPS)
        with tf.control_dependencies([accepted]):
            is_taken = tf.numpy_function(self._put_part_now, [incarnation, number, *part], tf.bool)
        return self._answer(is_taken, incarnation, accepted)

    def _answer(self, is_taken, incarnation, accepted):
        """Returns whether a delivery was taken, and the counters after it, int64 [1 + 6]."""
        is_taken.set_shape([])
        with tf.control_dependencies([is_taken]):  # functions of Python are in no order otherwise
            counters = self.store.counters_tensor()
        counters.set_shape([len(Counters._fields)])
        with tf.control_dependencies([counters]):  # a failed put must not be counted
            if tf.get_static_value(is_taken):
                noted = self.inbox.raise_to(incarnation, accepted)
            else:  # there is no room, or parts of the delivery are missing
                noted = tf.cond(
                    is_taken, lambda: self.inbox.raise_to(incarnation, accepted), lambda: accepted
                )
        with tf.control_dependencies([noted]):
            return tf.concat([[tf.cast(is_taken, tf.int64)], counters], 0)

    def _put_now(self, incarnation, number, *columns) -> np.bool_:
        with _mistakes_as_value_errors():
            return np.bool_(self.inbox.put(int(incarnation), int(number), columns))

    def _put_part_now(self, incarnation, number, size, offset, part) -> np.bool_:
        numbers = map(int, (incarnation, number, size, offset))
        with _mistakes_as_value_errors():
            return np.bool_(self.inbox.put_part(*numbers, part))

    def _report(self, sender, incarnation, accepted, counters):
        accepted = self.inbox.checked(incarnation, accepted, self.store.wire.reported_steps)
        with tf.control_dependencies([self.inbox.raise_to(incarnation, accepted)]):
            return tf.numpy_function(self._report_now, [sender, incarnation, counters], tf.int64)

    def _report_now(self, sender, incarnation, counters) -> np.ndarray:
        return np.array(self.inbox.report(int(sender), int(incarnation), counters), np.int64)

    def _draw(self, num_items, seed):
        text = f"num_items must be from 1 to {self._most_drawn} to fit a message, is"
        in_range = (num_items >= 1) & (num_items <= self._most_drawn)
        fits = tf.debugging.Assert(in_range, [text, num_items])
        wire = self.store.wire
        with tf.control_dependencies([fits]):
            if self.store.in_graph:
                return wire.drawn_columns(self.store.draw(num_items, seed))
            dtypes = [spec.dtype for spec in wire.put_specs]
            return tf.numpy_function(self._draw_now, [num_items, seed], dtypes)

    def _draw_now(self, num_items, seed) -> list:
        """Draws from a store whose draws have the columns of its puts; no rows if it cannot."""
        drawn = self.store.draw(int(num_items), int(seed))
        if drawn is not None:
            return self.store.wire.drawn_columns(drawn)
        return [np.zeros([0], spec.dtype.as_numpy_dtype) for spec in self.store.wire.put_specs]

    def _write_back(self, token, *outputs):
        return self.store.write_back(token, outputs[0] if len(outputs) == 1 else outputs)

    def _serve_accepted(self):
        self._learner_present.assign(True)
        return self.inbox.table()

    def _disconnect(self, finished):
        self._learner_present.assign(False)
        self._finished.assign(finished)
        return tf.constant(True)


@contextlib.contextmanager
def _mistakes_as_value_errors() -> Iterator[None]:
    """Converts errors of the replay ops: `tf.numpy_function` keeps the type of Python's only."""
    try:
        yield
    except tf.errors.InvalidArgumentError as error:
        raise ValueError(error.message) from None
