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


class StoredTimestep(NamedTuple):
    """The columns of a timestep in replay: [B, T, ...] in sequences, [S, ...] as an adder gives it.

    Attributes:
      observation: nest of [...].
      action: [A] (or []), taken at the observation; without meaning at LAST.
      reward: float32, the clipped reward that led to the observation; 0 at FIRST.
      discount: float32, gamma times the environment's discount that led to the observation; 0 at
        FIRST, so that no return crosses a reset.
      step_type: uint8, the values of `dm_env.StepType`.
      extras: named arrays, the policy's extras at the observation.
    """

    observation: Nest
    action: tf.Tensor | np.ndarray
    reward: tf.Tensor | np.ndarray
    discount: tf.Tensor | np.ndarray
    step_type: tf.Tensor | np.ndarray
    extras: dict[str, Any]


class Timesteps(NamedTuple):
    """S timesteps and the I sequences that they complete, as an adder gives them.

    Attributes:
      environment_index: int32 [S], the row of the batch that each timestep came from.
      step: int64 [S], the number of the timestep in that environment: 0, 1, 2, ... over the
        lifetime of the adder, across episodes, without gaps. FIRST and LAST count like the others.
      timesteps: columns of [S, ...].
      item_environment_index: int32 [I], the row of the batch that each sequence came from.
      item_step: int64 [I], the number of each sequence's first timestep.
    """

    environment_index: np.ndarray
    step: np.ndarray
    timesteps: StoredTimestep
    item_environment_index: np.ndarray
    item_step: np.ndarray


class StoredState(NamedTuple):
    """The columns of a state in an episode: [T + 1, ...] in an episode, [B, ...] in a batch.

    Attributes:
      observation: nest of [...].
      action: [A] (or []), taken at the observation; without meaning at the last state.
      extras: named arrays, the policy's extras at the observation.
    """

    observation: Nest
    action: tf.Tensor | np.ndarray
    extras: dict[str, Any]


class Episode(NamedTuple):
    """A finished episode of T steps, as an adder gives it.

    Attributes:
      environment_index: the row of the batch that it came from.
      states: columns of [T + 1, ...].
      rewards: float32 [T]; `rewards[t]` came after step t.
      values: float32 [T + 1], the policy's values of the states; zeros if it computes none.
      terminated: whether the last state is a true end, rather than where the time was up.
      advantages: float32 [T], the policy's advantages of the actions; zeros if it computes none.
    """

    environment_index: int
    states: StoredState
    rewards: np.ndarray
    values: np.ndarray
    terminated: bool
    advantages: np.ndarray


class Episodes(NamedTuple):
    """The progress of a timestep in a batch of environments.

    Attributes:
      num_steps: actions executed after this timestep, in running episodes, too.
      episodes: those that ended with this timestep.
    """

    num_steps: int
    episodes: tuple[Episode, ...]


class EpisodeBatch(NamedTuple):
    """B steps of stored episodes.

    Attributes:
      states: columns of [B, ...] at the steps.
      next_states: columns of [B, ...] at the states after the steps.
      rewards: float32 [B], scaled, of the steps.
      discounts: float32 [B], gamma, or 0 where the next state is a true end.
      bootstraps: bool [B], whether the next state is the last of its episode and no true end.
      q_ret: float32 [B], the stored Retrace estimates of the steps' action values.
    """

    states: StoredState
    next_states: StoredState
    rewards: tf.Tensor
    discounts: tf.Tensor
    bootstraps: tf.Tensor
    q_ret: tf.Tensor


class WindowBatch(NamedTuple):
    """Windows of B stored episodes, of which L steps are the longest.

    All end with step L - 1 and state L. A shorter one repeats its first step, and the state of
    that, in front.

    Attributes:
      states: columns of [B, L + 1, ...].
      rewards: float32 [B, L], scaled, of the steps.
      lengths: int64 [B], steps of the windows.
      bootstraps: bool [B], whether the last state is no true end.
    """

    states: StoredState
    rewards: tf.Tensor
    lengths: tf.Tensor
    bootstraps: tf.Tensor


class HistoryBatch(NamedTuple):
    """B steps of stored episodes, with at most H states before each.

    Attributes:
      states: columns of [B, H + 2, ...], aligned at the end: the states before the steps, those of
        the steps, and those after them. Rows in front repeat the first state of the episode.
      lengths: int32 [B], the number of states before the step.
      rewards: float32 [B], scaled, of the steps.
      discounts: float32 [B], gamma, or 0 where the next state is a true end.
      bootstraps: bool [B], whether the next state is the last of its episode and no true end.
      q_ret: float32 [B], the stored Retrace estimates of the steps' action values.
    """

    states: StoredState
    lengths: tf.Tensor
    rewards: tf.Tensor
    discounts: tf.Tensor
    bootstraps: tf.Tensor
    q_ret: tf.Tensor


class Unrolls(NamedTuple):
    """M unrolls of T consecutive timesteps, as an adder gives them.

    Attributes:
      environment_index: int32 [M], the row of the batch that each came from.
      number: int64 [M], the number of the unroll in that environment: 0, 1, 2, ... over the
        lifetime of the adder.
      observation: nest of [M, T, ...].
      reward: float32 [M, T], of the step that follows the timestep; 0 after the last of an episode.
      discount: float32 [M, T], the environment's, without gamma, of the step that follows the
        timestep; 0 after the last of an episode.
      is_last: bool [M, T], whether the timestep is the last of its episode.
      extras: named arrays [M, T, ...], the policy's extras at the timestep.
      state: nest of [M, ...], the extra "state" at the first timestep; () without.
    """

    environment_index: np.ndarray
    number: np.ndarray
    observation: Nest
    reward: np.ndarray
    discount: np.ndarray
    is_last: np.ndarray
    extras: dict[str, np.ndarray]
    state: Nest = ()


class RolloutSteps(NamedTuple):
    """N steps of a rollout; all but the states float32 [N].

    Attributes:
      states: columns of [N, ...].
      rewards: of the steps.
      values: V of the states, from the policy that acted.
      advantages: generalised advantage estimates.
    """

    states: StoredState
    rewards: tf.Tensor | np.ndarray
    values: tf.Tensor | np.ndarray
    advantages: tf.Tensor | np.ndarray


class AddedRollout(NamedTuple):
    """A part of a rollout, as an adder gives it.

    Attributes:
      num_steps: steps executed, a few of which may exceed the part.
      version: int64 [N], of the parameters with which each step was taken.
      steps: [N, ...].
    """

    num_steps: int
    version: np.ndarray
    steps: RolloutSteps


class Items(NamedTuple):
    """Steps to be added to a replay, and the items that view them.

    The order is that of the arguments of `common.replay.memory.Memory.insert`.

    Attributes:
      keys: int64 [S], keys of the steps.
      steps: nest of [S, ...], in the structure of the replay's columns.
      priorities: float32 [I], raw.
      item_keys: int64 [I], key of each item's first step; None: each step is an item (I = S).
      item_lengths: int32 [I], number of steps of each item; None: 1.
    """

    keys: np.ndarray
    steps: Nest
    priorities: np.ndarray
    item_keys: np.ndarray | None = None
    item_lengths: np.ndarray | None = None


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
