"""Tests of Q's network, of its NumPy twin and of the small-space shortcut."""

import numpy as np
import pytest
from small_agents import values_at
import tensorflow as tf

from common.environments.spec import EnvironmentSpec
from common.networks import packing
from reproductions.aql import networks, search
from reproductions.aql.actions import ActionSpace
from reproductions.aql.config import AQLConfig
from reproductions.aql.networks import ValueTwin

SMALL = {"state_size": 6, "action_size": 7, "joint_sizes": (8, 5), "proposal_sizes": (9, 4)}
HYBRID = ActionSpace((3, 0, 2))


def make(space=HYBRID, **values):
    """A network with values far from 0."""
    tf.random.set_seed(0)
    network = networks.ValueNetwork(
        AQLConfig(**{**SMALL, **values}), EnvironmentSpec(4, space.size), space
    )
    for variable in network.parameters:
        variable.assign(tf.random.normal(variable.shape))
    return network


def inputs(space=HYBRID, rows=3, num=11):
    generator = np.random.default_rng(0)
    observation = generator.standard_normal((rows, 4)).astype(np.float32)
    return observation, space.uniform((rows, num), generator)


@pytest.mark.parametrize("shared_sizes, joint_sizes", [((), (8,)), ((5, 6), (8, 5))])
def test_the_twin_is_the_network(shared_sizes, joint_sizes):
    network = make(shared_sizes=shared_sizes, joint_sizes=joint_sizes)
    observation, actions = inputs()
    twin = ValueTwin(make(shared_sizes=shared_sizes, joint_sizes=joint_sizes))
    flat = packing.to_numpy(network.parameters)
    assert flat.size == twin.num_parameters
    twin.load(0 * flat)
    twin.load(flat)
    values = twin.at(twin.shared(observation, ())[0])(actions)
    np.testing.assert_allclose(
        values, values_at(network, observation, actions), rtol=1e-5, atol=1e-4
    )
    assert values.dtype == np.float32


def test_a_small_space_is_evaluated_once_with_the_same_result():
    space = ActionSpace((5, 5))
    network = make(space)
    observation, actions = inputs(space, rows=4, num=60)
    whole, shortcut = ValueTwin(network), ValueTwin(network, table_size=60)
    flat = packing.to_numpy(network.parameters)
    shortcut.load(2 * flat)  # the table is of the parameters of this moment
    shortcut.load(flat)
    found = []
    for twin in (whole, shortcut):
        q = twin.at(twin.shared(observation, ())[0])
        np.testing.assert_allclose(
            q(actions), values_at(network, observation, actions), rtol=1e-5, atol=1e-4
        )
        found.append(search.search(q, actions[:, :20], actions[:, 20:]))
    np.testing.assert_array_equal(*found)


def test_an_action_that_is_no_candidate_is_not_chosen():
    """Although the shortcut evaluates it."""
    space = ActionSpace((5, 5))
    network = make(space)
    observation, _ = inputs(space, rows=1)
    twin = ValueTwin(network, table_size=500)
    q = twin.at(twin.shared(observation, ())[0])
    every = space.all_actions()[np.newaxis]
    order = np.argsort(q(every)[0])
    candidates = every[:, order[:7]]  # the seven worst
    best = search.search(q, candidates, candidates[:, :0])
    np.testing.assert_array_equal(best[0], candidates[0, 6])


def test_a_larger_space_has_no_table():
    network = make(ActionSpace((5, 5)))
    assert not ValueTwin(network, table_size=24)._has_table
    assert ValueTwin(network, table_size=25)._has_table
    assert not ValueTwin(make(HYBRID), table_size=10**9)._has_table


def test_first_values_are_near_zero():
    tf.random.set_seed(1)
    network = networks.ValueNetwork(AQLConfig(), EnvironmentSpec(67, 21), ActionSpace((5,) * 21))
    generator = np.random.default_rng(0)
    observation = generator.standard_normal((8, 67)).astype(np.float32)
    values = values_at(network, observation, network.space.uniform((8, 20), generator))
    assert np.abs(values).max() < 0.05


def test_the_optimisers_are_those_of_the_paper():
    adam = networks.make_optimizer(AQLConfig())
    values = (adam.learning_rate, adam.beta1, adam.beta2, adam.epsilon)
    assert values == (2e-4, 0.9, 0.999, 1e-8)
    rmsprop = networks.make_optimizer(AQLConfig(optimizer="rmsprop"))
    assert (rmsprop.learning_rate, rmsprop.decay, rmsprop.epsilon) == (2e-4, 0.99, 0.1)
    assert not rmsprop.centered and rmsprop.momentum == 0
