"""Ape-X DQN's dueling network q(s, a, theta) and its optimiser (section 3.1, appendix C)."""

import sonnet as snt
import tensorflow as tf

from common.environments.spec import EnvironmentSpec
from common.learning import optimizers
from common.networks.atari import SIZES, DuelingNetwork
from reproductions.apex.dqn.config import DQNConfig


def make_network(
    config: DQNConfig, spec: EnvironmentSpec, dtype: tf.DType = tf.float32
) -> DuelingNetwork:
    """Builds the network and its variables: uint8 [B, H, W, C] -> float32 [B, A]."""
    return DuelingNetwork(
        spec.image_shape, spec.action_size, config.rescale_gradient, dtype, SIZES[config.torso]
    )


def make_optimizer(config: DQNConfig) -> snt.Optimizer:
    """Returns centred RMSProp without momentum (appendix C)."""
    return optimizers.CenteredRMSProp(
        config.learning_rate, config.rmsprop_decay, config.rmsprop_epsilon
    )
