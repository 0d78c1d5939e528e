"""pi_theta and Z_w (D4PG figure 1, "standard networks")."""

from typing import NamedTuple

import sonnet as snt

from common.networks import control
from common.networks import heads
from common.networks import packing
from reproductions.d4pg import critics
from reproductions.d4pg.config import D4PGConfig


class Networks(NamedTuple):
    """policy: pi_theta, [B, D] -> [B, A]. critic: Z_w, ([B, D], [B, A]) -> outputs [B, ...]."""

    policy: control.ControlPolicy
    critic: heads.Critic

    @property
    def variables(self) -> tuple:
        """(theta, w) in the order in which they are packed for the actors."""
        return (*self.policy.trainable_variables, *self.critic.trainable_variables)


def make_networks(config: D4PGConfig, observation_size: int, action_size: int) -> Networks:
    """Builds both networks, with their variables."""
    policy = control.ControlPolicy(action_size, config.policy_sizes, config.layer_norm)
    torso = control.ControlCriticTorso(config.critic_sizes, config.layer_norm)
    critic = heads.Critic(torso, critics.make_critic_kind(config).head())
    packing.create_variables(policy, critic, observation_size, action_size)
    return Networks(policy, critic)


def make_optimizer(config: D4PGConfig) -> snt.Optimizer:
    """Adam (section 3) with Sonnet's defaults for what the paper leaves open."""
    return snt.optimizers.Adam(config.learning_rate)
