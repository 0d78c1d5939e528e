"""Tests of common.networks.numpy_twins."""

import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf

from common.networks import control, numpy_twins, packing

OBSERVATION_SIZE, ACTION_SIZE = 24, 6


@pytest.fixture(name="networks", params=[True, False], ids=["layer_norm", "plain"])
def fixture_networks(request):
    """A policy and a categorical critic whose every variable is far from its initial value."""
    policy = control.ControlPolicy(ACTION_SIZE, (300, 200), request.param)
    torso = control.ControlCriticTorso((400, 300), request.param)
    critic = control.Critic(torso, control.CategoricalHead(51))
    packing.create_variables(policy, critic, OBSERVATION_SIZE, ACTION_SIZE)
    perturb(policy, seed=1)
    perturb(critic, seed=2)
    return policy, critic


def perturb(module, seed):
    rng = np.random.default_rng(seed)
    for variable in module.trainable_variables:
        variable.assign_add(rng.normal(size=variable.shape).astype(np.float32) * 0.05)


def batch(num_rows):
    rng = np.random.default_rng(num_rows)
    observation = rng.normal(size=(num_rows, OBSERVATION_SIZE)) * 2
    action = rng.uniform(-1, 1, size=(num_rows, ACTION_SIZE))
    return observation.astype(np.float32), action.astype(np.float32)


@pytest.mark.parametrize("num_rows", [1, 2, 64])
def test_twins_equal_their_modules(networks, num_rows):
    policy, critic = networks
    observation, action = batch(num_rows)
    twin_action = numpy_twins.twin(policy)(observation)
    twin_logits = numpy_twins.twin(critic)(observation, action)
    assert twin_action.dtype == twin_logits.dtype == np.float32
    assert np.abs(twin_action).max() > 0.1
    np.testing.assert_allclose(twin_action, policy(observation), atol=1e-5)
    np.testing.assert_allclose(twin_logits, critic(observation, action), atol=1e-5)


@pytest.mark.parametrize("activation", [tf.nn.elu, tf.tanh])
def test_twin_of_a_scalar_critic(activation):
    policy = control.ControlPolicy(ACTION_SIZE, (30,), True)
    torso = control.ControlCriticTorso((40, 30), True, activation)
    critic = control.Critic(torso, control.ScalarHead())
    packing.create_variables(policy, critic, OBSERVATION_SIZE, ACTION_SIZE)
    observation, action = batch(5)
    values = numpy_twins.twin(critic)(observation, action)
    assert values.shape == (5,)
    np.testing.assert_allclose(values, critic(observation, action), atol=1e-5)


def test_twins_leave_their_inputs_and_earlier_outputs_alone(networks):
    policy, critic = networks
    observation, action = batch(4)
    kept = observation.copy(), action.copy()
    twin = numpy_twins.twin(policy)
    first = twin(observation)
    first_values = first.copy()
    twin(observation * 2)
    numpy_twins.twin(critic)(observation, action)
    np.testing.assert_array_equal(first, first_values)
    np.testing.assert_array_equal(observation, kept[0])
    np.testing.assert_array_equal(action, kept[1])


def test_load_swaps_in_slices_of_a_packed_vector(networks):
    policy, critic = networks
    policy_twin, critic_twin = numpy_twins.twin(policy), numpy_twins.twin(critic)
    perturb(policy, seed=3)
    perturb(critic, seed=4)
    observation, action = batch(8)
    assert np.abs(policy_twin(observation) - policy(observation)).max() > 1e-3

    variables = (*policy.trainable_variables, *critic.trainable_variables)
    flat = packing.to_numpy(variables)
    assert flat.size == policy_twin.num_parameters + critic_twin.num_parameters
    policy_twin.load(flat[: policy_twin.num_parameters])
    critic_twin.load(flat[policy_twin.num_parameters :])
    flat[:] = 0.0  # the twins hold copies
    np.testing.assert_allclose(policy_twin(observation), policy(observation), atol=1e-5)
    np.testing.assert_allclose(
        critic_twin(observation, action), critic(observation, action), atol=1e-5
    )


def test_load_of_another_length_is_refused_and_changes_nothing(networks):
    policy, _ = networks
    twin = numpy_twins.twin(policy)
    observation, _ = batch(2)
    before = twin(observation)
    with pytest.raises(ValueError, match="other sizes"):
        twin.load(np.zeros(twin.num_parameters + 1, np.float32))
    np.testing.assert_array_equal(twin(observation), before)


def test_other_modules_have_no_twin():
    with pytest.raises(TypeError, match="Linear"):
        numpy_twins.twin(snt.Linear(3))
    policy = control.ControlPolicy(1, (3,), False)
    policy.layers[1] = tf.nn.gelu
    policy(tf.zeros([1, 2]))
    with pytest.raises(TypeError, match="gelu"):
        numpy_twins.twin(policy)


def test_twin_of_relu_layers_with_an_output_without_bias():
    network = control.ReluMLP(3, [4, 5], snt.Linear(2, with_bias=False))
    for variable in network.trainable_variables:
        variable.assign(tf.random.normal(variable.shape))
    inputs = np.random.default_rng(0).standard_normal((6, 3)).astype(np.float32)
    kept = inputs.copy()
    twin = numpy_twins.twin(network)
    np.testing.assert_allclose(twin(inputs), network(inputs), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(inputs, kept)
