"""How large Ape-X DQN's network and transitions are, without TensorFlow: the launcher asks."""

import math

from common.cluster.resources import Sizes
from common.networks import atari_shapes
from common.replay.footprint import BYTES_A_VALUE
from reproductions.apex.dqn.config import DQNConfig

_CHANNELS = 4

_COMPRESSION = 12
"""Bytes of an image for one of its PNG file, less than in 45 of the 57 games.

Random play has 35 in Pong, 15 in the mean of the games, and 5 in Yars' Revenge, the worst.
"""


def sizes(config: DQNConfig, observation_size: int, action_size: int) -> Sizes:
    """What takes room, for square images of four channels and so many actions."""
    side = math.isqrt(observation_size // _CHANNELS)
    image = observation_size // _COMPRESSION + BYTES_A_VALUE
    others = 3 * 4  # action, reward, discount
    return Sizes(
        bytes_per_step=2 * image + others,
        replay_capacity=config.replay_capacity,
        parameters=atari_shapes.dueling_parameters((side, side, _CHANNELS), action_size),
        moments=3,
        soft_capacity=True,
        ahead_bytes=(config.prefetch + 1) * config.batch_size * 2 * observation_size,
    )
