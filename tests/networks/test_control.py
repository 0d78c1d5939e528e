"""Tests of common.networks.control."""

import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf

from common.networks import control
from common.networks.control import SoftsignMLP


def networks(observation_size, action_size, layer_norm, head=None):
    policy = control.ControlPolicy(action_size, (300, 200), layer_norm)
    torso = control.ControlCriticTorso((400, 300), layer_norm)
    critic = control.Critic(torso, head or control.CategoricalHead(51))
    policy(tf.zeros([1, observation_size]))
    critic(tf.zeros([1, observation_size]), tf.zeros([1, action_size]))
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


def test_unit_norm_keeps_the_directions_and_zero():
    features = np.array([[3.0, -4.0], [1e-3, 0.0], [0.0, 0.0]], np.float32)
    expected = [[0.6, -0.8], [1.0, 0.0], [0.0, 0.0]]
    np.testing.assert_allclose(control.scaled_to_unit_norm(features), expected, rtol=1e-6)
    policy = control.ControlPolicy(1, (3, 3), True, unit_norm=True)
    policy(tf.zeros([1, 2]))
    features = np.ones([4, 2], np.float32)
    for layer in policy.layers[:-2]:
        features = layer(features)
    np.testing.assert_allclose(np.linalg.norm(features, axis=1), 1, rtol=1e-6)


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


D, HIDDEN, OUT = 40, (300, 200), 50


def linears(network):
    return [layer for layer in network.layers if hasattr(layer, "w")]


def test_hidden_parameters_begin_uniformly_within_glorots_bound():
    tf.random.set_seed(0)
    network = SoftsignMLP(D, HIDDEN, OUT)
    assert network.layers[1::2] == [tf.nn.softsign] * 2
    *hidden, output = linears(network)
    for layer, inputs, units in zip(hidden, (D, 300), HIDDEN):
        bound = np.sqrt(6 / (inputs + units))
        for values in (layer.w.numpy(), layer.b.numpy()):
            assert 0.95 * bound < np.abs(values).max() <= bound
            assert values.std() == pytest.approx(bound / np.sqrt(3), rel=0.1)
    bound = 0.1 / np.sqrt(HIDDEN[-1])
    assert 0.99 * bound < np.abs(output.w).max() <= bound
    assert output.w.numpy().std() == pytest.approx(bound / np.sqrt(3), rel=0.05)
    np.testing.assert_array_equal(output.b, np.zeros(OUT))
