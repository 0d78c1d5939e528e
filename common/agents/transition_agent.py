"""Base of agents that learn from n-step transitions of vectors or images."""

from typing import Any

import numpy as np
import tensorflow as tf

from common.agents.agent import Agent
from common.data.transitions import StoredTransition
from common.environments.spec import EnvironmentSpec
from common.replay import png


class TransitionAgent(Agent):
    """An agent with `Transitions`, continuous or discrete actions, and a choice of torsos.

    With `config.torso` "atari" images are sent and kept as PNG files (Ape-X section 4.1). With
    other torsos observations are kept as they are: a file of MinAtar's images would be no smaller.
    """

    def __init__(self, config: Any, setting: str):
        super().__init__(config, setting)
        self.decodes = config.torso == "atari"

    def encode(self, observation: np.ndarray) -> np.ndarray:
        """Images uint8 [K, H, W, C] -> PNG files, an object array [K]; see base class."""
        return png.encode(observation) if self.decodes else observation

    def decode(self, steps: StoredTransition, spec: EnvironmentSpec) -> StoredTransition:
        """Decodes PNG files [B] to uint8 [B, H, W, C], in both columns of observations."""
        assert spec.image_shape is not None
        return steps._replace(
            observation_tm1=png.decode(steps.observation_tm1, spec.image_shape, "observation_tm1"),
            observation_t=png.decode(steps.observation_t, spec.image_shape, "observation_t"),
        )

    def step_specs(self, spec: EnvironmentSpec) -> StoredTransition:
        """Returns the columns of an n-step transition with both observations (appendix F)."""
        observation = tf.TensorSpec(spec.observation_shape, spec.observation_dtype)
        if self.decodes:
            assert spec.image_shape is not None
            observation = png.column(spec.image_shape)
        continuous = tf.TensorSpec([spec.action_size])
        return StoredTransition(
            observation_tm1=observation,
            action_tm1=tf.TensorSpec([], tf.int32) if spec.is_discrete else continuous,
            n_step_reward=tf.TensorSpec([]),
            n_step_discount=tf.TensorSpec([]),
            observation_t=observation,
        )
