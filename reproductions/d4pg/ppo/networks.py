"""Policy and value, of the layers of D4PG's networks (section 4.3)."""

import tensorflow as tf

from common.agents.proximal import ProximalNetworks
from common.environments.spec import EnvironmentSpec
from common.networks import control
from reproductions.d4pg.ppo.config import D4PGPPOConfig


def make_networks(config: D4PGPPOConfig, spec: EnvironmentSpec) -> ProximalNetworks:
    """Builds both networks; the policy's means are in (-1, 1).

    Heights of the terrain go through layers of their own, as in D4PG.
    """

    def terrain() -> list[control.Layer]:
        return control.terrain_layers(spec, config.terrain_sizes, config.layer_norm)

    policy = control.ControlPolicy(
        spec.action_size, config.policy_sizes, config.layer_norm, first_layers=terrain()
    )
    value = control.ControlValue(config.critic_sizes, config.layer_norm, first_layers=terrain())
    for network in (policy, value):
        network(tf.zeros([1, spec.observation_size]))  # makes the variables
    return ProximalNetworks(
        policy, value, spec.action_size, config.initial_variance, config.observation_clip
    )
