"""Tests of common.values.multistep."""

import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from common.values import multistep

CASES = json.loads((Path(__file__).parents[1] / "golden" / "q_lambda.json").read_text())


def case_arguments(case):
    """The case's inputs, [T, B]."""
    names = ("rewards", "discounts", "values", "lambda")
    return [np.array(case[name], np.float32).T for name in names]


def twin(reward, discount, value, lambda_):
    """The recursion in NumPy, from the end."""
    following, found = value[-1], []
    for r, g, v, share in zip(reward[::-1], discount[::-1], value[::-1], lambda_[::-1]):
        following = r + g * ((1 - share) * v + share * following)
        found.insert(0, following)
    return np.stack(found)


def random_arguments(dtype, t=12, b=5):
    generator = np.random.default_rng(0)
    discount = 0.99 * (generator.random((t, b)) > 0.2)
    arrays = (*generator.normal(size=(2, t, b)), discount, generator.random((t, b)))
    reward, value, discount, share = (array.astype(dtype) for array in arrays)
    return reward, discount, value, share


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["source"][:30])
def test_equals_published_vectors(case, jit_compile):
    function = tf.function(multistep.q_lambda_returns, jit_compile=jit_compile)
    expected = np.array(case["expected"]).T
    np.testing.assert_allclose(function(*case_arguments(case)), expected, rtol=1e-5)


def test_equals_the_recursion_in_float64():
    arguments = random_arguments(np.float64)
    actual = multistep.q_lambda_returns(*map(tf.constant, arguments))
    assert actual.dtype == tf.float64
    np.testing.assert_allclose(actual, twin(*arguments), rtol=1e-12)


def test_lambda_0_is_one_step_and_lambda_1_sums_all_rewards():
    reward, discount, value, _ = random_arguments(np.float64)
    one_step = multistep.q_lambda_returns(*map(tf.constant, (reward, discount, value)), 0.0)
    np.testing.assert_allclose(one_step, reward + discount * value)
    whole = multistep.q_lambda_returns(
        tf.ones([4, 1]), tf.fill([4, 1], 0.5), tf.fill([4, 1], 8.0), 1.0
    )
    np.testing.assert_allclose(whole[0], [1 + 0.5 + 0.25 + 0.125 + 8 / 16])


def test_the_last_lambda_is_not_used():
    reward, discount, value, share = random_arguments(np.float32)
    other = share.copy()
    other[-1] = 0.123
    np.testing.assert_array_equal(
        multistep.q_lambda_returns(reward, discount, value, share),
        multistep.q_lambda_returns(reward, discount, value, other),
    )


def test_a_long_sequence_compiles():
    """As of 1,000 steps: nothing is unrolled in Python."""
    function = tf.function(multistep.q_lambda_returns, jit_compile=True)
    arguments = random_arguments(np.float32, t=1000, b=2)
    np.testing.assert_allclose(function(*arguments), twin(*arguments), rtol=1e-4, atol=1e-5)
