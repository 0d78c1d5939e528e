"""What an agent sees and does in an environment. This module does not import TensorFlow."""

from typing import NamedTuple

import dm_env
from dm_env import specs
import numpy as np


class EnvironmentSpec(NamedTuple):
    """What an agent sees and does.

    observation_size: numbers in an observation.
    action_size: numbers in a canonical action; of discrete actions, how many there are.
    image_shape: (height, width, channels) of a uint8 image; None: flat float32.
    is_discrete: whether an action is one of `action_size`, an int32, or float32 [action_size].
    """

    observation_size: int
    action_size: int
    image_shape: tuple[int, int, int] | None = None
    is_discrete: bool = False

    @classmethod
    def of(cls, environment: dm_env.Environment) -> "EnvironmentSpec":
        """The spec of an environment, or of a batch of them: theirs is that of one."""
        observation, action = environment.observation_spec(), environment.action_spec()
        is_discrete = isinstance(action, specs.DiscreteArray)
        return cls(
            observation_size=int(np.prod(observation.shape)),
            action_size=int(action.num_values) if is_discrete else int(np.prod(action.shape)),
            image_shape=observation.shape if len(observation.shape) == 3 else None,
            is_discrete=is_discrete,
        )
