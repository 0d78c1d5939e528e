"""Tests of common.networks.numpy_twins, packing and standardizer."""

import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf

from common.networks import control, numpy_twins, packing
from common.networks.standardizer import RunningMoments, Standardizer

OBSERVATION_SIZE, ACTION_SIZE = 24, 6


def create_variables(policy, critic):
    observation, action = batch(1)
    policy(observation)
    critic(observation, action)


@pytest.fixture(name="networks", params=["layer_norm", "plain", "unit_norm"])
def fixture_networks(request):
    """A policy and a categorical critic whose every variable is far from its initial value."""
    layer_norm, unit_norm = request.param != "plain", request.param == "unit_norm"
    policy = control.ControlPolicy(ACTION_SIZE, (300, 200), layer_norm, unit_norm=unit_norm)
    torso = control.ControlCriticTorso((400, 300), layer_norm)
    critic = control.Critic(torso, control.CategoricalHead(51))
    create_variables(policy, critic)
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


def test_twins_equal_their_modules_and_leave_inputs_and_earlier_outputs_alone(networks):
    policy, critic = networks
    policy_twin, critic_twin = numpy_twins.twin(policy), numpy_twins.twin(critic)
    for num_rows in (1, 64):
        observation, action = batch(num_rows)
        kept = observation.copy(), action.copy()
        twin_action, twin_logits = policy_twin(observation), critic_twin(observation, action)
        policy_twin(observation * 2)
        assert twin_action.dtype == twin_logits.dtype == np.float32
        assert np.abs(twin_action).max() > 0.05
        np.testing.assert_allclose(twin_action, policy(observation), atol=1e-5)
        np.testing.assert_allclose(twin_logits, critic(observation, action), atol=1e-5)
        np.testing.assert_array_equal(observation, kept[0])
        np.testing.assert_array_equal(action, kept[1])


@pytest.mark.parametrize("activation", [tf.nn.elu, tf.tanh])
def test_twin_of_a_scalar_critic(activation):
    policy = control.ControlPolicy(ACTION_SIZE, (30,), True)
    torso = control.ControlCriticTorso((40, 30), True, activation)
    critic = control.Critic(torso, control.ScalarHead())
    create_variables(policy, critic)
    observation, action = batch(5)
    values = numpy_twins.twin(critic)(observation, action)
    assert values.shape == (5,)
    np.testing.assert_allclose(values, critic(observation, action), atol=1e-5)


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
    before = policy_twin(observation)
    with pytest.raises(ValueError, match="other sizes"):
        policy_twin.load(np.zeros(policy_twin.num_parameters + 1, np.float32))
    np.testing.assert_array_equal(policy_twin(observation), before)


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
    assert network.layers[1::2] == [tf.nn.relu] * 2
    for variable in network.trainable_variables:
        variable.assign(tf.random.normal(variable.shape))
    inputs = np.random.default_rng(0).standard_normal((6, 3)).astype(np.float32)
    kept = inputs.copy()
    twin = numpy_twins.twin(network)
    np.testing.assert_allclose(twin(inputs), network(inputs), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(inputs, kept)


def test_pack_and_unpack_keep_order_and_values():
    variables = [
        tf.Variable(np.arange(6, dtype=np.float32).reshape(2, 3)),
        tf.Variable(7.0),
        tf.Variable([8.0, 9.0]),
    ]
    pack = tf.function(lambda: packing.pack(variables))
    flat = pack().numpy()
    np.testing.assert_array_equal(flat, [0, 1, 2, 3, 4, 5, 7, 8, 9])
    copied = packing.to_numpy(variables)
    np.testing.assert_array_equal(copied, flat)
    arrays = packing.unpack(flat, packing.shapes(variables))
    for array, variable in zip(arrays, variables, strict=True):
        np.testing.assert_array_equal(array, variable)
        assert np.shares_memory(array, flat)
    variables[1].assign(0.0)
    np.testing.assert_array_equal(copied, flat)
    np.testing.assert_array_equal(pack(), [0, 1, 2, 3, 4, 5, 0, 8, 9])


def test_loader_reverses_pack_and_copies():
    variables = [tf.Variable(tf.zeros([2, 3])), tf.Variable(0.0), tf.Variable([0.0, 0.0])]
    load = packing.loader(variables)
    flat = np.arange(9, dtype=np.float32)
    load(flat)
    expected = flat.copy()
    np.testing.assert_array_equal(packing.pack(variables), expected)
    flat[:] = -1.0
    np.testing.assert_array_equal(packing.pack(variables), expected)


def test_components_without_variance_keep_their_unit():
    """A constant's deviation may come out as a rounding error, which would magnify another's."""
    standardizer = Standardizer(3)
    standardizer.set(np.array([0.0, 100.3, 100.3]), np.array([0.0, 1.4e-14, 1e-3]))
    np.testing.assert_array_equal(standardizer.deviation, np.array([1, 1, 1e-3], np.float32))
    standardized = standardizer(np.array([[0, 100.3, 100.3]], np.float32))
    np.testing.assert_allclose(standardized, np.zeros((1, 3)), atol=1e-3)


def test_moments_are_saved_but_not_trained():
    standardizer = Standardizer(2)
    assert standardizer.trainable_variables == () and len(standardizer.variables) == 2
    with tf.GradientTape() as tape:
        result = standardizer(tf.ones([1, 2]))
    assert tape.gradient(result, list(standardizer.variables)) == [None, None]


def test_running_moments_are_those_of_all_rows():
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=[n, 3]) * [1, 100, 0] + [5, -3, 2] for n in (1, 7, 40)]
    moments = RunningMoments((3,))
    for i, part in enumerate(parts):
        moments.update(part.astype(np.float32))
        rows = np.concatenate(parts[: i + 1])
        np.testing.assert_allclose(moments.mean, rows.mean(0), rtol=1e-5)
        np.testing.assert_allclose(moments.deviation, rows.std(0), rtol=1e-5, atol=1e-9)
    assert float(moments.count) == 48
