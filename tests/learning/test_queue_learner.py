"""Tests of common.learning.queue_learner."""

import numpy as np
import pytest
import tensorflow as tf

from common.learning.metrics import DivergedError
from common.learning.queue_learner import QueueLearner
from common.learning.update_loop import UpdateLoop
from common.replay.unroll_queue import UnrollQueue

T, BATCH, UPDATES = 3, 2, 2
SPECS = {"mark": tf.TensorSpec([T])}


class Update:
    """An update that notes what it gets."""

    def __init__(self):
        self.seen = tf.Variable(tf.zeros([0, BATCH]), shape=[None, BATCH])

    def __call__(self, batch):
        assert batch.steps["mark"].shape == (BATCH, T)
        self.seen.assign(tf.concat([self.seen, batch.steps["mark"][None, :, 0]], 0))
        mean = tf.reduce_mean(batch.probabilities * tf.cast(batch.size, tf.float32))
        return (), {"mean": mean}


def offer(queue, number, *marks):
    column = np.tile(np.array(marks, np.float32)[:, None], (1, T))
    assert queue.offer(1, number, {"mark": column})


def test_learns_from_each_unroll_once_in_the_order_of_the_queue():
    queue, update = UnrollQueue(SPECS, 8), Update()
    learner = QueueLearner(queue, UpdateLoop(update, UPDATES, BATCH, jit_compile=False))
    assert learner.statistics is None and learner.step() is None
    assert learner.statistics.items == 0
    offer(queue, 1, 1, 2, 3)
    assert learner.step() is None and learner.statistics.items == 3
    offer(queue, 2, 4, 5)
    metrics = learner.step()
    assert float(metrics["mean"]) == pytest.approx(1)  # equal probabilities
    np.testing.assert_array_equal(update.seen.numpy(), [[1, 2], [3, 4]])
    assert learner.statistics.items == 1 and learner.statistics.sampled == 4
    assert learner.step() is None
    offer(queue, 3, 6, 7, 8)
    assert learner.step() is not None
    np.testing.assert_array_equal(update.seen.numpy(), [[1, 2], [3, 4], [5, 6], [7, 8]])
    learner.flush()
    learner.close()


def test_a_queue_smaller_than_a_call():
    loop = UpdateLoop(Update(), UPDATES, BATCH, jit_compile=False)
    with pytest.raises(ValueError, match="takes 4 unrolls, but the queue holds 3: raise queue"):
        QueueLearner(UnrollQueue(SPECS, 3), loop)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_an_update_that_is_not_finite_is_one_line(value):
    def update(batch):
        return (), {"fine": tf.reduce_mean(batch.steps["mark"]), "loss": tf.constant(value)}

    queue = UnrollQueue(SPECS)
    learner = QueueLearner(queue, UpdateLoop(update, UPDATES, BATCH, jit_compile=False))
    offer(queue, 1, 1, 2, 3, 4)
    with pytest.raises(DivergedError, match=rf"^learning has diverged: loss is {value};.*$"):
        learner.step()
