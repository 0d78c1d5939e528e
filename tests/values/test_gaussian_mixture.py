"""Mixtures of Gaussians against scipy, their samples by their statistics, and the NumPy twin."""

import numpy as np
import pytest
from scipy import integrate, special, stats
import tensorflow as tf

from common.values import gaussian_mixture

MIN_VARIANCE = 1e-2
SEED = tf.constant([3, 4])


def make_outputs(rows=4, components=3, seed=0):
    return np.random.default_rng(seed).normal(scale=1.5, size=(rows, 3 * components))


def densities(outputs, z):
    """p(z) of equation 17, row by row, z [B, J]."""
    logits, means, raw = np.split(outputs, 3, axis=-1)
    weights = special.softmax(logits, axis=-1)
    stds = np.sqrt(np.log1p(np.exp(raw)) + MIN_VARIANCE)
    return np.stack(
        [
            sum(w * stats.norm.pdf(row, m, s) for w, m, s in zip(weights[b], means[b], stds[b]))
            for b, row in enumerate(z)
        ]
    )


def both_cross_entropies(outputs, z):
    distribution = gaussian_mixture.mixture(tf.constant(outputs), MIN_VARIANCE)
    yield gaussian_mixture.sampled_cross_entropy(distribution, tf.constant(z)).numpy()
    twin = gaussian_mixture.mixture_np(outputs, MIN_VARIANCE)
    yield gaussian_mixture.sampled_cross_entropy_np(twin, z)


def test_likelihood_is_the_mixtures_density():
    outputs = make_outputs()
    z = np.random.default_rng(1).normal(scale=3, size=(4, 7))
    expected = -np.log(densities(outputs, z)).mean(1)
    for actual in both_cross_entropies(outputs, z):
        assert actual.shape == (4,)
        np.testing.assert_allclose(actual, expected, rtol=1e-6)


def test_density_integrates_to_one():
    outputs = make_outputs(rows=1)

    def density(z):
        return np.exp(-next(both_cross_entropies(outputs, np.array([[z]]))))[0]

    assert integrate.quad(density, -30, 30, limit=200)[0] == pytest.approx(1, abs=1e-5)


def test_far_samples_have_finite_likelihoods_and_gradients():
    outputs = tf.Variable(make_outputs(rows=1).astype(np.float32))
    with tf.GradientTape() as tape:
        distribution = gaussian_mixture.mixture(outputs, MIN_VARIANCE)
        loss = gaussian_mixture.sampled_cross_entropy(distribution, tf.constant([[1e3, -1e3]]))
    assert np.all(np.isfinite(loss)) and np.all(np.isfinite(tape.gradient(loss, outputs)))
    twin = gaussian_mixture.mixture_np(outputs.numpy(), MIN_VARIANCE)
    actual = gaussian_mixture.sampled_cross_entropy_np(twin, np.array([[1e3, -1e3]]))
    np.testing.assert_allclose(actual, loss, rtol=1e-4)


def test_mean_is_that_of_the_distribution():
    outputs = make_outputs()
    distribution = gaussian_mixture.mixture(tf.constant(outputs), MIN_VARIANCE)
    np.testing.assert_allclose(gaussian_mixture.mean(outputs), distribution.mean(), rtol=1e-6)
    logits, means, _ = np.split(outputs, 3, axis=-1)
    expected = np.sum(special.softmax(logits, axis=-1) * means, axis=-1)
    np.testing.assert_allclose(gaussian_mixture.mean(outputs), expected, rtol=1e-6)


def sampled_both_ways(outputs, count):
    distribution = gaussian_mixture.mixture(tf.constant(outputs), MIN_VARIANCE)
    yield gaussian_mixture.sample(distribution, count, SEED).numpy()
    twin = gaussian_mixture.mixture_np(outputs, MIN_VARIANCE)
    yield gaussian_mixture.sample_np(twin, count, np.random.default_rng(0))


def test_samples_follow_the_distribution():
    """By Kolmogorov and Smirnov, against the distribution function of equation 17."""
    outputs = make_outputs()
    logits, means, raw = np.split(outputs, 3, axis=-1)
    weights = special.softmax(logits, axis=-1)
    stds = np.sqrt(np.log1p(np.exp(raw)) + MIN_VARIANCE)
    for samples in sampled_both_ways(outputs, 4_000):
        assert samples.shape == (4, 4_000)
        for b, row in enumerate(samples):

            def cdf(z):
                return stats.norm.cdf(z[:, None], means[b], stds[b]) @ weights[b]

            assert stats.kstest(row, cdf).pvalue > 1e-3


@pytest.mark.parametrize("jit_compile", [False, True])
def test_the_seed_gives_the_samples(jit_compile):
    outputs = tf.constant(make_outputs(), tf.float32)

    def draw(seed):
        distribution = gaussian_mixture.mixture(outputs, MIN_VARIANCE)
        return gaussian_mixture.sample(distribution, 5, seed)

    draw = tf.function(draw, jit_compile=jit_compile)
    np.testing.assert_array_equal(draw(SEED), draw(SEED))
    assert np.all(draw(SEED).numpy() != draw(SEED + 1).numpy())


def test_no_gradient_flows_through_the_samples():
    outputs, other = (tf.Variable(make_outputs(seed=seed)) for seed in (0, 1))
    with tf.GradientTape() as tape:
        samples = gaussian_mixture.sample(gaussian_mixture.mixture(outputs, MIN_VARIANCE), 3, SEED)
        loss = gaussian_mixture.sampled_cross_entropy(
            gaussian_mixture.mixture(other, MIN_VARIANCE), samples
        )
    to_target, to_prediction = tape.gradient(loss, [outputs, other])
    assert to_target is None and np.abs(to_prediction).max() > 0
