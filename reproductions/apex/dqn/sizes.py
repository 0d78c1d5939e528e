"""How large Ape-X DQN's network and transitions are, without TensorFlow: the launcher asks."""

from common.environments.spec import EnvironmentSpec
from common.networks import atari_shapes
from common.program.resources import Sizes
from common.replay.footprint import BYTES_A_VALUE
from reproductions.apex.dqn.config import DQNConfig
from reproductions.apex.dqn.image_bytes import image_bytes


def sizes(config: DQNConfig, spec: EnvironmentSpec, environment: str) -> Sizes:
    """What takes room, in an environment of images."""
    others = 3 * 4  # action, reward, discount
    return Sizes(
        bytes_per_step=2 * (image_bytes(environment, spec) + BYTES_A_VALUE) + others,
        replay_capacity=config.replay_capacity,
        parameters=atari_shapes.dueling_parameters(spec.image_shape, spec.action_size),
        moments=3,
        soft_capacity=True,
        ahead_bytes=(config.prefetch + 1) * config.batch_size * 2 * spec.observation_size,
        copies=config.num_copies,
    )
