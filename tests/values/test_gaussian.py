"""Tests of common.values.gaussian."""

import math

from float64_networks import numeric_gradient
import numpy as np
import pytest
from scipy import special, stats
import tensorflow as tf
import tensorflow_probability as tfp

from common.values import gaussian

B, A = 5, 3


def make_arguments(seed=0):
    """Action, and mean and variance of pi, then of mu, float64."""
    rng = np.random.default_rng(seed)
    means = rng.normal(size=[2, B, A])
    variances = rng.uniform(0.2, 2, [2, B, A])
    action = means[1] + rng.normal(size=[B, A]) * 0.5
    return [tf.constant(x) for x in (action, means[0], variances[0], means[1], variances[1])]


def test_importance_weights_are_ratios_of_densities():
    action, *parameters = (x.numpy() for x in make_arguments())
    pi, mu = (
        stats.norm.pdf(action, mean, np.sqrt(variance)).prod(axis=-1)
        for mean, variance in (parameters[:2], parameters[2:])
    )
    actual = gaussian.importance_weight(*make_arguments(), log_bound=50.0)
    np.testing.assert_allclose(actual, pi / mu, rtol=1e-10)


def test_the_divergence_is_that_of_tensorflow_probability():
    _, *parameters = make_arguments()
    p, q = (
        tfp.distributions.MultivariateNormalDiag(mean, tf.sqrt(variance))
        for mean, variance in (parameters[:2], parameters[2:])
    )
    np.testing.assert_allclose(gaussian.kl_divergence(*parameters), p.kl_divergence(q), rtol=1e-10)


@pytest.mark.parametrize("offset, expected", [(30.0, math.exp(-7)), (-30.0, math.exp(7))])
def test_weights_are_bounded_but_have_gradients_at_the_bounds(offset, expected):
    """grad rho = rho grad log pi there, with the bounded rho."""
    action = tf.constant([[1.0, 0.0]], tf.float64)
    mean = tf.constant([[1.0 + max(offset, 0), 0.5]], tf.float64)
    behaviour_mean = tf.constant([[1.0 - min(offset, 0), 0.0]], tf.float64)
    variance = tf.constant([2.0, 0.5], tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(mean)
        rho = gaussian.importance_weight(action, mean, variance, behaviour_mean, variance)
    np.testing.assert_allclose(rho, [expected], rtol=1e-12)
    score = (action - mean) / variance
    np.testing.assert_allclose(tape.gradient(rho, mean), expected * score, rtol=1e-10)


@pytest.mark.parametrize("function", ["importance_weight", "kl_divergence"])
def test_gradients_are_those_of_finite_differences(function):
    arguments = make_arguments()
    if function == "kl_divergence":
        arguments = arguments[1:]
    call = getattr(gaussian, function)
    with tf.GradientTape() as tape:
        tape.watch(arguments)
        total = tf.reduce_sum(call(*arguments))
    arrays = [np.array(argument) for argument in arguments]
    for array, gradient in zip(arrays, tape.gradient(total, arguments)):
        expected = numeric_gradient(lambda: float(tf.reduce_sum(call(*arrays))), array)
        np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-7)


MIN_VARIANCE = 1e-2
SEED = tf.constant([3, 4])


def make_outputs(rows=4, components=3, seed=0):
    return np.random.default_rng(seed).normal(scale=1.5, size=(rows, 3 * components))


def of_components(function, outputs, z):
    """`stats.norm.pdf` or `cdf` of equation 17's mixtures at z [B, J]."""
    logits, means, raw = np.split(outputs[:, np.newaxis], 3, axis=-1)
    stds = np.sqrt(np.log1p(np.exp(raw)) + MIN_VARIANCE)
    parts = special.softmax(logits, axis=-1) * function(z[..., np.newaxis], means, stds)
    return parts.sum(axis=-1)


def cross_entropy(outputs, z):
    distribution = gaussian.mixture(tf.constant(outputs), MIN_VARIANCE)
    return gaussian.sampled_cross_entropy(distribution, tf.constant(z)).numpy()


def test_likelihood_is_the_mixtures_density():
    outputs = make_outputs()
    z = np.random.default_rng(1).normal(scale=3, size=(4, 7))
    actual, density = cross_entropy(outputs, z), of_components(stats.norm.pdf, outputs, z)
    assert actual.shape == (4,)
    np.testing.assert_allclose(actual, -np.log(density).mean(1), rtol=1e-6)


def test_far_samples_have_finite_likelihoods_and_gradients():
    outputs = tf.Variable(make_outputs(rows=1).astype(np.float32))
    with tf.GradientTape() as tape:
        distribution = gaussian.mixture(outputs, MIN_VARIANCE)
        loss = gaussian.sampled_cross_entropy(distribution, tf.constant([[1e3, -1e3]]))
    assert np.all(np.isfinite(loss)) and np.all(np.isfinite(tape.gradient(loss, outputs)))


def test_mean_is_that_of_the_distribution():
    outputs = make_outputs()
    distribution = gaussian.mixture(tf.constant(outputs), MIN_VARIANCE)
    np.testing.assert_allclose(gaussian.mixture_mean(outputs), distribution.mean(), rtol=1e-6)


def test_samples_follow_the_distribution():
    """By Kolmogorov and Smirnov, against the distribution function of equation 17."""
    outputs = make_outputs()
    distribution = gaussian.mixture(tf.constant(outputs), MIN_VARIANCE)
    samples = gaussian.sample_mixture(distribution, 4_000, SEED).numpy()
    assert samples.shape == (4, 4_000)
    for row in of_components(stats.norm.cdf, outputs, samples):
        assert stats.kstest(row, "uniform").pvalue > 1e-3


def test_the_seed_gives_the_samples():
    outputs = tf.constant(make_outputs(), tf.float32)

    def draw(seed):
        distribution = gaussian.mixture(outputs, MIN_VARIANCE)
        return gaussian.sample_mixture(distribution, 5, seed)

    draw = tf.function(draw, jit_compile=True)  # as in an update
    np.testing.assert_array_equal(draw(SEED), draw(SEED))
    assert np.all(draw(SEED).numpy() != draw(SEED + 1).numpy())


def test_no_gradient_flows_through_the_samples():
    outputs, other = (tf.Variable(make_outputs(seed=seed)) for seed in (0, 1))
    with tf.GradientTape() as tape:
        samples = gaussian.sample_mixture(gaussian.mixture(outputs, MIN_VARIANCE), 3, SEED)
        loss = gaussian.sampled_cross_entropy(gaussian.mixture(other, MIN_VARIANCE), samples)
    to_target, to_prediction = tape.gradient(loss, [outputs, other])
    assert to_target is None and np.abs(to_prediction).max() > 0
