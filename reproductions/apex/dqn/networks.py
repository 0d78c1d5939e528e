"""q(s, a, theta): the dueling network, and its optimiser (Ape-X section 3.1, appendix C)."""

import sonnet as snt
import tensorflow as tf

from common.agents.agent import EnvironmentSpec
from common.learning import optimizers
from common.networks.atari import DuelingNetwork
from reproductions.apex.dqn.config import DQNConfig


def make_network(
    config: DQNConfig, spec: EnvironmentSpec, dtype: tf.DType = tf.float32
) -> DuelingNetwork:
    """Builds the network, with its variables: uint8 [B, H, W, C] -> float32 [B, A]."""
    return DuelingNetwork(spec.image_shape, spec.action_size, config.rescale_gradient, dtype)


def make_optimizer(config: DQNConfig) -> snt.Optimizer:
    """Centred RMSProp without momentum (appendix C)."""
    return optimizers.CenteredRMSProp(
        config.learning_rate, config.rmsprop_decay, config.rmsprop_epsilon
    )
