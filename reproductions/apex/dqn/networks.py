"""Ape-X DQN's dueling network q(s, a, theta) and its optimiser (section 3.1, appendix C)."""

import sonnet as snt
import tensorflow as tf

from common.environments.spec import EnvironmentSpec
from common.learning import optimizers
from common.networks.atari import SIZES, DuelingNetwork, make_torso
from reproductions.apex.dqn.config import DQNConfig


def make_network(
    config: DQNConfig, spec: EnvironmentSpec, dtype: tf.DType = tf.float32
) -> DuelingNetwork:
    """Builds the network and its variables: observations [B, ...] -> float32 [B, A].

    Args:
      config: hyperparameters.
      spec: of the environment.
      dtype: dtype of the convolutions and the hidden layers, float32 or bfloat16.
    """
    torso, hidden = make_torso(config, spec, SIZES, dtype=dtype)
    return DuelingNetwork(torso, hidden, spec.action_size, config.rescale_gradient)


def make_optimizer(config: DQNConfig) -> snt.Optimizer:
    """Returns centred RMSProp without momentum (appendix C)."""
    return optimizers.CenteredRMSProp(
        config.learning_rate, config.rmsprop_decay, config.rmsprop_epsilon
    )
