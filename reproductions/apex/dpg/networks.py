"""pi and q (appendix D)."""

import sonnet as snt
import tensorflow as tf

from common.agents.actor_critic import ActorCritic
from common.networks import control, heads, packing
from reproductions.apex.dpg.config import DPGConfig

_ACTIVATIONS = {"elu": tf.nn.elu, "tanh": tf.tanh}


def make_networks(config: DPGConfig, observation_size: int, action_size: int) -> ActorCritic:
    """Builds both networks, with their variables (phi, psi).

    The critic: 400, tanh, 300, then a scalar; the policy: 300, tanh, 200, then the action. What
    follows the second layer, and that the action enters with the observation, are not in the paper.
    """
    activation = _ACTIVATIONS[config.activation]
    policy = control.ControlPolicy(action_size, config.policy_sizes, config.layer_norm, activation)
    torso = control.ControlCriticTorso(config.critic_sizes, config.layer_norm, activation)
    critic = heads.Critic(torso, heads.ScalarHead())
    packing.create_variables(policy, critic, observation_size, action_size)
    return ActorCritic(policy, critic)


def make_optimizer(config: DPGConfig) -> snt.Optimizer:
    """Adam (appendix D) with Sonnet's defaults for what the paper leaves open."""
    return snt.optimizers.Adam(config.learning_rate)
