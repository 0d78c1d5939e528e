"""Tests of common.values.closed_form."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

from common.values import closed_form

# Quadratic advantages.

B, A = 4, 3


def make_lower(seed=0, size=A, rows=B):
    outputs = np.random.default_rng(seed).normal(size=[rows, size * (size + 1) // 2])
    return closed_form.lower_triangular(tf.constant(outputs), size), outputs


@pytest.mark.parametrize("size", [1, 3])
def test_outputs_fill_the_lower_triangle_with_a_positive_diagonal(size):
    lower, outputs = make_lower(size=size)
    filled = tfp.math.fill_triangular(outputs).numpy()
    assert lower.shape == (B, size, size)
    below = np.tril_indices(size, -1)
    np.testing.assert_array_equal(lower.numpy()[:, *below], filled[:, *below])
    np.testing.assert_array_equal(lower, np.tril(lower))
    diagonal = np.einsum("bii->bi", filled)
    np.testing.assert_allclose(tf.linalg.diag_part(lower), np.log1p(np.exp(diagonal)), rtol=1e-12)


def test_advantage_is_the_quadratic_form():
    rng = np.random.default_rng(1)
    action, mean = rng.normal(size=[2, B, A])
    lower, _ = make_lower()
    matrix = lower.numpy() @ np.transpose(lower, [0, 2, 1])
    expected = -0.5 * np.einsum("bi,bij,bj->b", action - mean, matrix, action - mean)
    np.testing.assert_allclose(closed_form.quadratic(action, mean, lower), expected, rtol=1e-10)
    np.testing.assert_array_equal(closed_form.quadratic(mean, mean, lower), np.zeros(B))


def test_the_centred_advantage_has_a_mean_of_0_under_the_policy():
    """Monte Carlo; the trace with the sign and factor of the paper's eq 19 would not do."""
    rng = np.random.default_rng(2)
    samples = 400_000
    lower, _ = make_lower(rows=1)
    mean, variance = rng.normal(size=A), rng.uniform(0.05, 0.3, A)
    action = mean + np.sqrt(variance) * rng.normal(size=[samples, A])
    advantage = closed_form.quadratic(action, mean, lower).numpy()
    centred = closed_form.centred_quadratic(action, mean, lower, variance).numpy()
    error = advantage.std() / np.sqrt(samples)
    assert advantage.mean() < -50 * error
    assert abs(centred.mean()) < 4 * error
    # Closed form.
    trace = np.trace(lower[0].numpy() @ lower[0].numpy().T @ np.diag(variance))
    np.testing.assert_allclose(centred - advantage, 0.5 * trace, rtol=1e-8)


@pytest.mark.parametrize("size", [1, 3])
def test_the_numpy_twin_of_the_quadratic(size):
    rng = np.random.default_rng(3)
    outputs = rng.normal(size=[B, size * (size + 1) // 2]).astype(np.float32)
    kept = outputs.copy()
    lower = closed_form.lower_triangular_np(outputs, size)
    expected = closed_form.lower_triangular(tf.constant(outputs), size)
    np.testing.assert_allclose(lower, expected, rtol=1e-6)
    np.testing.assert_array_equal(outputs, kept)
    action, mean = rng.normal(size=[2, B, size]).astype(np.float32)
    variance = rng.uniform(0.1, 1, size).astype(np.float32)
    twin = closed_form.centred_quadratic_np(action, mean, lower, variance)
    assert twin.dtype == np.float32
    arguments = map(tf.constant, (action, mean, lower, variance))
    np.testing.assert_allclose(
        twin, closed_form.centred_quadratic(*arguments), rtol=1e-5, atol=1e-5
    )


# Advantages of the shape of a bell with two widths.

MEAN = np.array([[0.3, -0.5]])
SCALE = np.array([1.7])
ABOVE = np.array([[0.4, 2.0]])
BELOW = np.array([[1.5, 0.1]])
VARIANCE = np.array([0.2, 0.6])


def advantages(actions, variance=VARIANCE):
    return closed_form.centred_bell(
        *(tf.constant(array) for array in (actions, MEAN, SCALE, ABOVE, BELOW, variance))
    ).numpy()


def test_the_bells_mean_under_the_policy_is_0():
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


def test_gradients_at_the_mean_are_finite():
    arguments = [tf.constant(array) for array in (MEAN, MEAN, SCALE, ABOVE, BELOW, VARIANCE)]
    with tf.GradientTape() as tape:
        tape.watch(arguments)
        value = closed_form.centred_bell(*arguments)
    for gradient in tape.gradient(value, arguments):
        assert np.all(np.isfinite(gradient))


def test_the_numpy_twin_of_the_bell():
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
