"""Tests of reproductions.refer.advantages: their mean, their gradients, their NumPy twins."""

import numpy as np
import pytest
import tensorflow as tf

from reproductions.refer import advantages
from reproductions.refer.config import ReferConfig

B, A = 5, 3
KINDS = ("quadratic", "gaussian")


def make_inputs(kind, rows=B, seed=0):
    """Coefficients, actions, means and a variance, float32."""
    rng = np.random.default_rng(seed)
    outputs = rng.normal(size=[rows, advantages.num_outputs(kind, A)])
    action, mean = rng.normal(size=[2, rows, A])
    arrays = outputs, action, mean, rng.uniform(0.1, 0.4, A)
    return [tf.constant(array, tf.float32) for array in arrays]


@pytest.mark.parametrize("kind", KINDS)
def test_the_mean_under_the_policy_is_0(kind):
    """Monte Carlo."""
    outputs, _, mean, variance = make_inputs(kind, rows=1)
    noise = np.random.default_rng(1).normal(size=[200_000, A])
    action = tf.constant(mean + np.sqrt(variance) * noise, tf.float32)
    config = ReferConfig(advantage=kind)
    given = advantages.advantage(config, outputs, action, mean, variance).numpy()
    assert given.std() > 0.03
    assert abs(given.mean()) < 4 * given.std() / np.sqrt(len(given))


@pytest.mark.parametrize("kind", KINDS)
def test_the_mean_action_is_the_best(kind):
    outputs, action, mean, variance = make_inputs(kind)
    config = ReferConfig(advantage=kind)
    best, other = (
        advantages.advantage(config, outputs, a, mean, variance).numpy() for a in (mean, action)
    )
    assert np.all(best > 0) and np.all(other < best)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_flow_into_the_coefficients_alone(kind):
    inputs = make_inputs(kind)
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        total = tf.reduce_sum(advantages.advantage(ReferConfig(advantage=kind), *inputs))
    outputs, *others = tape.gradient(total, inputs)
    assert np.all(outputs.numpy() != 0) and others == [None] * 3


@pytest.mark.parametrize("kind", ("none", *KINDS))
def test_the_numpy_twin(kind):
    inputs, config = make_inputs(kind, rows=40), ReferConfig(advantage=kind)
    twin = advantages.advantage_np(config, *(tensor.numpy() for tensor in inputs))
    assert twin.dtype == np.float32 and twin.shape == (40,)
    np.testing.assert_allclose(twin, advantages.advantage(config, *inputs), atol=1e-5)


def test_biases_are_those_of_height_and_squared_widths():
    config = ReferConfig(advantage="gaussian", advantage_scale_bias=-2.0, advantage_width_bias=3.0)
    mean, variance = tf.zeros([1, A]), tf.fill([A], 0.2)
    outputs = tf.zeros([1, 1 + 2 * A])
    height, squared_width = np.log1p(np.exp([-2.0, 3.0]))
    expected = height * (1 - np.sqrt(squared_width / (squared_width + 0.2)) ** A)
    given = advantages.advantage(config, outputs, mean, mean, variance)
    np.testing.assert_allclose(given, [expected], rtol=1e-5)
