"""How large D4PG's networks and transitions are, without TensorFlow: the launcher asks."""

from common.environments.spec import EnvironmentSpec
from common.networks import sizes as network_sizes
from common.program.resources import Sizes
from reproductions.d4pg.config import D4PGConfig


def sizes(config: D4PGConfig, spec: EnvironmentSpec, environment: str = "") -> Sizes:
    """What takes room, whatever the environment, for flat observations and continuous actions."""
    outputs = {"categorical": config.num_atoms, "scalar": 1, "mixture": 3 * config.num_components}
    return network_sizes.actor_critic(
        spec.observation_size,
        spec.action_size,
        policy_sizes=config.policy_sizes,
        critic_sizes=config.critic_sizes,
        critic_outputs=outputs[config.critic],
        layer_norm=config.layer_norm,
        replay_capacity=config.replay_capacity,
    )
