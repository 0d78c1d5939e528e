"""Tests of D4PG's networks."""

import numpy as np
import pytest
import tensorflow as tf

from common.environments.spec import EnvironmentSpec
from common.networks import control, numpy_twins
from reproductions.d4pg import d4pg
from reproductions.d4pg.config import D4PGConfig
from reproductions.d4pg.d4pg import D4PG, D4PGLearner
from reproductions.d4pg.ppo.config import D4PGPPOConfig
from reproductions.d4pg.ppo.ppo import D4PGPPO

PLANAR = EnvironmentSpec(120, 6, terrain_size=101)


def size_of(module):
    return sum(np.prod(variable.shape) for variable in module.trainable_variables)


def inputs(num_rows, seed=0):
    rng = np.random.default_rng(seed)
    observation = rng.normal(size=(num_rows, 120)).astype(np.float32)
    return observation, rng.uniform(-1, 1, (num_rows, 6)).astype(np.float32)


def make_networks(**values):
    """Networks of planar parkour whose every variable is far from its initial value."""
    networks = d4pg.make_networks(D4PGConfig(**values), PLANAR)
    rng = np.random.default_rng(1)
    for variable in networks.variables:
        variable.assign_add(rng.normal(scale=0.05, size=variable.shape))
    return networks


def test_numbers_of_parameters_with_terrain():
    # Terrain: 101 -> 200, LayerNorm, 200 -> 100. Then 19 + 100 inputs, and 6 actions of the critic.
    terrain = 102 * 200 + 2 * 200 + 201 * 100
    networks = d4pg.make_networks(D4PGConfig(), PLANAR)
    policy = 120 * 300 + 2 * 300 + 301 * 200 + 201 * 6
    critic = 126 * 400 + 2 * 400 + 401 * 300 + 301 * 51
    assert [size_of(module) for module in networks[:2]] == [policy + terrain, critic + terrain]
    shared = {variable.ref() for variable in networks.policy.trainable_variables}
    assert not shared & {variable.ref() for variable in networks.critic.trainable_variables}


@pytest.mark.parametrize(
    "critic, layer_norm, num_rows", [("categorical", True, 64), ("scalar", False, 1)]
)
def test_numpy_twins_equal_the_networks(critic, layer_norm, num_rows):
    networks = make_networks(critic=critic, layer_norm=layer_norm)
    observation, action = inputs(num_rows)
    kept = observation.copy()
    actions = numpy_twins.twin(networks.policy)(observation)
    assert np.ptp(actions) > 0.05
    np.testing.assert_allclose(actions, networks.policy(observation), atol=1e-5)
    outputs = numpy_twins.twin(networks.critic)(observation, action)
    np.testing.assert_allclose(outputs, networks.critic(observation, action), atol=1e-5)
    np.testing.assert_array_equal(observation, kept)


def test_the_terrain_reaches_a_network_only_through_its_layers():
    networks = make_networks()
    (first, second), (action, _) = inputs(2)[0], inputs(2)[1]
    mixed = np.concatenate([first[:19], second[19:]])
    for module, arguments in ((networks.policy, ()), (networks.critic, (action[np.newaxis],))):
        layers = module.layers if module is networks.policy else module.torso.layers
        assert [type(layer) for layer in layers].count(control.TerrainLayers) == 1
        found, other = (module(row[np.newaxis], *arguments) for row in (first, mixed))
        assert np.abs(found - other).max() > 1e-3
        for variable in layers[0].trainable_variables:
            variable.assign(tf.zeros_like(variable))  # all layers of the terrain now give zeros
        found, other = (module(row[np.newaxis], *arguments) for row in (first, mixed))
        np.testing.assert_array_equal(found, other)
        proprioception = np.concatenate([second[:19], first[19:]])
        assert np.abs(module(proprioception[np.newaxis], *arguments) - found).max() > 1e-3


def test_both_gradients_reach_the_layers_of_the_terrain():
    learner = D4PGLearner(D4PGConfig(), PLANAR)
    observation, action = inputs(4)
    with tf.GradientTape(persistent=True) as tape:
        chosen = learner.networks.policy(observation)
        outputs = learner.networks.critic(observation, action)
    for result, module in (
        (chosen, learner.networks.policy.layers[0]),
        (outputs, learner.networks.critic.torso.layers[0]),
    ):
        gradients = tape.gradient(result, module.trainable_variables)
        assert len(gradients) == 6
        assert all(np.abs(gradient).max() > 0 for gradient in gradients)


def test_sizes_without_terrain_are_refused_in_one_line():
    sizes = {"terrain_sizes": (50,)}
    for agent in (D4PG(D4PGConfig(**sizes)), D4PGPPO(D4PGPPOConfig(**sizes))):
        agent.declaration.require_spec(agent.config, PLANAR)
        words = "^--config.terrain_sizes is .50,., but --envi.*parkour:planar.*$"
        with pytest.raises(ValueError, match=words):
            agent.declaration.require_spec(agent.config, EnvironmentSpec(5, 1))
    agent.declaration.require_spec(D4PGConfig(), EnvironmentSpec(5, 1))
