"""Random batches of steps of episodes for the tests of ReF-ER's learners."""

import numpy as np
from reproduction_readme import Readme
import tensorflow as tf

from common.data.data import StoredState
from common.replay.episode_wire import EpisodeBatch, HistoryBatch
from common.types import Batch

D, A, B = 3, 2, 6  # sizes of observations and actions, batch
SIZE = 40  # steps in the memory
HISTORY = 4

_SHARED, _VRACER, _NAF, _DDPG, _ACER = Readme("refer").metrics("those of |and those of ")
METRICS = {
    "vracer": [*_SHARED, *_VRACER],
    "naf": [*_SHARED, *_NAF, "gradient_norm"],
    "ddpg": [*_SHARED, *_DDPG],
    "acer": [*_SHARED, *_ACER],
}
"""Names of the metrics of each agent in the README, in order; the last of V-RACER's is optional."""


def metrics_of(config):
    """Returns the names of the metrics of a configuration."""
    return [
        name
        for name in METRICS[config.agent]
        if name != "advantage_loss" or config.advantage != "none"
    ]


def make_steps(seed=0, size=B, bootstraps=True):
    """A step before a true end, one before a time limit (unless told), the others within."""
    rng = np.random.default_rng(seed)

    def normal(*shape, scale=1.0):
        return tf.constant(rng.normal(scale=scale, size=(size, *shape)), tf.float32)

    def states():
        mean = normal(A, scale=0.3)
        extras = {
            "mean": mean,
            "variance": tf.constant(rng.uniform(0.1, 0.4, (size, A)), tf.float32),
        }
        return StoredState(normal(D, scale=3.0), mean + normal(A, scale=0.3), extras)

    discounts = np.full(size, 0.9, np.float32)
    discounts[0] = 0.0
    cut = np.zeros(size, bool)
    cut[1] = bootstraps
    return EpisodeBatch(
        states(), states(), normal(), tf.constant(discounts), tf.constant(cut), normal()
    )


def make_batch(seed=0, **arguments):
    """With unequal probabilities."""
    steps = make_steps(seed, **arguments)
    p = np.random.default_rng(seed).uniform(0.2, 2, len(steps.rewards)) / SIZE
    return Batch(steps, tf.constant(p, tf.float32), tf.constant(float(SIZE)))


def make_windows(seed=0, **arguments):
    """The same steps with states before them, of which each step has another number."""
    batch = make_batch(seed, **arguments)
    steps = batch.steps
    rng = np.random.default_rng(seed + 100)

    def window(last, following):
        size = [len(steps.rewards), HISTORY, *last.shape[1:]]
        before = tf.constant(rng.uniform(0.1, 0.4, size), tf.float32)
        return tf.concat([before, last[:, tf.newaxis], following[:, tf.newaxis]], 1)

    states = tf.nest.map_structure(window, steps.states, steps.next_states)
    lengths = tf.constant(np.arange(len(steps.rewards)) % (HISTORY + 1), tf.int32)
    return batch._replace(steps=HistoryBatch(states, lengths, *steps[2:]))


def joined(batches):
    """Several batches as one draw, the first in front."""
    columns = [(batch.steps, batch.probabilities) for batch in batches]
    steps, p = tf.nest.map_structure(lambda *c: tf.concat(c, 0), *columns)
    return Batch(steps, p, tf.constant(float(SIZE)))
