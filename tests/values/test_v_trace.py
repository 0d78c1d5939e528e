"""Tests of common.values.multistep."""

import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from common.values.multistep import v_trace

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "v_trace.json").read_text())


def twin(log_rho, discount, reward, value, bootstrap, rho_bar, pg_rho_bar):
    """The sum of products of IMPALA's eq 1, without a recursion."""
    length, batch = value.shape
    rho = np.exp(log_rho)
    c = np.minimum(1, rho)
    after = np.concatenate([value[1:], bootstrap[None]])
    error = np.minimum(rho_bar, rho) * (reward + discount * after - value)
    v = value.copy()
    for s in range(length):
        for t in range(s, length):
            v[s] += np.prod(discount[s:t] * c[s:t], axis=0) * error[t]
    after = np.concatenate([v[1:], bootstrap[None]])
    return v, np.minimum(pg_rho_bar, rho) * (reward + discount * after - value)


def random_arguments(t=9, b=4):
    generator = np.random.default_rng(0)
    log_rho, reward, value = generator.normal(size=(3, t, b))
    discount = 0.9 * (generator.random((t, b)) > 0.2)
    return log_rho, discount, reward, value, generator.normal(size=b)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_equals_published_errors(jit_compile):
    case = {name: np.array(part) for name, part in GOLDEN.items() if name != "source"}

    def log_prob(logits):
        log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        return np.take_along_axis(log_p, case["actions"][..., None], -1)[..., 0]

    log_rho = log_prob(case["target_logits"]) - log_prob(case["behaviour_logits"])
    rows = (log_rho, case["discounts"], case["rewards"], case["values"])
    arguments = [tf.constant(row.T, tf.float32) for row in rows]
    bootstrap = tf.constant(case["bootstrap"], tf.float32)
    v, _ = tf.function(v_trace, jit_compile=jit_compile)(*arguments, bootstrap)
    error = np.transpose(v) - case["values"]
    np.testing.assert_allclose(error, case["expected_errors"], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("bounds", [(1.0, 1.0), (0.5, 2.0), (3.0, 0.7)])
def test_equals_the_sums_of_products(bounds):
    arguments = random_arguments()
    found = v_trace(*map(tf.constant, arguments), *bounds)
    for actual, expected in zip(found, twin(*arguments, *bounds), strict=True):
        assert actual.dtype == tf.float64
        np.testing.assert_allclose(actual, expected, rtol=1e-12)


def test_on_policy_it_is_the_n_step_return():
    _, discount, reward, value, bootstrap = random_arguments()
    v, advantage = v_trace(*map(tf.constant, (0 * reward, discount, reward, value, bootstrap)))
    following, returns = bootstrap, []
    for r, g in zip(reward[::-1], discount[::-1]):
        following = r + g * following
        returns.insert(0, following)
    np.testing.assert_allclose(v, returns, rtol=1e-12)
    np.testing.assert_allclose(advantage, returns - value, rtol=1e-9)


def test_no_gradient_flows_into_any_argument():
    arguments = [tf.Variable(array) for array in random_arguments()]
    with tf.GradientTape() as tape:
        v, advantage = v_trace(*(1.0 * one for one in arguments))
        total = tf.reduce_sum(v) + tf.reduce_sum(advantage)
    assert tape.gradient(total, arguments) == [None] * 5
