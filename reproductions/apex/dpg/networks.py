"""Ape-X DPG's policy pi and critic q (appendix D)."""

import sonnet as snt
import tensorflow as tf

from common.agents.actor_critic import ActorCritic
from common.environments.spec import EnvironmentSpec
from common.networks import control, heads, packing
from reproductions.apex.dpg.config import DPGConfig

_ACTIVATIONS = {"elu": tf.nn.elu, "tanh": tf.tanh}


def make_networks(config: DPGConfig, spec: EnvironmentSpec) -> ActorCritic:
    """Builds both networks and their variables (phi, psi).

    The critic has layers of 400, tanh, 300 and a scalar; the policy 300, tanh, 200 and the action.
    The paper does not say what follows the second layer or where the action enters the critic; it
    enters with the observation here.
    """
    activation = _ACTIVATIONS[config.activation]
    policy = control.ControlPolicy(
        spec.action_size, config.policy_sizes, config.layer_norm, activation
    )
    torso = control.ControlCriticTorso(config.critic_sizes, config.layer_norm, activation)
    critic = heads.Critic(torso, heads.ScalarHead())
    packing.create_variables(policy, critic, spec.observation_size, spec.action_size)
    return ActorCritic(policy, critic)


def make_optimizer(config: DPGConfig) -> snt.Optimizer:
    """Returns Adam (appendix D) with Sonnet's defaults for everything that the paper omits."""
    return snt.optimizers.Adam(config.learning_rate)
