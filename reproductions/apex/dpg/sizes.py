"""How large Ape-X DPG's networks and transitions are, without TensorFlow: the launcher asks."""

from common.cluster.resources import Sizes
from common.networks import sizes as network_sizes
from reproductions.apex.dpg.config import DPGConfig


def sizes(config: DPGConfig, observation_size: int, action_size: int) -> Sizes:
    """What takes room, for a flat observation and an action of these sizes."""
    return network_sizes.actor_critic(
        observation_size,
        action_size,
        policy_sizes=config.policy_sizes,
        critic_sizes=config.critic_sizes,
        critic_outputs=1,
        layer_norm=config.layer_norm,
        replay_capacity=config.replay_capacity,
        soft_capacity=True,
    )
