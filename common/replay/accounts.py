"""Who added how much: the accounts of a replay service."""

import secrets

import tensorflow as tf

from common.replay import key_layout

_IDENTITIES = 1 << 32


class Accounts:
    """Hands out incarnations and keeps the number of transitions accepted from each.

    An incarnation is one life of an actor process. It is identity * 2^14 + number: the identity is
    this service's, drawn at its start, so that incarnations differ between services (two of a run's
    n services draw the same one with probability n^2 / 2^33); the number goes into the keys.

    A caller says with each insert how many of its transitions will be accepted after it. So what a
    service that died had accepted is known again after the next insert of whoever added it, and a
    call that is repeated, or that arrives late, changes nothing. The methods trace into graphs.
    """

    def __init__(self):
        # Not by the module random, which a user's environment may seed.
        self._identity = 1 + secrets.randbelow(_IDENTITIES - 1)
        # At random, so that a new service does not go through the numbers of a former one.
        first = secrets.randbelow(key_layout.MAX_INCARNATIONS)
        self._number = tf.Variable(first, dtype=tf.int64, trainable=False)
        self._accepted = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, 0)
        self._one_at_a_time = tf.CriticalSection()

    def next_incarnation(self) -> tf.Tensor:
        """Returns an int64 incarnation with a number that no incarnation in the table has."""
        return self._one_at_a_time.execute(self._next_incarnation)

    def raise_to(self, incarnation: tf.Tensor, accepted: tf.Tensor) -> tf.Tensor:
        """Notes that so many (int64) were accepted in all, unless more are known; returns them."""

        def raise_():
            most = tf.maximum(self._accepted.lookup(incarnation), accepted)
            with tf.control_dependencies([self._accepted.insert(incarnation, most)]):
                return tf.identity(most)

        return self._one_at_a_time.execute(raise_)

    def table(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns incarnations and the number accepted from each, both int64 [n]."""
        return self._accepted.export()

    def _next_incarnation(self):
        count = key_layout.MAX_INCARNATIONS
        taken = self._accepted.export()[0] % count
        is_free = tf.tensor_scatter_nd_update(
            tf.ones([count], tf.int32), taken[:, None], tf.zeros_like(taken, tf.int32)
        )
        following = (self._number + 1 + tf.range(count, dtype=tf.int64)) % count
        # The first free one; the next one if there is none, which has the oldest life.
        number = following[tf.argmax(tf.gather(is_free, following))]
        with tf.control_dependencies([self._number.assign(number)]):
            return self._identity * count + number
