"""Types of what passes between rooms. This module imports neither TensorFlow nor NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    import tensorflow as tf

Nest = Any
"""A tree of arrays or tensors, as the `tree` library and `tf.nest` understand it."""

Metrics = dict[str, "tf.Tensor"]
"""Scalars that an update reports, by their columns in learner.csv."""


class NStepTransitions(NamedTuple):
    """M n-step transitions from S_t to S_{t+k}, k <= n, as an adder gives them.

    In the names `tm1` is where a transition begins and `t` where it ends.

    Attributes:
      environment_index: int32 [M], the row of the batch that each came from.
      step: int64 [M], the acting step of that environment at which it begins: 0, 1, 2, ... over the
        lifetime of the adder, across episodes, without gaps. Unique per environment: replay keys
        are made from it.
      observation_tm1: nest of [M, ...], S_t.
      action_tm1: [M, A] (or [M]), A_t.
      n_step_reward: float32 [M], R_{t:t+k}.
      n_step_discount: float32 [M], gamma_{t:t+k}, the factor of the value of S_{t+k}.
      observation_t: nest of [M, ...], S_{t+k}.
      extras_tm1: named arrays [M, ...], the policy's extras at S_t.
      extras_t: named arrays [M, ...], the policy's extras at S_{t+k}.
    """

    environment_index: np.ndarray
    step: np.ndarray
    observation_tm1: Nest
    action_tm1: np.ndarray
    n_step_reward: np.ndarray
    n_step_discount: np.ndarray
    observation_t: Nest
    extras_tm1: dict[str, np.ndarray]
    extras_t: dict[str, np.ndarray]


class StoredTransition(NamedTuple):
    """The columns of an n-step transition in replay, [B, ...]; names as in `NStepTransitions`."""

    observation_tm1: tf.Tensor
    action_tm1: tf.Tensor
    n_step_reward: tf.Tensor
    n_step_discount: tf.Tensor
    observation_t: tf.Tensor

    @classmethod
    def of(cls, transitions: NStepTransitions) -> StoredTransition:
        """Returns the columns without those that only keys and initial priorities need."""
        return cls(*(getattr(transitions, name) for name in cls._fields))


class Items(NamedTuple):
    """Steps to be added to a replay, each of them an item.

    Attributes:
      keys: int64 [M].
      steps: nest of [M, ...], in the structure of the replay's columns.
      priorities: float32 [M], raw.
    """

    keys: np.ndarray
    steps: Nest
    priorities: np.ndarray


class Batch(NamedTuple):
    """B items drawn from replay for one update.

    Attributes:
      steps: nest of [B, ...], or [B, T, ...] for sequences.
      probabilities: [B] float32, with which each item was drawn.
      size: float32 scalar, the number of items in the memory (R in D4PG's algorithm 1).
    """

    steps: Nest
    probabilities: tf.Tensor
    size: tf.Tensor
