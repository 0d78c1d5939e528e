"""How large D4PG's networks and transitions are, without TensorFlow: the launcher asks."""

from common.cluster.resources import Sizes
from common.networks import sizes as network_sizes
from reproductions.d4pg.config import D4PGConfig


def sizes(config: D4PGConfig, observation_size: int, action_size: int) -> Sizes:
    """What takes room, for a flat observation and an action of these sizes."""
    outputs = {"categorical": config.num_atoms, "scalar": 1, "mixture": 3 * config.num_components}
    return network_sizes.actor_critic(
        observation_size,
        action_size,
        policy_sizes=config.policy_sizes,
        critic_sizes=config.critic_sizes,
        critic_outputs=outputs[config.critic],
        layer_norm=config.layer_norm,
        replay_capacity=config.replay_capacity,
    )
