"""Tests of common.values.closed_form."""

import numpy as np
import tensorflow as tf

from common.values import closed_form

MEAN = np.array([[0.3, -0.5]])
SCALE = np.array([1.7])
ABOVE = np.array([[0.4, 2.0]])
BELOW = np.array([[1.5, 0.1]])
VARIANCE = np.array([0.2, 0.6])


def advantages(actions, variance=VARIANCE):
    return closed_form.centred_bell(
        *(tf.constant(array) for array in (actions, MEAN, SCALE, ABOVE, BELOW, variance))
    ).numpy()


def test_the_mean_under_the_policy_is_0():
    nodes = np.linspace(-8, 8, 1601)  # of a standard normal, with the step 0.01 and a node at 0
    weights = np.exp(-(nodes**2) / 2) * 0.01 / np.sqrt(2 * np.pi)
    first, second = np.meshgrid(nodes, nodes, indexing="ij")
    standard = np.stack([first.ravel(), second.ravel()], axis=-1)
    given = advantages(MEAN + standard * np.sqrt(VARIANCE))
    assert np.ptp(given) > 1
    np.testing.assert_allclose(given @ np.outer(weights, weights).ravel(), 0, atol=1e-6)


def test_widths_are_those_of_their_side():
    at_mean, up, down = (
        advantages(MEAN + np.array([[offset, 0.0]]))[0] for offset in (0.0, 0.5, -0.5)
    )
    np.testing.assert_allclose(at_mean - up, 1.7 * (1 - np.exp(-0.125 / 0.4)), rtol=1e-12)
    np.testing.assert_allclose(at_mean - down, 1.7 * (1 - np.exp(-0.125 / 1.5)), rtol=1e-12)


def test_variances_may_be_those_of_each_state():
    actions = MEAN + 0.1
    np.testing.assert_array_equal(advantages(actions), advantages(actions, VARIANCE[None]))


def test_gradients_at_the_mean_are_finite():
    arguments = [tf.constant(array) for array in (MEAN, MEAN, SCALE, ABOVE, BELOW, VARIANCE)]
    with tf.GradientTape() as tape:
        tape.watch(arguments)
        value = closed_form.centred_bell(*arguments)
    for gradient in tape.gradient(value, arguments):
        assert np.all(np.isfinite(gradient))


def test_the_numpy_twin():
    rng = np.random.default_rng(0)
    action, mean = rng.normal(size=[2, 50, 2]).astype(np.float32)
    scale, above, below = (
        rng.uniform(0.1, 3, shape).astype(np.float32) for shape in ([50], [50, 2], [50, 2])
    )
    arguments = action, mean, scale, above, below, np.float32(VARIANCE)
    twin = closed_form.centred_bell_np(*arguments)
    assert twin.dtype == np.float32
    expected = closed_form.centred_bell(*map(tf.constant, arguments))
    np.testing.assert_allclose(twin, expected, atol=1e-5)
