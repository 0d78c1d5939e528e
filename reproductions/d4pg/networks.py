"""D4PG's policy pi_theta and critic Z_w (figure 1, "standard networks", and section 4.3)."""

import sonnet as snt

from common.agents.actor_critic import ActorCritic
from common.environments.spec import EnvironmentSpec
from common.networks import control, heads, packing
from reproductions.d4pg import critics
from reproductions.d4pg.config import D4PGConfig


def make_networks(config: D4PGConfig, spec: EnvironmentSpec) -> ActorCritic:
    """Builds both networks and their variables (theta, w).

    Where observations have heights of the terrain, each network has layers of its own for them,
    before they join the rest (section 4.3).
    """

    def terrain() -> list[control.Layer]:
        return control.terrain_layers(spec, config.terrain_sizes, config.layer_norm)

    policy = control.ControlPolicy(
        spec.action_size, config.policy_sizes, config.layer_norm, first_layers=terrain()
    )
    torso = control.ControlCriticTorso(
        config.critic_sizes, config.layer_norm, first_layers=terrain()
    )
    critic = heads.Critic(torso, critics.make_critic_kind(config).head())
    packing.create_variables(policy, critic, spec.observation_size, spec.action_size)
    return ActorCritic(policy, critic)


def make_optimizer(config: D4PGConfig) -> snt.Optimizer:
    """Returns Adam (section 3) with Sonnet's defaults for everything that the paper omits."""
    return snt.optimizers.Adam(config.learning_rate)
