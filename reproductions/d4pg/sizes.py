"""How large D4PG's networks and transitions are, without TensorFlow: the launcher asks."""

from collections.abc import Sequence

from common.cluster.resources import Sizes
from reproductions.d4pg.config import D4PGConfig

_FLOAT = 4


def sizes(config: D4PGConfig, observation_size: int, action_size: int) -> Sizes:
    """What takes room, for a flat observation and an action of these sizes."""
    outputs = {"categorical": config.num_atoms, "scalar": 1, "mixture": 3 * config.num_components}
    policy = (observation_size, *config.policy_sizes, action_size)
    critic = (observation_size + action_size, *config.critic_sizes, outputs[config.critic])
    # (x_i, a_i, R_N, gamma_N, x_{i+N})
    transition = 2 * observation_size + action_size + 2
    return Sizes(
        bytes_per_step=_FLOAT * transition,
        replay_capacity=config.replay_capacity,
        parameters=_parameters(policy, config.layer_norm) + _parameters(critic, config.layer_norm),
    )


def _parameters(widths: Sequence[int], layer_norm: bool) -> int:
    """Of linear layers with biases; a LayerNorm after the first has a scale and an offset."""
    linear = sum((inputs + 1) * outputs for inputs, outputs in zip(widths, widths[1:]))
    return linear + 2 * widths[1] * layer_norm
