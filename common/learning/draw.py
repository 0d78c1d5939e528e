"""A sample on its way to the learner, and how a checkpoint keeps it."""

from typing import NamedTuple

import tensorflow as tf

from common.replay import memory as memory_lib


class Draw(NamedTuple):
    """A sample, and the learner step at which it was drawn."""

    sample: memory_lib.Sample
    step: int


class SavedDraw(tf.Module):
    """Keeps a draw in variables, for checkpoints: all but its rows, which the memory has.

    Without a draw the variables are empty.
    """

    def __init__(self):
        super().__init__()
        self.keys = _vector(tf.int64)
        self.masses = _vector(tf.float64)
        self.lengths = _vector(tf.int32)
        self.total_mass = tf.Variable(0.0, dtype=tf.float64, trainable=False)
        self.count = tf.Variable(0, dtype=tf.int64, trainable=False)
        self.step = tf.Variable(0, dtype=tf.int64, trainable=False)

    def store(self, draw: Draw | None) -> None:
        """Keeps a draw, or that there is none."""
        if draw is None:
            for vector in (self.keys, self.masses, self.lengths):
                vector.assign(tf.zeros([0], vector.dtype))
            return
        for name in ("keys", "masses", "lengths", "total_mass", "count"):
            getattr(self, name).assign(getattr(draw.sample, name))
        self.step.assign(draw.step)

    def read(self, memory) -> Draw | None:
        """Returns the draw that is kept, its rows read from `memory` again.

        None if none is kept, or if rows are gone, as they are from a replay that began anew.
        Errors are those of `memory.read`.
        """
        keys = self.keys.read_value()
        if not keys.shape[0]:
            return None
        found, steps = memory.read(keys)
        if not tf.reduce_all(found):
            return None
        sample = memory_lib.Sample(
            keys, self.masses.read_value(), self.total_mass.read_value(),
            self.count.read_value(), self.lengths.read_value(), steps,
        )
        return Draw(sample, int(self.step))


def _vector(dtype: tf.DType) -> tf.Variable:
    return tf.Variable(tf.zeros([0], dtype), shape=[None], trainable=False)
