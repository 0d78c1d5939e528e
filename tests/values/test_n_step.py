"""Tests of common.values.n_step."""

import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from common.values import n_step

CASES = json.loads((Path(__file__).parents[1] / "golden" / "n_step.json").read_text())


def time_major(case):
    """The case's inputs and expected returns, [T, B]."""
    names = ("rewards", "discounts", "bootstrap_values", "expected")
    return [np.array(case[name], np.float32).T for name in names]


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["source"])
def test_equals_published_vectors(case, jit_compile):
    *arguments, expected = time_major(case)
    function = tf.function(n_step.n_step_returns, jit_compile=jit_compile)
    np.testing.assert_allclose(function(*arguments, n=case["n"]), expected, rtol=1e-5)


def test_one_step_is_reward_plus_discounted_value():
    rewards, discounts, values, _ = time_major(CASES[0])
    actual = n_step.n_step_returns(rewards, discounts, values, 1)
    assert actual.dtype == tf.float32
    np.testing.assert_allclose(actual, rewards + discounts * values)


def test_nothing_passes_a_discount_of_zero():
    rewards, discounts, values, _ = time_major(CASES[0])
    discounts[2] = 0.0
    before = n_step.n_step_returns(rewards, discounts, values, 3)[:3].numpy()
    rewards[3:] += 100.0
    values[2:] += 100.0
    after = n_step.n_step_returns(rewards, discounts, values, 3)[:3].numpy()
    np.testing.assert_array_equal(before, after)


def test_refuses_no_steps():
    with pytest.raises(ValueError, match="n must be at least 1"):
        n_step.n_step_returns(tf.zeros([2, 1]), tf.zeros([2, 1]), tf.zeros([2, 1]), 0)
