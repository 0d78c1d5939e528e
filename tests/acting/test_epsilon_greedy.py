"""Tests of common.acting.policy."""

import numpy as np
import pytest

from common.acting import policy


def test_ladder_of_eight():
    """Ape-X section 4.1: epsilon 0.4, alpha 7."""
    expected = [0.4, 0.16, 0.064, 0.0256, 0.01024, 0.004096, 0.001638, 0.000655]
    np.testing.assert_allclose(policy.epsilon_ladder(0.4, 7.0, 8), expected, atol=5e-7)


def test_ladder_of_the_papers_360():
    ladder = policy.epsilon_ladder(0.4, 7.0, 360)
    assert ladder[0] == 0.4 and np.all(np.diff(ladder) < 0)
    np.testing.assert_allclose(ladder[-1], 6.5536e-4)


def test_one_actor_has_the_largest_epsilon():
    assert policy.epsilon_ladder(0.4, 7.0, 1).tolist() == [0.4]


def test_a_ladder_of_nobody_is_refused():
    with pytest.raises(ValueError, match="num_actors must be at least 1, got 0"):
        policy.epsilon_ladder(0.4, 7.0, 0)


def test_epsilon_of_zero_is_greedy():
    q = np.random.default_rng(0).normal(size=(50, 6)).astype(np.float32)
    actions = policy.EpsilonGreedy([0.0] * 50, seed=0)(q)
    assert actions.dtype == np.int32
    np.testing.assert_array_equal(actions, q.argmax(axis=1))


def test_each_row_explores_by_its_own_epsilon():
    """A random action may be the greedy one, so epsilon 1 takes it once in four times."""
    q = np.tile(np.array([0, 1, 0, 0], np.float32), (3, 1))
    explore = policy.EpsilonGreedy([1.0, 0.4, 0.0], seed=1)
    actions = np.stack([explore(q) for _ in range(4_000)])
    np.testing.assert_allclose((actions != 1).mean(axis=0), [0.75, 0.3, 0.0], atol=0.03)
    shares = np.bincount(actions[:, 0], minlength=4) / 4_000
    np.testing.assert_allclose(shares, 0.25, atol=0.03)


def test_the_seed_gives_the_actions():
    q = np.zeros((20, 18), np.float32)
    first, again, other = (policy.EpsilonGreedy([1.0] * 20, seed)(q) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert np.any(first != other)


@pytest.mark.parametrize("epsilons", [[0.1, 1.1], [-0.1], [np.nan]])
def test_no_probability_is_refused(epsilons):
    with pytest.raises(ValueError, match=r"epsilons must be in \[0, 1\]"):
        policy.EpsilonGreedy(epsilons, seed=0)
