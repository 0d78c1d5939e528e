"""What is stored of an n-step transition."""

from typing import NamedTuple

import tensorflow as tf

from common.acting.n_step import Transitions


class Transition(NamedTuple):
    """n-step transitions [B, ...]; names as in `common.acting.n_step.Transitions`."""

    observation_tm1: tf.Tensor
    action_tm1: tf.Tensor
    n_step_reward: tf.Tensor
    n_step_discount: tf.Tensor
    observation_t: tf.Tensor

    @classmethod
    def of(cls, transitions: Transitions) -> "Transition":
        """Drops what only keys and initial priorities need."""
        return cls(*(getattr(transitions, name) for name in cls._fields))


def control_specs(observation_size: int, action_size: int) -> Transition:
    """The columns in replay for flat observations and continuous actions, all float32."""
    return Transition(
        observation_tm1=tf.TensorSpec([observation_size]),
        action_tm1=tf.TensorSpec([action_size]),
        n_step_reward=tf.TensorSpec([]),
        n_step_discount=tf.TensorSpec([]),
        observation_t=tf.TensorSpec([observation_size]),
    )
