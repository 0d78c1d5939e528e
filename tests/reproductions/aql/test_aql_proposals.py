"""Tests of the proposal distribution and of its samples."""

import math

import numpy as np
import pytest
import scipy.stats
import tensorflow as tf

from reproductions.aql import proposals
from reproductions.aql.actions import ActionSpace
from reproductions.aql.proposals import Proposal

HYBRID = ActionSpace((3, 0, 2))
FEATURES = 4


def make(space, scale=1.0, **arguments):
    """A proposal with parameters of this size, also where they count nothing."""
    proposal = Proposal(FEATURES, space, **arguments)
    generator = np.random.default_rng(3)
    for variable in proposal.parameters:
        variable.assign(scale * generator.standard_normal(variable.shape))
    return proposal


def some_features(rows, seed=5):
    return np.random.default_rng(seed).standard_normal((rows, FEATURES)).astype(np.float32)


def twin64(proposal, features, actions):
    """Log-probability and entropy, sub-action by sub-action, in float64."""
    u, p, b = (v.numpy().astype(np.float64) for v in proposal.parameters)
    log_probs, entropies = [], []
    for h, a in zip(features.astype(np.float64), actions.astype(np.float64)):
        before, log_prob, entropy, start = np.zeros(len(b)), 0.0, 0.0, 0
        for d, k in enumerate(proposal.space.choices):
            block = slice(start, start + max(k, 1))
            out = h @ u[:, block] + b[block]
            if proposal.autoregressive:
                out = out + before @ p[:, block]
            if k:
                probabilities = np.exp(out) / np.exp(out).sum()
                log_prob += np.log(probabilities[int(a[d])])
                entropy -= (probabilities * np.log(probabilities)).sum()
                before[start + int(a[d])] = 1
            else:
                gaussian = scipy.stats.norm(out[0], math.sqrt(proposal.variance))
                log_prob += gaussian.logpdf(a[d])
                entropy += gaussian.entropy()
                before[start] = a[d]
            start = block.stop
        log_probs.append(log_prob)
        entropies.append(entropy)
    return np.array(log_probs), np.array(entropies)


SPACES = [(0, 0), (4,), (1, 3, 3, 0, 0, 2)]


@pytest.mark.parametrize("autoregressive", [True, False])
@pytest.mark.parametrize("choices", SPACES)
def test_log_prob_and_entropy_are_those_of_the_paper(choices, autoregressive):
    space = ActionSpace(choices)
    proposal = make(space, autoregressive=autoregressive, variance=0.3)
    features = some_features(7)
    actions = space.uniform((7,), np.random.default_rng(0))
    found = proposal.log_prob_and_entropy(features, actions)
    expected = twin64(proposal, features, actions)
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=1e-5)


def test_the_density_is_not_that_of_clipped_samples():
    """At a bound it is the Gaussian's own, not the mass beyond (not in the paper)."""
    proposal = Proposal(FEATURES, ActionSpace((0,)))
    proposal.state_weights.assign(tf.zeros_like(proposal.state_weights))
    expected = scipy.stats.norm(0, 0.5).logpdf(1.0)
    log_prob, _ = proposal.log_prob_and_entropy(tf.zeros([1, FEATURES]), tf.constant([[1.0]]))
    np.testing.assert_allclose(log_prob, [expected], rtol=1e-6)


@pytest.mark.parametrize("autoregressive", [True, False])
def test_samples_have_the_enumerated_probabilities(autoregressive):
    space = ActionSpace((3, 2, 4))
    proposal = make(space, scale=0.5, autoregressive=autoregressive)
    features, every = some_features(2), space.all_actions()
    samples = proposals.ProposalTwin(proposal).sample(features, 40_000, np.random.default_rng(1))
    assert samples.shape == (2, 40_000, 3) and samples.dtype == np.float32
    for row in range(2):
        repeated = np.repeat(features[row : row + 1], 24, axis=0)
        log_prob, _ = proposal.log_prob_and_entropy(repeated, every)
        probabilities = np.exp(log_prob.numpy().astype(np.float64))
        np.testing.assert_allclose(probabilities.sum(), 1, rtol=1e-5)
        counts = np.bincount(space.flat_index(samples[row]), minlength=24)
        test = scipy.stats.chisquare(counts, 40_000 * probabilities / probabilities.sum())
        assert test.pvalue > 1e-4


def test_gaussian_samples_follow_their_clipped_predecessors():
    """Their own prefix, clipped to [-1, 1], makes the mean of the next one."""
    proposal = make(ActionSpace((0, 0)), scale=0.3)
    twin, features = proposals.ProposalTwin(proposal), some_features(1)
    samples = twin.sample(features, 50_000, np.random.default_rng(0))[0]
    u, p, b = (v.numpy() for v in proposal.parameters)
    mean = features[0] @ u + b
    first = scipy.stats.norm(mean[0], 0.5)
    np.testing.assert_allclose(np.mean(samples[:, 0] == 1), first.sf(1), atol=0.01)
    np.testing.assert_allclose(np.mean(samples[:, 0] == -1), first.cdf(-1), atol=0.01)
    np.testing.assert_allclose(np.mean(samples[:, 0] < 0.2), first.cdf(0.2), atol=0.01)
    second = scipy.stats.norm(mean[1] + p[0, 1] * samples[:, 0], 0.5)
    np.testing.assert_allclose(np.mean(samples[:, 1] < 0.3), second.cdf(0.3).mean(), atol=0.01)
    upper = samples[:, 0] > first.median()
    expected = second.cdf(0.3)[upper].mean()
    np.testing.assert_allclose(np.mean(samples[upper, 1] < 0.3), expected, atol=0.015)


def test_hybrid_samples_have_the_density_of_the_distribution():
    """The mean of 1 / mu over samples in a box is the box's volume: with all else right."""
    proposal = make(HYBRID, scale=0.3)
    features = some_features(1)
    samples = proposals.ProposalTwin(proposal).sample(features, 20_000, np.random.default_rng(0))[0]
    inside = np.abs(samples[:, 1] + 0.3) < 0.6
    log_prob, _ = proposal.log_prob_and_entropy(np.repeat(features, 20_000, axis=0), samples)
    volume = np.mean(np.where(inside, np.exp(-log_prob), 0))
    np.testing.assert_allclose(volume, 3 * 1.2 * 2, rtol=0.05)


def test_samples_repeat_by_seed_and_a_loaded_twin_is_another():
    proposal, other = make(HYBRID), make(HYBRID, scale=3.0)
    twin, features = proposals.ProposalTwin(proposal), some_features(2)
    first = twin.sample(features, 30, np.random.default_rng(0))
    np.testing.assert_array_equal(first, twin.sample(features, 30, np.random.default_rng(0)))
    flat = np.concatenate([v.numpy().ravel() for v in other.parameters])
    assert flat.size == twin.num_parameters
    twin.load(flat)
    flat[:] = 0  # it was copied
    expected = proposals.ProposalTwin(other).sample(features, 30, np.random.default_rng(0))
    np.testing.assert_array_equal(twin.sample(features, 30, np.random.default_rng(0)), expected)


def test_first_proposals_are_near_uniform():
    proposal = Proposal(256, ActionSpace((5,) * 21))
    features = np.abs(np.random.default_rng(0).standard_normal((3, 256))).astype(np.float32)
    actions = proposal.space.uniform((3,), np.random.default_rng(1))
    _, entropy = proposal.log_prob_and_entropy(features, actions)
    np.testing.assert_allclose(entropy, 21 * math.log(5), rtol=1e-3)
