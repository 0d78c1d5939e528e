"""Learners of ReF-ER in the middle of training, random batches, and NumPy (float64) to compare."""

import dataclasses

from float64_networks import Float64Values, numeric_gradient, run
import numpy as np
from reproduction_readme import Readme
import tensorflow as tf

from common.data.data import StoredState
from common.networks.recurrent import LSTMNetwork
from common.replay.episode_wire import EpisodeBatch, HistoryBatch
from common.types import Batch
from reproductions.refer.agent import KINDS
from reproductions.refer.config import SETTINGS
from reproductions.refer.rules import Rules

D, A, B = 3, 2, 6  # sizes of observations and actions, batch
SIZE = 40  # steps in the memory
HISTORY = 4
RECURRENT = {"recurrent": True, "lstm_size": 5, "history": HISTORY}
_SHARED, _VRACER, _NAF, _DDPG, _ACER = Readme("refer").metrics(r"(?:V-RACER|NAF|DDPG|ACER) adds")
METRICS = {
    "vracer": [*_SHARED, *_VRACER],
    "naf": [*_SHARED, *_NAF, "gradient_norm"],
    "ddpg": [*_SHARED, *_DDPG],
    "acer": [*_SHARED, *_ACER],
}
"""Names of the metrics of each agent on its pages, in order; the last of V-RACER's is optional."""


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
        states(), states(), normal(), tf.constant(discounts), tf.constant(cut), normal(), normal()
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


MEAN, DEVIATION = np.array([0.5, -1.0, 0.0]), np.array([2.0, 0.7, 3.0])
STEPS = 1_000_000  # updates done, so that annealing has an effect


def make_config(setting, **values):
    return dataclasses.replace(SETTINGS.configuration(setting), **values)


def new_learner(config):
    return KINDS[config.agent].learner(config, D, A)


def make_learner(setting, seed=0, **values):
    """A learner in the middle of its training, with networks that all differ."""
    config = make_config(setting, **{"hidden_size": 5, **values})
    tf.random.set_seed(seed)
    learner = new_learner(config)
    rng = np.random.default_rng(seed)
    for variable in learner.trainable_variables:
        variable.assign(rng.normal(scale=0.5, size=variable.shape))
    learner.standardizer.set(MEAN, DEVIATION)
    learner.steps.assign(STEPS)
    learner.far_fraction.assign(0.2)
    learner.mean_divergence.assign(1.5)
    learner.reward_scale.assign(3.0)
    return config, learner


class Float64(Float64Values):
    """The networks of a learner in float64, on standardised observations."""

    def __init__(self, learner):
        super().__init__(learner.variables)

    def run(self, network, *inputs, history=None):
        """A recurrent network's rows follow each other; those before one had `history` as input."""
        h = np.concatenate(inputs, axis=-1)
        if isinstance(network, LSTMNetwork):
            history = h if history is None else np.concatenate(history, axis=-1)
            states, hidden = [(0.0, 0.0)] * len(network.lstms), []
            for now, then in zip(h, history, strict=True):
                hidden.append(self._after(network, states, now)[-1][0])
                states = self._after(network, states, then)
            h = np.array(hidden)
        return run(network.layers, h, self.of)

    def _after(self, network, states, h):
        """(hidden, cell) of each layer after an input [F]."""
        found = []
        for lstm, (hidden, cell) in zip(network.lstms, states):
            w_h = self.of(lstm.w_h)
            gates = h @ self.of(lstm.w_i) + self.of(lstm.b) + hidden * np.ones(len(w_h)) @ w_h
            i, f, g, o = np.split(gates, 4)
            cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(cell)
            found.append((h, cell))
        return found


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def standardized(observation):
    return (observation.numpy().astype(np.float64) - MEAN) / (DEVIATION + 1e-7)


def assert_chained(found, variables, twin, outputs, gradients, atol=2e-5, decay=0.0):
    """Asserts that gradients are those in the outputs times the outputs' finite differences."""

    def total():
        return sum(np.sum(g * o) for o, g in zip(outputs(), gradients))

    for gradient, variable in zip(found, variables, strict=True):
        array = twin.of(variable)
        expected = numeric_gradient(total, array) + decay * array
        np.testing.assert_allclose(gradient, expected, rtol=2e-3, atol=atol)


def assert_close(found, rtol=1e-4, atol=1e-5, **expected):
    """Asserts that the fields of a tuple are these arrays."""
    for name, array in expected.items():
        np.testing.assert_allclose(getattr(found, name), array, rtol=rtol, atol=atol, err_msg=name)


def output_gradients(function, outputs):
    """Gradients of the mean of `function(*outputs)`, float64, in its outputs."""
    outputs = [tf.constant(output) for output in outputs]
    with tf.GradientTape() as tape:
        tape.watch(outputs)
        loss = tf.reduce_mean(function(*outputs))
    gradients = tape.gradient(loss, outputs, unconnected_gradients=tf.UnconnectedGradients.ZERO)
    return [g.numpy() for g in gradients]


def stored(batch):
    """Action, behaviour mean, behaviour variance, float64."""
    states = batch.steps.states
    columns = states.action, states.extras["mean"], states.extras["variance"]
    return [tf.cast(column, tf.float64) for column in columns]


def weights_of(config, batch):
    """(p_min / p)^b of prioritised replay."""
    p = batch.probabilities.numpy().astype(np.float64)
    b = config.importance_exponent
    b += (1 - b) * min(1, config.annealing_per_update * STEPS)
    return (p.min() / p) ** (b if config.sampling != "uniform" else 0)


def rules_of(config, learner):
    """The rules of a learner in the middle of its training."""
    c_max = 1 + 4 / (1 + config.annealing * STEPS)
    log_bound = np.log(config.max_importance_weight)
    return Rules(float(learner.beta), c_max, config.clipping, log_bound)


NUM_STEPS, NUM_ACTIONS = 12, 3  # of the losses' inputs
C_MAX, BETA, SIGMA = 2.5, 0.3, 0.4


def normal(*shape, seed=0, scale=1.0):
    return np.random.default_rng(seed).normal(scale=scale, size=shape)


def loss_inputs():
    """Float64: what the memory has of steps, some of them far from the policy of `mean`."""
    rng = np.random.default_rng(1)
    shape = [NUM_STEPS, NUM_ACTIONS]
    behaviour_mean = rng.normal(size=shape)
    behaviour_variance = rng.uniform(0.1, 0.4, shape)
    return dict(
        action=behaviour_mean + np.sqrt(behaviour_variance) * rng.normal(size=shape),
        behaviour_mean=behaviour_mean,
        behaviour_variance=behaviour_variance,
        mean=behaviour_mean + rng.normal(scale=0.2, size=shape),
        variance=rng.uniform(0.1, 0.4, NUM_ACTIONS),
        value=rng.normal(size=NUM_STEPS),
        q_ret=rng.normal(size=NUM_STEPS),
        advantage=None,
    )


def weight_of(action, mean, variance, behaviour_mean, behaviour_variance):
    """rho from the densities."""

    def density(m, v):
        return np.prod(np.exp(-((action - m) ** 2) / (2 * v)) / np.sqrt(2 * np.pi * v), axis=-1)

    return density(mean, variance) / density(behaviour_mean, behaviour_variance)


def divergence_of(m_p, v_p, m_q, v_q):
    """D_KL(p || q)."""
    return 0.5 * np.sum(v_p / v_q - 1 - np.log(v_p / v_q) + (m_p - m_q) ** 2 / v_q, axis=-1)


def make_rules(gate):
    return Rules(BETA, C_MAX, gate)


def near_of(rho, gate):
    return np.array([float(1 / C_MAX < r < C_MAX) if gate else 1.0 for r in rho])


def numeric_gradients(function, arrays):
    """Central differences of the sum of `function(*arrays)` in each number of each array."""
    arrays = [array.copy() for array in arrays]
    return [numeric_gradient(lambda: np.sum(function(*arrays)), array) for array in arrays]


def gradients_of(function, watched):
    """Gradients of the sum of `function()`."""
    with tf.GradientTape() as tape:
        tape.watch(watched)
        total = tf.reduce_sum(function())
    return tape.gradient(total, watched)


def tensors(batch):
    return {name: None if array is None else tf.constant(array) for name, array in batch.items()}
