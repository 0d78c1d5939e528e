"""How large Ape-X DPG's networks and transitions are, without TensorFlow: the launcher asks."""

from common.environments.spec import EnvironmentSpec
from common.networks import sizes as network_sizes
from common.program.resources import Sizes
from reproductions.apex.dpg.config import DPGConfig


def sizes(config: DPGConfig, spec: EnvironmentSpec, environment: str = "") -> Sizes:
    """What takes room, whatever the environment, for flat observations and continuous actions."""
    return network_sizes.actor_critic(
        spec.observation_size,
        spec.action_size,
        policy_sizes=config.policy_sizes,
        critic_sizes=config.critic_sizes,
        critic_outputs=1,
        layer_norm=config.layer_norm,
        replay_capacity=config.replay_capacity,
        soft_capacity=True,
    )
