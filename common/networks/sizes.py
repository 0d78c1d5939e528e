"""How large an actor-critic and its transitions are, without TensorFlow: the launcher asks."""

from collections.abc import Sequence

from common.program.resources import Sizes

_FLOAT = 4


def actor_critic(
    observation_size: int,
    action_size: int,
    *,
    policy_sizes: Sequence[int],
    critic_sizes: Sequence[int],
    critic_outputs: int,
    layer_norm: bool,
    replay_capacity: int,
    soft_capacity: bool = False,
) -> Sizes:
    """Of the networks in `common.networks.control`, and `common.learning.transition`.

    Args:
      observation_size, action_size: of flat observations and continuous actions.
      policy_sizes, critic_sizes: hidden layers.
      critic_outputs: numbers in the output of the critic's head.
      layer_norm: whether each network has one, after its first layer.
      replay_capacity: transitions.
      soft_capacity: whether the replay may exceed it for a while.
    """
    policy = (observation_size, *policy_sizes, action_size)
    critic = (observation_size + action_size, *critic_sizes, critic_outputs)
    # Both observations, the action, the reward and the discount.
    transition = 2 * observation_size + action_size + 2
    return Sizes(
        bytes_per_step=_FLOAT * transition,
        replay_capacity=replay_capacity,
        parameters=_parameters(policy, layer_norm) + _parameters(critic, layer_norm),
        soft_capacity=soft_capacity,
    )


def _parameters(widths: Sequence[int], layer_norm: bool) -> int:
    """Of linear layers with biases; a LayerNorm after the first has a scale and an offset."""
    linear = sum((inputs + 1) * outputs for inputs, outputs in zip(widths, widths[1:]))
    return linear + 2 * widths[1] * layer_norm
