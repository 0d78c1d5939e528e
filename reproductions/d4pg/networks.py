"""D4PG's policy pi_theta and critic Z_w (figure 1, "standard networks")."""

import sonnet as snt

from common.agents.actor_critic import ActorCritic
from common.networks import control, heads, packing
from reproductions.d4pg import critics
from reproductions.d4pg.config import D4PGConfig


def make_networks(config: D4PGConfig, observation_size: int, action_size: int) -> ActorCritic:
    """Builds both networks and their variables (theta, w)."""
    policy = control.ControlPolicy(action_size, config.policy_sizes, config.layer_norm)
    torso = control.ControlCriticTorso(config.critic_sizes, config.layer_norm)
    critic = heads.Critic(torso, critics.make_critic_kind(config).head())
    packing.create_variables(policy, critic, observation_size, action_size)
    return ActorCritic(policy, critic)


def make_optimizer(config: D4PGConfig) -> snt.Optimizer:
    """Returns Adam (section 3) with Sonnet's defaults for everything that the paper omits."""
    return snt.optimizers.Adam(config.learning_rate)
