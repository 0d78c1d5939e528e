"""Tests of common.values.value_learning."""

import numpy as np
import pytest
import tensorflow as tf

from common.values import value_learning


def test_double_q_equals_published_vectors():
    """rlax `value_learning_test.py` and trfl `action_value_ops_test.py`, double Q-learning.

    One network selects, the other values; the first discount is 0.
    """
    q_tm1 = tf.constant([[1.0, 1, 0], [1, 2, 0]])
    function = tf.function(value_learning.double_q_target, jit_compile=True)
    target = function(
        tf.constant([1.0, 1.0]),
        tf.constant([0.0, 1.0]),
        q_value=tf.constant([[99.0, 1, 98], [91, 2, 66]]),
        q_selector=tf.constant([[2.0, 10, 1], [11, 20, 1]]),
    )
    np.testing.assert_allclose(target, [1, 3])
    errors = target - value_learning.action_value(q_tm1, tf.constant([0, 1]))
    np.testing.assert_allclose(errors, [0, 1])


def test_no_gradient_flows_into_the_target():
    q_value, q_selector = tf.constant([[1.0, 5]]), tf.constant([[0.0, 2]])
    reward = tf.constant([1.0])
    with tf.GradientTape() as tape:
        tape.watch([q_value, q_selector, reward])
        target = value_learning.double_q_target(reward, reward, q_value, q_selector)
    assert tape.gradient(target, [q_value, q_selector, reward]) == [None, None, None]


def normalized(priorities, alpha, beta):
    """Weights of one item each, for raw priorities."""
    p = np.array(priorities) ** alpha
    weights = value_learning.importance_weights(
        tf.constant(p / p.sum(), tf.float32), tf.constant(float(len(p))), beta
    )
    return value_learning.normalize_by_max(weights).numpy()


@pytest.mark.parametrize(
    "alpha, beta, expected", [(0.7, 0.3, [1, 0.793971]), (1.0, 1.0, [1, 1 / 3])]
)
def test_weights_equal_published_vectors(alpha, beta, expected):
    """SEED RL `tests/utils_test.py`."""
    np.testing.assert_allclose(normalized([0.3, 0.9], alpha, beta), expected, rtol=1e-5)


@pytest.mark.parametrize("exponent", [0.0, 0.4, 1.0])
def test_weights_are_not_bounded_before_they_are_normalized(exponent):
    p = np.array([0.001, 0.025, 0.5], np.float32)
    weights = value_learning.importance_weights(tf.constant(p), tf.constant(40.0), exponent)
    np.testing.assert_allclose(weights, (1 / (40 * p.astype(np.float64))) ** exponent, rtol=1e-5)
