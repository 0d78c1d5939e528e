"""The number of transitions that a replay service has accepted from each actor incarnation."""

import secrets

import tensorflow as tf

from common.cluster import rpc
from common.replay import key_layout

_IDENTITIES = 1 << 32
_MOST_ADDED = 1 << 24
"""Most transitions between two calls of an actor process, where the call does not have them.

Such actors wait while the service is gone; until their memory is filled, they do so only after
minutes.
"""


def as_dict(table: tuple[tf.Tensor, tf.Tensor]) -> dict[int, int]:
    """Returns the number accepted from each incarnation, of what `Accounts.table` returns."""
    incarnations, accepted = table
    return dict(zip(incarnations.numpy().tolist(), accepted.numpy().tolist(), strict=True))


class Accounts:
    """A table from incarnations to the number of transitions accepted from each.

    An incarnation identifies one start of an actor process. It is identity * 2^14 + number. The
    identity is drawn when this service starts, so that incarnations of different services differ
    (two of a run's n services draw the same identity with probability n^2 / 2^33). The number
    becomes part of replay keys.

    With each insert an actor says how many of its transitions are accepted after that insert. So a
    restarted service knows the count again at the actor's next insert, and a call that is repeated
    or late changes nothing. Only of an incarnation of another service, which may be this one before
    it restarted, the first count is believed up to `rpc.MAX_COUNT`. All methods can be traced into
    graphs.
    """

    def __init__(self):
        """Makes an empty table."""
        # Not the module random, which a user's environment may seed.
        self._identity = 1 + secrets.randbelow(_IDENTITIES - 1)
        # A random start, so that a new service does not repeat the numbers of a former one.
        first = secrets.randbelow(key_layout.MAX_INCARNATIONS)
        self._number = tf.Variable(first, dtype=tf.int64, trainable=False)
        self._accepted = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, 0)
        self._one_at_a_time = tf.CriticalSection()

    def next_incarnation(self) -> tf.Tensor:
        """Returns an int64 incarnation whose number no incarnation in the table has."""
        return self._one_at_a_time.execute(self._next_incarnation)

    def checked(
        self, incarnation: tf.Tensor, accepted: tf.Tensor, added: int | tf.Tensor = _MOST_ADDED
    ) -> tf.Tensor:
        """Returns `accepted`, in a graph that fails if it is negative or a leap from the last.

        Args:
          incarnation: int64, of the actor that calls.
          accepted: int64, the number accepted from it, as it says.
          added: transitions that this call can add; int64, if it is a tensor.
        """
        is_own = tf.equal(incarnation // key_layout.MAX_INCARNATIONS, self._identity)
        if_unknown = tf.where(
            is_own, tf.constant(0, tf.int64), tf.constant(rpc.MAX_COUNT, tf.int64)
        )
        last = self._accepted.lookup(incarnation, if_unknown)
        return rpc.checked_count("accepted", accepted, last + added)

    def raise_to(self, incarnation: tf.Tensor, accepted: tf.Tensor) -> tf.Tensor:
        """Raises the number accepted from an incarnation to at least `accepted`; returns it."""

        def raise_():
            most = tf.maximum(self._accepted.lookup(incarnation), accepted)
            with tf.control_dependencies([self._accepted.insert(incarnation, most)]):
                return tf.identity(most)

        return self._one_at_a_time.execute(raise_)

    def table(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns incarnations and the number accepted from each, both int64 [n]."""
        return self._accepted.export()

    def as_dict(self) -> dict[int, int]:
        """Returns the table as Python numbers."""
        return as_dict(self.table())

    def _next_incarnation(self):
        count = key_layout.MAX_INCARNATIONS
        taken = self._accepted.export()[0] % count
        is_free = tf.tensor_scatter_nd_update(
            tf.ones([count], tf.int32), taken[:, None], tf.zeros_like(taken, tf.int32)
        )
        following = (self._number + 1 + tf.range(count, dtype=tf.int64)) % count
        # The first free number; if none is free, the next number, which was given out longest ago.
        number = following[tf.argmax(tf.gather(is_free, following))]
        with tf.control_dependencies([self._number.assign(number)]):
            return self._identity * count + number
