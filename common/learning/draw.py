"""Samples on their way to the learner, and how a checkpoint keeps them."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from common.replay import memory as memory_lib


class Draw(NamedTuple):
    """A sample, and the learner step at which it was drawn."""

    sample: memory_lib.Sample
    step: int


def replace_rows(
    sample: memory_lib.Sample, rows: Sequence[int], fresh: memory_lib.Sample
) -> memory_lib.Sample:
    """Returns `sample`, B items, with the R items of `fresh` in the place of R of its rows.

    Each keeps the probability with which it was drawn, also if the memory's total mass was another
    one when `fresh` was.
    """
    index = np.arange(len(sample.keys))
    index[list(rows)] = len(index) + np.arange(len(rows))

    def put(old: tf.Tensor, new: tf.Tensor) -> tf.Tensor:
        return tf.gather(tf.concat([old, new], 0), index)

    return sample._replace(
        keys=put(sample.keys, fresh.keys),
        masses=put(sample.masses, fresh.masses * (sample.total_mass / fresh.total_mass)),
        lengths=put(sample.lengths, fresh.lengths),
        steps=tf.nest.map_structure(put, sample.steps, fresh.steps),
    )


class SavedDraws(tf.Module):
    """Keeps draws in variables, for checkpoints: all but their rows, which the memory has.

    The draws stand one behind the other, of one size each. Without any the vectors are empty.
    """

    def __init__(self):
        super().__init__()
        self.keys = _vector(tf.int64)
        self.masses = _vector(tf.float64)
        self.lengths = _vector(tf.int32)
        self.total_mass = _a_draw(tf.float64)
        self.count = _a_draw(tf.int64)
        self.step = _a_draw(tf.int64)

    def store(self, draws: Sequence[Draw]) -> None:
        """Keeps these draws, in their order, and no others."""
        samples = [draw.sample for draw in draws]
        for name in ("keys", "masses", "lengths"):
            variable = getattr(self, name)
            rows = [getattr(sample, name) for sample in samples]
            variable.assign(tf.concat(rows, 0) if rows else tf.zeros([0], variable.dtype))
        self.total_mass.assign(np.array([sample.total_mass for sample in samples], np.float64))
        self.count.assign(np.array([sample.count for sample in samples], np.int64))
        self.step.assign(np.array([draw.step for draw in draws], np.int64))

    def read(self, memory) -> list[Draw]:
        """Returns the draws that are kept, their rows read from `memory` again.

        They end before the first one of which rows are gone, as they are from a replay that began
        anew. Errors are those of `memory.read`.
        """
        keys, masses, lengths = (v.numpy() for v in (self.keys, self.masses, self.lengths))
        if not keys.size:
            return []
        totals, counts, steps = (np.ravel(v) for v in (self.total_mass, self.count, self.step))
        draws = []
        for i, rows in enumerate(np.split(np.arange(keys.size), len(steps))):
            found, columns = memory.read(tf.constant(keys[rows]))
            if not tf.reduce_all(found):
                break
            sample = memory_lib.Sample(
                *map(tf.constant, (keys[rows], masses[rows], totals[i], counts[i], lengths[rows])),
                columns,
            )
            draws.append(Draw(sample, int(steps[i])))
        return draws


def _vector(dtype: tf.DType) -> tf.Variable:
    return tf.Variable(tf.zeros([0], dtype), shape=[None], trainable=False)


def _a_draw(dtype: tf.DType) -> tf.Variable:
    """[draws]; of any rank, since there are checkpoints that hold one draw's numbers as scalars."""
    shape = tf.TensorShape(None)
    return tf.Variable(tf.zeros([0], dtype), shape=shape, trainable=False)
