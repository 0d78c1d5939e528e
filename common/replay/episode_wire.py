"""The rows that a memory of episodes stores and draws, and the form in which episodes are sent."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from common.replay.columns import Signature
from common.replay.store import Wire
from common.types import Batch, Nest


class Episode(NamedTuple):
    """A finished episode of T steps, as an adder returns it.

    The fields are in the order of the arguments of `EpisodeMemory.add`.

    Attributes:
      states: nest of columns [T + 1, ...].
      rewards: float32 [T]; `rewards[t]` came after step t.
      values: float32 [T + 1], the policy's values of the states; zeros if it computes none.
      terminated: True if the episode reached a true end, False if a time limit ended it.
      advantages: float32 [T], the policy's advantages of the actions; zeros if it computes none.
    """

    states: Nest
    rewards: np.ndarray
    values: np.ndarray
    terminated: bool
    advantages: np.ndarray


class Episodes(NamedTuple):
    """The finished episodes and the number of steps executed since the previous `Episodes`.

    Attributes:
      num_steps: number of actions executed, including actions in running episodes.
      episodes: the finished episodes.
    """

    num_steps: int
    episodes: tuple[Episode, ...]


class EpisodeBatch(NamedTuple):
    """B steps of stored episodes.

    Attributes:
      states: nest of columns [B, ...], the states of the steps.
      next_states: nest of columns [B, ...], the states after the steps.
      rewards: float32 [B], scaled rewards of the steps.
      discounts: float32 [B], gamma, or 0 where the next state is a true end.
      bootstraps: bool [B], whether the next state is the last of its episode but not a true end.
      q_ret: float32 [B], the stored Retrace estimates of the steps' action values.
      v_tbc: float32 [B], V + min(1, rho) (q_ret - V - A) of the stored V, rho and A (equation 8).
    """

    states: Nest
    next_states: Nest
    rewards: tf.Tensor
    discounts: tf.Tensor
    bootstraps: tf.Tensor
    q_ret: tf.Tensor
    v_tbc: tf.Tensor


class HistoryBatch(NamedTuple):
    """B steps of stored episodes, each with at most H preceding states.

    Attributes:
      states: nest of columns [B, H + 2, ...], aligned at the end: the preceding states, the step's
        state and the next state. Rows in front repeat the first state of the episode.
      lengths: int32 [B], number of states before the step.
      rewards: float32 [B], as in `EpisodeBatch`.
      discounts: float32 [B], as in `EpisodeBatch`.
      bootstraps: bool [B], as in `EpisodeBatch`.
      q_ret: float32 [B], as in `EpisodeBatch`.
      v_tbc: float32 [B], as in `EpisodeBatch`.
    """

    states: Nest
    lengths: tf.Tensor
    rewards: tf.Tensor
    discounts: tf.Tensor
    bootstraps: tf.Tensor
    q_ret: tf.Tensor
    v_tbc: tf.Tensor


class WindowBatch(NamedTuple):
    """Windows of B stored episodes, the longest of L steps.

    All windows end with step L - 1 and state L. A shorter window is padded in front with copies of
    its first step and that step's state.

    Attributes:
      states: nest of columns [B, L + 1, ...].
      rewards: float32 [B, L], scaled rewards of the steps.
      lengths: int64 [B], number of steps of each window.
      bootstraps: bool [B], whether the last state is not a true end.
    """

    states: Nest
    rewards: tf.Tensor
    lengths: tf.Tensor
    bootstraps: tf.Tensor


class EpisodeSample(NamedTuple):
    """N steps drawn from a memory of episodes, one batch after another.

    Attributes:
      keys: [N] int64, keys of the steps.
      probabilities: [N] float64, probability with which each step was drawn.
      steps: the steps; a `HistoryBatch` if the draw included preceding states.
      count: int64 scalar, number of steps in the memory.
    """

    keys: tf.Tensor
    probabilities: tf.Tensor
    steps: EpisodeBatch | HistoryBatch
    count: tf.Tensor

    @property
    def token(self) -> tf.Tensor:
        """The keys."""
        return self.keys

    def batch(self) -> Batch:
        """Returns what updates learn from."""
        probabilities = tf.cast(self.probabilities, tf.float32)
        return Batch(self.steps, probabilities, tf.cast(self.count, tf.float32))


class EpisodeWire(Wire):
    """The form in which `Episodes` travel.

    Attributes:
      signature: the columns of a state.
    """

    def __init__(self, specs: Nest):
        """Computes the columns from `specs`, the specs of the memory."""
        self.signature = Signature(specs)
        self.put_specs = [
            tf.TensorSpec([], tf.int64, "num_steps"),
            tf.TensorSpec([None], tf.int64, "lengths"),
            tf.TensorSpec([None], tf.bool, "terminated"),
            tf.TensorSpec([None], tf.float32, "rewards"),
            tf.TensorSpec([None], tf.float32, "advantages"),
            tf.TensorSpec([None], tf.float32, "values"),
            *self.signature.column_specs,
        ]

    def columns(self, rows: Episodes) -> list:
        """Returns `num_steps`, then each of `put_specs[1:]` for all episodes, concatenated."""
        episodes = rows.episodes
        if not episodes:
            return [
                np.int64(rows.num_steps),
                *(np.zeros(0, spec.dtype.as_numpy_dtype) for spec in self.put_specs[1:]),
            ]
        states = [self.signature.flatten(episode.states) for episode in episodes]
        return [
            np.int64(rows.num_steps),
            np.array([len(episode.rewards) for episode in episodes], np.int64),
            np.array([episode.terminated for episode in episodes], bool),
            np.concatenate([episode.rewards for episode in episodes]),
            np.concatenate([episode.advantages for episode in episodes]),
            np.concatenate([episode.values for episode in episodes]),
            *(np.concatenate(parts) for parts in zip(*states)),
        ]

    def rows(self, columns: Sequence) -> Episodes:
        """Reverses `columns`.

        Raises:
          ValueError: the number of rows of a column does not match the lengths of the episodes.
        """
        num_steps, lengths, terminated, rewards, advantages, values, *states = columns
        ends, last_states = np.cumsum(lengths), np.cumsum(np.asarray(lengths) + 1)
        num_states = sum(lengths) + len(lengths)
        num_rows = [len(lengths), *[sum(lengths)] * 2, *[num_states] * (1 + len(states))]
        for spec, column, expected in zip(self.put_specs[2:], columns[2:], num_rows):
            if len(column) != expected:
                raise ValueError(
                    f"{spec.name} of episodes must have {expected} rows, has {len(column)}"
                )
        episodes = tuple(
            Episode(
                self.signature.unflatten([column[last - n - 1 : last] for column in states]),
                rewards[end - n : end],
                values[last - n - 1 : last],
                bool(is_end),
                advantages[end - n : end],
            )
            for n, end, last, is_end in zip(lengths, ends, last_states, terminated)
        )
        return Episodes(int(num_steps), episodes)
