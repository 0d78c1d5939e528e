"""Tests of common.values.value_learning."""

import numpy as np
import pytest
import tensorflow as tf

from common.values import value_learning


@pytest.mark.parametrize("jit_compile", [False, True])
def test_published_vectors(jit_compile):
    """rlax `value_learning_test.py` and trfl `action_value_ops_test.py`, double Q-learning."""
    q_tm1 = tf.constant([[1.0, 1, 0], [1, 2, 0]])
    function = tf.function(value_learning.double_q_target, jit_compile=jit_compile)
    target = function(
        tf.constant([1.0, 1.0]),
        tf.constant([0.0, 1.0]),
        q_value=tf.constant([[99.0, 1, 98], [91, 2, 66]]),
        q_selector=tf.constant([[2.0, 10, 1], [11, 20, 1]]),
    )
    np.testing.assert_allclose(target, [1, 3])
    errors = target - value_learning.action_value(q_tm1, tf.constant([0, 1]))
    np.testing.assert_allclose(errors, [0, 1])


def test_selects_by_one_network_and_values_by_the_other():
    q_value, q_selector = tf.constant([[1.0, 5, 9]]), tf.constant([[0.0, 2, 1]])
    one, gamma = tf.constant([1.0]), tf.constant([0.5])
    assert value_learning.double_q_target(one, gamma, q_value, q_selector).numpy() == [3.5]
    # The same network twice is Q-learning.
    assert value_learning.double_q_target(one, gamma, q_value, q_value).numpy() == [5.5]


def test_a_discount_of_zero_leaves_the_reward():
    q = tf.constant([[1e30, -1e30]])
    zero = tf.constant([0.0])
    assert value_learning.double_q_target(tf.constant([0.25]), zero, q, q).numpy() == [0.25]


def test_no_gradient_flows_into_the_target():
    q_value, q_selector = tf.constant([[1.0, 5]]), tf.constant([[0.0, 2]])
    reward = tf.constant([1.0])
    with tf.GradientTape() as tape:
        tape.watch([q_value, q_selector, reward])
        target = value_learning.double_q_target(reward, reward, q_value, q_selector)
    assert tape.gradient(target, [q_value, q_selector, reward]) == [None, None, None]


def test_the_gradient_goes_to_the_action_taken():
    q = tf.constant([[1.0, 2, 3], [4, 5, 6]])
    with tf.GradientTape() as tape:
        tape.watch(q)
        taken = value_learning.action_value(q, tf.constant([2, 0]))
    np.testing.assert_array_equal(taken, [3, 4])
    np.testing.assert_array_equal(tape.gradient(taken, q), [[0, 0, 1], [1, 0, 0]])
