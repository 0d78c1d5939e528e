"""The sizes of observations and actions. This module does not import TensorFlow."""

from typing import NamedTuple

import dm_env
from dm_env import specs
import numpy as np


class EnvironmentSpec(NamedTuple):
    """The sizes of an environment's observations and actions.

    Attributes:
      observation_size: numbers in an observation.
      action_size: numbers in a canonical action, or the number of discrete actions.
      image_shape: (height, width, channels) of a uint8 image; None: flat float32 observations.
      is_discrete: whether an action is an int32 below `action_size`, not an array.
      action_choices: K_d for each element of an action that is an int32 array [action_size], whose
        elements are in 0, ..., K_d - 1; empty if an action is float32 [action_size].
      terrain_size: how many of a flat observation's last numbers are heights of the terrain.
    """

    observation_size: int
    action_size: int
    image_shape: tuple[int, int, int] | None = None
    is_discrete: bool = False
    action_choices: tuple[int, ...] = ()
    terrain_size: int = 0

    @classmethod
    def of(cls, environment: dm_env.Environment) -> "EnvironmentSpec":
        """Returns the spec of an environment, or that of each environment in a batch."""
        observation, action = environment.observation_spec(), environment.action_spec()
        is_discrete = isinstance(action, specs.DiscreteArray)
        choices: tuple[int, ...] = ()
        if not is_discrete and np.issubdtype(action.dtype, np.integer):
            choices = tuple((action.maximum - action.minimum + 1).tolist())
        return cls(
            observation_size=int(np.prod(observation.shape)),
            action_size=int(action.num_values) if is_discrete else int(np.prod(action.shape)),
            image_shape=observation.shape if len(observation.shape) == 3 else None,
            is_discrete=is_discrete,
            action_choices=choices,
            terrain_size=getattr(observation, "terrain_size", 0),
        )

    @property
    def observation_shape(self) -> tuple[int, ...]:
        """The shape of an observation: (height, width, channels), or (observation_size,)."""
        return self.image_shape or (self.observation_size,)

    @property
    def observation_dtype(self) -> type[np.generic]:
        """The dtype of an observation: that of an image is uint8, that of a flat one float32."""
        return np.uint8 if self.image_shape else np.float32
