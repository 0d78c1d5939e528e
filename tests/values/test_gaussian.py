"""Tests of common.values.gaussian."""

import math

import numpy as np
import pytest
from scipy import stats
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


def test_on_policy_the_weight_is_1_and_the_divergence_0():
    action, mean, variance, *_ = make_arguments()
    rho = gaussian.importance_weight(action, mean, variance, mean, variance)
    np.testing.assert_array_equal(rho, np.ones(B))
    np.testing.assert_array_equal(
        gaussian.kl_divergence(mean, variance, mean, variance), np.zeros(B)
    )


def test_variances_may_be_shared():
    action, mean, variance, other, other_variance = make_arguments()
    shared = variance[0], other_variance[0]
    each = [tf.broadcast_to(v, [B, A]) for v in shared]
    np.testing.assert_allclose(
        gaussian.importance_weight(action, mean, shared[0], other, shared[1]),
        gaussian.importance_weight(action, mean, each[0], other, each[1]),
        rtol=1e-12,
    )
    np.testing.assert_allclose(
        gaussian.kl_divergence(mean, shared[0], other, shared[1]),
        gaussian.kl_divergence(mean, each[0], other, each[1]),
        rtol=1e-12,
    )


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
    gradients = tape.gradient(total, arguments)
    step = 1e-6
    for i, gradient in enumerate(gradients):
        for index in np.ndindex(B, A):
            shift = np.zeros([B, A])
            shift[index] = step
            above, below = (
                tf.reduce_sum(call(*arguments[:i], arguments[i] + s, *arguments[i + 1 :]))
                for s in (shift, -shift)
            )
            difference = (above - below) / (2 * step)
            np.testing.assert_allclose(gradient[index], difference, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("action_size, bound", [(17, 850), (6, 300)])
def test_means_within_1_bound_the_divergence(action_size, bound):
    """2 A / sigma^2: the paper's 850 for Humanoid and 300 for Walker2d with sigma = 0.2."""
    mean, variance = tf.ones([1, action_size], tf.float64), tf.constant(0.04, tf.float64)
    actual = gaussian.kl_divergence(-mean, variance, mean, variance)
    np.testing.assert_allclose(actual, [bound], rtol=1e-12)
