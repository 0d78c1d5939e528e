"""Tests of common.values.policy_gradients."""

import numpy as np
import pytest
import tensorflow as tf

from common.values import policy_gradients


def test_gradient_of_the_action_is_minus_dqda_to_the_last_bit():
    action = tf.Variable([[0.9, -0.8], [0.1, 0.0]])
    dqda = tf.constant([[1e-7, -3.0], [0.5, 2e-8]])
    with tf.GradientTape() as tape:
        loss = policy_gradients.deterministic_policy_gradient_loss(action, dqda, None)
    assert loss.shape == (2,)
    np.testing.assert_array_equal(tape.gradient(loss, action), -dqda)


def test_clips_each_element():
    action = tf.Variable([[0.9, -0.8, 0.0]])
    dqda = tf.constant([[3.0, -3.0, 0.5]])
    with tf.GradientTape() as tape:
        loss = policy_gradients.deterministic_policy_gradient_loss(action, dqda, 1.0)
    np.testing.assert_array_equal(tape.gradient(loss, action), [[-1.0, 1.0, -0.5]])


@pytest.mark.parametrize("dqda_clip", [0.0, -1.0])
def test_refuses_a_clip_that_is_not_positive(dqda_clip):
    with pytest.raises(ValueError, match="dqda_clip"):
        policy_gradients.deterministic_policy_gradient_loss(
            tf.zeros([1, 1]), tf.zeros([1, 1]), dqda_clip
        )


def test_ascends_q_through_the_policy_and_leaves_the_critic_alone():
    rng = np.random.default_rng(0)
    observation = rng.normal(size=(6, 3))
    policy_w = tf.Variable(rng.normal(size=(3, 2)))
    critic_w = tf.Variable(rng.normal(size=(2, 1)))

    def q(w, action):
        return tf.squeeze(tf.tanh(action) @ w + tf.square(action) @ tf.square(w), axis=-1)

    def policy(w):
        return tf.tanh(observation @ w)

    with tf.GradientTape(persistent=True) as tape:
        action = policy(policy_w)
        value = q(critic_w, action)
        dqda = tape.gradient(value, action)
        loss = policy_gradients.deterministic_policy_gradient_loss(action, dqda, None)
    assert tape.gradient(loss, critic_w) is None
    gradient = tape.gradient(loss, policy_w).numpy()

    step = 1e-6
    for index in np.ndindex(3, 2):
        shift = np.zeros((3, 2))
        shift[index] = step
        above = q(critic_w, policy(policy_w + shift)).numpy().sum()
        below = q(critic_w, policy(policy_w - shift)).numpy().sum()
        np.testing.assert_allclose(gradient[index], -(above - below) / (2 * step), atol=1e-7)


@pytest.mark.parametrize("dqda_clip, dqda", [(None, [[2.0, -0.3]]), (1.0, [[1.0, -0.3]])])
def test_dpg_loss_raises_the_value_of_a_critic_that_is_held_fixed(dqda_clip, dqda):
    action, w = tf.Variable([[0.5, 1.0]]), tf.Variable([2.0, -0.3])

    def value(a):
        return tf.linalg.matvec(a, w)

    with tf.GradientTape(persistent=True) as tape:
        loss, q, _ = policy_gradients.dpg_loss(action, value, dqda_clip)
    np.testing.assert_allclose(q, 0.7)
    np.testing.assert_allclose(tape.gradient(loss, action), -np.array(dqda))
    assert tape.gradient(loss, w) is None


def test_dpg_loss_is_a_mean_over_the_batch():
    action = tf.Variable(np.ones([4, 2]))
    with tf.GradientTape() as tape:
        loss, q, _ = policy_gradients.dpg_loss(action, lambda a: tf.reduce_sum(a, axis=1))
    assert float(q) == 2
    np.testing.assert_allclose(tape.gradient(loss, action), np.full([4, 2], -0.25))


def test_no_gradient_flows_into_dqda():
    action, dqda = tf.Variable([[0.5]]), tf.Variable([[2.0]])
    with tf.GradientTape() as tape:
        loss = policy_gradients.deterministic_policy_gradient_loss(action, dqda, 1.0)
    assert tape.gradient(loss, dqda) is None


def test_the_share_of_saturated_elements():
    action = tf.constant([[1.0, -0.995], [0.9, 0.5], [-1.0, 0.0]])
    *_, saturated = policy_gradients.dpg_loss(action, lambda a: tf.reduce_sum(a, axis=1))
    assert float(saturated) == pytest.approx(0.5)
