"""Tests of ReF-ER's networks: their outputs, and what the width of V-RACER's policy means."""

import numpy as np
import pytest
import tensorflow as tf

from reproductions.refer import networks
from reproductions.refer.config import ReferConfig

D, A, B = 11, 17, 5


def test_the_initial_variance_is_a_variance_of_all_states():
    network = networks.VracerNetwork(ReferConfig(hidden_size=4), 3, 2)
    np.testing.assert_allclose(network.variance, [0.2, 0.2], rtol=1e-6)
    assert network.raw_variance.numpy() == pytest.approx(-1.5078, abs=1e-4)


def observations():
    return tf.random.stateless_normal([B, D], [1, 2])


def test_vracers_outputs_are_a_value_and_means_near_zero():
    network = networks.VracerNetwork(ReferConfig(), D, A)
    value, mean, coefficients = network(observations())
    assert coefficients.shape == [B, 0]
    assert value.shape == [B] and mean.shape == [B, A]
    assert np.abs(mean).max() < 1.2  # |h| < 1, so at most 0.1 sqrt(128)
    outputs = network.mlp(observations())
    np.testing.assert_array_equal(tf.concat([value[:, tf.newaxis], mean], -1), outputs)
    assert len(network.parameters) == len(network.trainable_variables) == 7


@pytest.mark.parametrize("kind, count", [("quadratic", 153), ("gaussian", 35)])
def test_an_advantage_of_17_actions_has_outputs_beside_value_and_mean(kind, count):
    network = networks.VracerNetwork(ReferConfig(advantage=kind), D, A)
    value, mean, coefficients = network(observations())
    assert coefficients.shape == [B, count] and network.mlp(observations()).shape[-1] == 18 + count
    joined = tf.concat([value[:, tf.newaxis], mean, coefficients], -1)
    np.testing.assert_array_equal(joined, network.mlp(observations()))


def test_nafs_network_has_153_numbers_for_a_matrix_of_17_actions():
    network = networks.NafNetwork(ReferConfig(), D, A)
    value, mean, lower = network(observations())
    assert network.mlp(observations()).shape == [B, 1 + 17 + 153]
    assert value.shape == [B] and mean.shape == [B, A] and lower.shape == [B, A, A]
    np.testing.assert_array_equal(network.value(observations()), value)
    np.testing.assert_array_equal(lower, np.tril(lower))
    assert np.all(tf.linalg.diag_part(lower).numpy() > 0)


@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_ddpgs_means_are_within_1_and_its_critic_takes_any_action(scale):
    policy, critic, _ = networks.make_ddpg_networks(ReferConfig(), D, A)
    for variable in policy.trainable_variables:
        variable.assign(scale * variable)
    mean = policy(observations())
    assert mean.shape == [B, A] and np.abs(mean).max() <= 1
    assert critic(observations(), 3 * mean).shape == [B]
    joined = critic.mlp(tf.concat([observations(), mean], axis=-1))
    np.testing.assert_array_equal(critic(observations(), mean), joined[:, 0])
