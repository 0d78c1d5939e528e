"""Tests of common.networks.control and common.networks.control."""

import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf

from common.networks import control, packing
from common.values import categorical, policy_gradients


def networks(observation_size, action_size, layer_norm, head=None):
    policy = control.ControlPolicy(action_size, (300, 200), layer_norm)
    torso = control.ControlCriticTorso((400, 300), layer_norm)
    critic = control.Critic(torso, head or control.CategoricalHead(51))
    packing.create_variables(policy, critic, observation_size, action_size)
    return policy, critic


def count(module):
    return sum(np.prod(variable.shape) for variable in module.trainable_variables)


@pytest.mark.parametrize(
    "observation_size, action_size, expected",
    [(5, 1, (62_201, 138_451)), (67, 21, (84_821, 171_251))],
    ids=["cartpole", "humanoid"],
)
def test_numbers_of_parameters(observation_size, action_size, expected):
    policy, critic = networks(observation_size, action_size, layer_norm=False)
    assert (count(policy), count(critic)) == expected
    policy, critic = networks(observation_size, action_size, layer_norm=True)
    assert (count(policy) - 600, count(critic) - 800) == expected


def test_layers_are_listed_in_order():
    policy, critic = networks(5, 1, layer_norm=True)
    first, norm, tanh, second, elu, last, final = policy.layers
    assert [layer.output_size for layer in (first, second, last)] == [300, 200, 1]
    assert isinstance(norm, snt.LayerNorm)
    assert (tanh, elu, final) == (tf.tanh, tf.nn.elu, tf.tanh)
    assert [type(layer) for layer in critic.torso.layers] == [type(x) for x in policy.layers[:5]]
    policy, _ = networks(5, 1, layer_norm=False)
    assert not any(isinstance(layer, snt.LayerNorm) for layer in policy.layers)


def test_what_follows_the_first_tanh_can_be_chosen():
    policy = control.ControlPolicy(1, (3, 3, 3), False, tf.tanh)
    assert [layer for layer in policy.layers if not isinstance(layer, snt.Linear)] == [tf.tanh] * 4
    torso = control.ControlCriticTorso((3, 3), False, tf.nn.relu)
    assert torso.layers[1::2] == [tf.tanh, tf.nn.relu]


@pytest.mark.parametrize("layer_norm", [False, True])
def test_policy_is_the_composition_of_its_layers(layer_norm):
    policy, _ = networks(4, 2, layer_norm)
    for variable in policy.trainable_variables:
        variable.assign_add(tf.random.stateless_normal(variable.shape, [1, 2], stddev=0.1))
    x = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    linears = [layer for layer in policy.layers if isinstance(layer, snt.Linear)]
    h = x @ linears[0].w + linears[0].b
    if layer_norm:
        h = (h - np.mean(h, 1, keepdims=True)) / np.sqrt(np.var(h, 1, keepdims=True) + 1e-5)
        h = h * policy.layers[1].scale + policy.layers[1].offset
    h = np.tanh(h) @ linears[1].w + linears[1].b
    h = np.where(h > 0, h, np.expm1(h)) @ linears[2].w + linears[2].b
    np.testing.assert_allclose(policy(x), np.tanh(h), atol=1e-5)


@pytest.mark.parametrize("layer_norm", [False, True])
def test_first_actions_are_near_zero_and_not_equal(layer_norm):
    tf.random.set_seed(0)
    policy, _ = networks(67, 21, layer_norm)
    observation = np.random.default_rng(0).normal(size=(64, 67)).astype(np.float32)
    action = policy(observation).numpy()
    assert action.shape == (64, 21) and action.dtype == np.float32
    assert np.abs(action).max() < 0.1
    assert action.std(axis=0).min() > 0.0


def test_hidden_weights_are_uniform_by_fan_out():
    tf.random.set_seed(0)
    policy, _ = networks(67, 21, layer_norm=True)
    bound = np.sqrt(3 * 0.333 / 200)
    w = policy.layers[3].w.numpy()
    assert np.abs(w).max() <= bound
    np.testing.assert_allclose(w.std(), bound / np.sqrt(3), rtol=0.02)


def test_heads_shapes():
    observation, action = tf.zeros([7, 5]), tf.zeros([7, 1])
    _, critic = networks(5, 1, layer_norm=True)
    assert critic(observation, action).shape == (7, 51)
    _, critic = networks(5, 1, layer_norm=True, head=control.ScalarHead())
    assert critic(observation, action).shape == (7,)


def test_critic_sees_the_action():
    _, critic = networks(5, 1, layer_norm=True)
    observation = tf.zeros([1, 5])
    difference = critic(observation, tf.ones([1, 1])) - critic(observation, -tf.ones([1, 1]))
    assert np.abs(difference).max() > 1e-3


def test_networks_without_hidden_layers_are_refused():
    with pytest.raises(ValueError, match="hidden_sizes"):
        control.ControlPolicy(1, (), True)


def test_jit_compiled_gradients_equal_eager():
    tf.random.set_seed(0)
    policy, critic = networks(5, 1, layer_norm=True)
    rng = np.random.default_rng(0)
    observation = tf.constant(rng.normal(size=(8, 5)), tf.float32)
    behaviour = tf.constant(rng.uniform(-1, 1, size=(8, 1)), tf.float32)
    target = tf.constant(rng.dirichlet(np.ones(51), 8), tf.float32)
    atoms = categorical.support(-150.0, 150.0, 51)

    def gradients():
        with tf.GradientTape(persistent=True) as tape:
            action = policy(observation)
            value = categorical.mean(critic(observation, action), atoms)
            dqda = tape.gradient(value, action)
            policy_loss = policy_gradients.deterministic_policy_gradient_loss(action, dqda, None)
            critic_loss = categorical.cross_entropy(target, critic(observation, behaviour))
        return (
            *tape.gradient(policy_loss, policy.trainable_variables),
            *tape.gradient(critic_loss, critic.trainable_variables),
        )

    compiled = tf.function(gradients, jit_compile=True)()
    for actual, expected in zip(compiled, gradients()):
        np.testing.assert_allclose(actual, expected, rtol=1e-3, atol=1e-5)
