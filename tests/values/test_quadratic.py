"""Tests of common.values.closed_form."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

from common.values import closed_form

B, A = 4, 3


def make_lower(seed=0, size=A, rows=B):
    outputs = np.random.default_rng(seed).normal(size=[rows, size * (size + 1) // 2])
    return closed_form.lower_triangular(tf.constant(outputs), size), outputs


@pytest.mark.parametrize("size", [1, 2, 3, 6])
def test_outputs_fill_the_lower_triangle_with_a_positive_diagonal(size):
    lower, outputs = make_lower(size=size)
    filled = tfp.math.fill_triangular(outputs).numpy()
    assert lower.shape == (B, size, size)
    below = np.tril_indices(size, -1)
    np.testing.assert_array_equal(lower.numpy()[:, *below], filled[:, *below])
    np.testing.assert_array_equal(lower, np.tril(lower))
    diagonal = np.einsum("bii->bi", filled)
    np.testing.assert_allclose(tf.linalg.diag_part(lower), np.log1p(np.exp(diagonal)), rtol=1e-12)


def test_every_output_has_an_element():
    outputs = tf.random.stateless_normal([1, 6], [1, 2], dtype=tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(outputs)
        total = tf.reduce_sum(closed_form.lower_triangular(outputs, 3))
    assert np.all(tape.gradient(total, outputs).numpy() > 0)


def test_another_number_of_outputs_is_refused():
    with pytest.raises(ValueError, match="takes 6 outputs, got 5"):
        closed_form.lower_triangular(tf.zeros([1, 5]), 3)


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


@pytest.mark.parametrize("size", [1, 3, 6])
def test_the_numpy_twin(size):
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
