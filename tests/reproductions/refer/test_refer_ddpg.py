"""DDPG's losses and its learner's update against their equations in NumPy (float64)."""

from float64_networks import numeric_gradient
import numpy as np
import pytest
from refer_learners import (
    BETA,
    C_MAX,
    NUM_ACTIONS,
    NUM_STEPS,
    RECURRENT,
    SIGMA,
    B,
    Float64,
    chained,
    gradients_of,
    loss_inputs,
    make_batch,
    make_learner,
    make_windows,
    near_of,
    normal,
    numeric_gradients,
    of_state,
    output_gradients,
    standardized,
    stored,
    weight_of,
    weights_of,
)
import tensorflow as tf

from common.networks.recurrent import Window
from common.values import gaussian
from reproductions.refer import ddpg


def test_sigma_is_a_standard_deviation():
    action = tf.ones([1, 1])
    rho = ddpg.importance_weight(action, action, tf.zeros([1, 1]), sigma=0.5)
    variance = tf.constant([[0.25]])
    np.testing.assert_allclose(
        rho, gaussian.importance_weight(action, action, variance, tf.zeros([1, 1]), variance)
    )
    assert float(rho[0]) == pytest.approx(np.exp(0.5 / 0.25), rel=1e-6)


def test_a_small_change_of_many_means_is_far_from_the_policy():
    """17 means that move by 0.1 make most steps far at c_max = 5; one mean makes hardly any."""
    rng = np.random.default_rng(0)

    def far_share(size):
        mu = tf.zeros([4000, size])
        action = tf.constant(0.2 * rng.standard_normal([4000, size]), tf.float32)
        rho = ddpg.importance_weight(action, mu + 0.1, mu, sigma=0.2).numpy()
        return np.mean((rho <= 1 / 5) | (rho >= 5))

    assert far_share(1) < 0.01
    assert far_share(17) > 0.5


@pytest.mark.parametrize("gate", [True, False])
def test_ddpgs_losses_and_gradients(gate):
    batch = loss_inputs()
    mean, mu, action = (batch[name] for name in ("mean", "behaviour_mean", "action"))
    variance = np.full(NUM_ACTIONS, SIGMA**2)
    q, target = normal(NUM_STEPS, seed=2), normal(NUM_STEPS, seed=3)
    dqda = normal(NUM_STEPS, NUM_ACTIONS, seed=4)
    online = tf.constant(mean)
    with tf.GradientTape() as tape:
        tape.watch(online)
        rho = ddpg.importance_weight(action, online, mu, SIGMA)
    assert tape.gradient(rho, online) is None
    expected = weight_of(action, mean, variance, mu, variance)
    np.testing.assert_allclose(rho, expected.clip(np.exp(-7), np.exp(7)), rtol=1e-8)
    near = near_of(rho.numpy(), gate)
    assert gate == (near.sum() < NUM_STEPS) and near.sum() > 1

    value, y = tf.constant(q), tf.constant(target)

    def critic_losses():
        return ddpg.critic_losses(value, y, rho, C_MAX, gate)

    np.testing.assert_allclose(critic_losses(), near * 0.5 * (q - target) ** 2, rtol=1e-9)
    gradients = gradients_of(critic_losses, [value, y, rho])
    np.testing.assert_allclose(gradients[0], near * (q - target), rtol=1e-9)  # without beta
    assert gradients[1:] == [None, None]

    gradient_of_q, behaviour = tf.constant(dqda), tf.constant(mu)

    def policy_loss():
        return ddpg.policy_losses(online, gradient_of_q, behaviour, rho, BETA, C_MAX, gate, SIGMA)

    def losses(mean):
        kl = np.sum((mean - mu) ** 2, axis=-1) / (2 * SIGMA**2)
        return -BETA * near * np.sum(dqda * mean, axis=-1) + (1 - BETA) * kl

    np.testing.assert_allclose(policy_loss(), losses(mean), rtol=1e-8)
    actual, *others = gradients_of(policy_loss, [online, gradient_of_q, behaviour, rho])
    np.testing.assert_allclose(actual, numeric_gradients(losses, [mean])[0], rtol=1e-5, atol=1e-7)
    assert others == [None] * 3
    np.testing.assert_allclose(
        ddpg.divergence(online, behaviour, SIGMA),
        np.sum((mean - mu) ** 2, axis=-1) / (2 * SIGMA**2),
        rtol=1e-9,
    )


@pytest.mark.parametrize("setting", ["ddpg_refer", "ddpg_per"])
def test_ddpgs_gradients(setting):
    config, learner = make_learner(setting)
    batch = make_batch()
    x, networks = standardized(batch.steps.states.observation), Float64(learner)
    action, mu, _ = stored(batch)
    online, slow = learner.networks, learner.target_networks
    next_x = standardized(batch.steps.next_states.observation)
    next_action = networks.run(slow.policy, next_x)
    bootstrap = networks.run(slow.critic.mlp, next_x, next_action)[:, 0]
    target = batch.steps.rewards.numpy() + batch.steps.discounts.numpy() * bootstrap
    beta, c_max, gate = of_state(config, learner)
    mean = networks.run(online.policy, x)
    rho = ddpg.importance_weight(action, tf.constant(mean), mu, 0.2, np.log(1e3))
    weights = weights_of(config, batch)

    def q():
        return (networks.run(online.critic.mlp, x, action.numpy())[:, 0],)

    result = learner.gradients(batch)
    gradients = output_gradients(
        lambda q: weights * ddpg.critic_losses(q, tf.constant(target), rho, c_max, gate), q()
    )
    for gradient, variable in zip(result.gradients.critic, online.critic.trainable_variables):
        array = networks.of(variable)
        expected = chained(q, gradients, array) + 1e-4 * array  # coupled
        np.testing.assert_allclose(gradient, expected, rtol=2e-3, atol=2e-5)

    action_gradients = numeric_gradient(
        lambda: np.sum(networks.run(online.critic.mlp, x, mean)), mean
    )
    gradients = output_gradients(
        lambda m: (
            weights
            * ddpg.policy_losses(m, tf.constant(action_gradients), mu, rho, beta, c_max, gate, 0.2)
        ),
        [mean],
    )
    for gradient, variable in zip(result.gradients.policy, online.policy.trainable_variables):
        expected = chained(
            lambda: (networks.run(online.policy, x),), gradients, networks.of(variable)
        )
        np.testing.assert_allclose(gradient, expected, rtol=2e-3, atol=2e-5)

    refresh = result.outputs
    np.testing.assert_allclose(refresh.rhos, rho, rtol=1e-3)
    kl = ddpg.divergence(tf.constant(mean), mu, 0.2)
    np.testing.assert_allclose(refresh.divergences, kl, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(refresh.errors, (q()[0] - target) ** 2, rtol=1e-3, atol=1e-5)
    for zeros in (refresh.values, refresh.next_values):
        np.testing.assert_array_equal(zeros, np.zeros(B))


def test_a_recurrent_critic_sees_the_actions_before():
    _, learner = make_learner("ddpg_refer", **RECURRENT)
    steps = make_windows().steps
    view = learner.view(steps)
    critic, action = learner.networks.critic, view.states.action
    for observation, before in (
        (view.observation, steps.states.action[:, :-2]),
        (view.next_observation, steps.states.action[:, :-1]),
    ):
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(action)
            value_of = critic.of(observation, before)
            actions = tf.concat([before, action[:, tf.newaxis]], axis=1)
            inputs = tf.concat([observation.inputs, actions], axis=-1)
            values = critic.mlp(Window(inputs, observation.begins))[:, 0], value_of(action)
        np.testing.assert_allclose(*values, rtol=1e-5, atol=1e-6)
        for source in (action, *critic.trainable_variables):
            expected, found = (tape.gradient(value, source) for value in values)
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
        assert np.any(value_of(action) != critic.of(observation, 2 * before)(action))
    np.testing.assert_array_equal(view.actions_before, steps.states.action[:, :-2])
    np.testing.assert_array_equal(view.next_actions_before, steps.states.action[:, :-1])
