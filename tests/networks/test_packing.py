"""Tests of common.networks.packing."""

import numpy as np
import pytest
import tensorflow as tf

from common.networks import control, packing


def test_pack_and_unpack_keep_order_and_values():
    variables = [
        tf.Variable(np.arange(6, dtype=np.float32).reshape(2, 3)),
        tf.Variable(7.0),
        tf.Variable([8.0, 9.0]),
    ]
    flat = tf.function(lambda: packing.pack(variables))().numpy()
    np.testing.assert_array_equal(flat, [0, 1, 2, 3, 4, 5, 7, 8, 9])
    copied = packing.to_numpy(variables)
    np.testing.assert_array_equal(copied, flat)
    arrays = packing.unpack(flat, packing.shapes(variables))
    for array, variable in zip(arrays, variables, strict=True):
        np.testing.assert_array_equal(array, variable)
        assert np.shares_memory(array, flat)
    variables[1].assign(0.0)
    np.testing.assert_array_equal(copied, flat)


def test_packed_graph_sees_later_values():
    variable = tf.Variable([1.0])
    pack = tf.function(lambda: packing.pack([variable]))
    pack()
    variable.assign([2.0])
    np.testing.assert_array_equal(pack(), [2.0])


def test_loader_reverses_pack_and_copies():
    variables = [tf.Variable(tf.zeros([2, 3])), tf.Variable(0.0), tf.Variable([0.0, 0.0])]
    load = packing.loader(variables)
    flat = np.arange(9, dtype=np.float32)
    load(flat)
    expected = flat.copy()
    np.testing.assert_array_equal(packing.pack(variables), expected)
    flat[:] = -1.0
    np.testing.assert_array_equal(packing.pack(variables), expected)


def test_refusals():
    for pack in (packing.pack, packing.to_numpy):
        with pytest.raises(ValueError, match="no variables"):
            pack([])
        with pytest.raises(ValueError, match="step.*int64"):
            pack([tf.Variable([1.0]), tf.Variable(1, dtype=tf.int64, name="step")])
    with pytest.raises(ValueError, match="have 6 parameters"):
        packing.unpack(np.zeros(5, np.float32), [(2, 3)])
    with pytest.raises(ValueError, match="have 2 parameters"):
        packing.loader([tf.Variable([1.0, 2.0])])(np.zeros(3, np.float32))


def test_create_variables_makes_all_and_no_more():
    policy = control.ControlPolicy(2, (4, 3), True)
    critic = control.Critic(control.ControlCriticTorso((5, 4), True), control.CategoricalHead(11))
    packing.create_variables(policy, critic, observation_size=7, action_size=2)
    before = packing.shapes((*policy.trainable_variables, *critic.trainable_variables))
    assert (7, 4) in before and (9, 5) in before and (4, 11) in before
    policy(tf.zeros([3, 7]))
    critic(tf.zeros([3, 7]), tf.zeros([3, 2]))
    assert before == packing.shapes((*policy.trainable_variables, *critic.trainable_variables))


def test_create_variables_refuses_a_policy_of_another_action_size():
    policy = control.ControlPolicy(2, (4,), False)
    critic = control.Critic(control.ControlCriticTorso((5,), False), control.ScalarHead())
    with pytest.raises(ValueError, match="action_size is 3"):
        packing.create_variables(policy, critic, observation_size=7, action_size=3)
