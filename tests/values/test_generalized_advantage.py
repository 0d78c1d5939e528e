"""Tests of common.values.multistep."""

import numpy as np
import pytest

from common.values import multistep

DISCOUNT = 0.9


def fragment(steps, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=steps), rng.normal(size=steps + 1)


@pytest.mark.parametrize("lambda_", [0.0, 0.5, 0.97, 1.0])
@pytest.mark.parametrize("steps", [1, 2, 7])
def test_the_estimate_is_the_sum_of_discounted_errors(steps, lambda_):
    rewards, values = fragment(steps)
    errors = rewards + DISCOUNT * values[1:] - values[:-1]
    expected = [
        sum((DISCOUNT * lambda_) ** (k - t) * errors[k] for k in range(t, steps))
        for t in range(steps)
    ]
    given = multistep.generalized_advantage(rewards, values, DISCOUNT, lambda_)
    np.testing.assert_allclose(given, expected, rtol=1e-12, atol=1e-12)


def test_with_lambda_1_it_is_the_discounted_return_less_the_value():
    rewards, values = fragment(5)
    powers = DISCOUNT ** np.arange(6)
    given = multistep.generalized_advantage(rewards, values, DISCOUNT, 1.0)
    expected = powers[:5] @ rewards + powers[5] * values[5] - values[0]
    np.testing.assert_allclose(given[0], expected, rtol=1e-12)


def test_single_precision_stays():
    rewards, values = (array.astype(np.float32) for array in fragment(3))
    assert multistep.generalized_advantage(rewards, values, DISCOUNT, 0.97).dtype == np.float32


def test_no_reward_crosses_a_true_end():
    rewards, values = fragment(6)
    discounts = np.array([0.9, 0.9, 0.0, 0.9, 0.9, 0.9])
    given = multistep.generalized_advantage(rewards, values, discounts, 0.97)
    values[3] = 0
    first = multistep.generalized_advantage(rewards[:3], values[:4], DISCOUNT, 0.97)
    np.testing.assert_allclose(given[:3], first, rtol=1e-12)


def test_columns_are_estimated_apart():
    both = [np.stack(pair, 1) for pair in zip(fragment(5, 1), fragment(5, 2))]
    given = multistep.generalized_advantage(*both, DISCOUNT, 0.97)
    for i in range(2):
        alone = multistep.generalized_advantage(*fragment(5, i + 1), DISCOUNT, 0.97)
        np.testing.assert_allclose(given[:, i], alone, rtol=1e-12)
