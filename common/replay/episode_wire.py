"""The form in which whole episodes, and samples of their steps, travel and are learnt from."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from common.replay.columns import Signature
from common.replay.store import Wire
from common.types import Batch, Episode, EpisodeBatch, Episodes, HistoryBatch, Nest

_BYTES_BESIDE_STATE = 64
"""The most that a step's key and numbers take in a message."""


class EpisodeSample(NamedTuple):
    """N steps drawn from a memory of episodes, in batches one behind the other.

    Attributes:
      keys: [N] int64.
      probabilities: [N] float64, with which each step was drawn.
      steps: nest of [N, ...], the states of the steps.
      next_steps: nest of [N, ...], the states after the steps.
      rewards: [N] float32, scaled.
      discounts: [N] float32, the memory's discount, or 0 where the next state is a true end.
      bootstraps: [N] bool, whether the next state is where the time was up.
      q_ret: [N] float32, the stored Retrace estimates of the steps' action values.
      count: int64 scalar, steps in the memory.
    """

    keys: tf.Tensor
    probabilities: tf.Tensor
    steps: Nest
    next_steps: Nest
    rewards: tf.Tensor
    discounts: tf.Tensor
    bootstraps: tf.Tensor
    q_ret: tf.Tensor
    count: tf.Tensor

    @property
    def token(self) -> tf.Tensor:
        """The keys."""
        return self.keys

    def batch(self) -> Batch:
        """Returns what updates learn from, with an `EpisodeBatch` as its steps."""
        return _batch(EpisodeBatch, self)


class WindowSample(NamedTuple):
    """N steps drawn from a memory of episodes, with at most H states before each.

    Attributes:
      keys: [N] int64.
      probabilities: [N] float64, with which each step was drawn.
      steps: nest of [N, H + 2, ...], see `HistoryBatch.states`.
      lengths: [N] int32, the number of states before the step.
      rewards: as in `EpisodeSample`, and so are the next four.
      discounts: [N] float32.
      bootstraps: [N] bool.
      q_ret: [N] float32.
      count: int64 scalar.
    """

    keys: tf.Tensor
    probabilities: tf.Tensor
    steps: Nest
    lengths: tf.Tensor
    rewards: tf.Tensor
    discounts: tf.Tensor
    bootstraps: tf.Tensor
    q_ret: tf.Tensor
    count: tf.Tensor

    @property
    def token(self) -> tf.Tensor:
        """The keys."""
        return self.keys

    def batch(self) -> Batch:
        """Returns what updates learn from, with `HistoryBatch` as its steps."""
        return _batch(HistoryBatch, self)


def _batch(
    kind: type[EpisodeBatch] | type[HistoryBatch], sample: EpisodeSample | WindowSample
) -> Batch:
    """Returns a sample's batch; the six fields of its steps stand in the same order in both."""
    probabilities, count = sample.probabilities, sample.count
    steps = kind(*sample[2:8])
    return Batch(steps, tf.cast(probabilities, tf.float32), tf.cast(count, tf.float32))


class EpisodeWire(Wire):
    """The form in which `Episodes` and samples of their steps travel.

    Attributes:
      signature: the columns of a state.
      history: states before a drawn step; None if none are drawn with it.
    """

    output_specs = (*[tf.TensorSpec([None], tf.float32)] * 6, tf.TensorSpec(None, tf.float32))

    def __init__(self, specs: Nest, num_batches: int = 1, history: int | None = None):
        """Computes sizes; the arguments are those of the memory."""
        self.num_batches = num_batches
        self.history = history
        self.signature = Signature(specs)
        state_bytes = self.signature.message_bytes
        self.row_bytes = state_bytes + _BYTES_BESIDE_STATE
        self.draw_bytes = (2 + (history or 0)) * state_bytes + _BYTES_BESIDE_STATE
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
        """Returns executed steps, and the lengths, ends, numbers and states of all episodes."""
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
        """Reverses `columns`; which environments the episodes came from is not told.

        Raises:
          ValueError: a column has not as many rows as the episodes together.
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
                0,
                self.signature.unflatten([column[last - n - 1 : last] for column in states]),
                rewards[end - n : end],
                values[last - n - 1 : last],
                bool(is_end),
                advantages[end - n : end],
            )
            for n, end, last, is_end in zip(lengths, ends, last_states, terminated)
        )
        return Episodes(int(num_steps), episodes)

    def drawn_columns(self, drawn: EpisodeSample | WindowSample) -> list:
        """Returns the fields of a sample, the states as columns."""
        flatten = self.signature.flatten
        if isinstance(drawn, WindowSample):
            return [*drawn[:2], *drawn[3:], *flatten(drawn.steps)]
        return [*drawn[:2], *drawn[4:], *flatten(drawn.steps), *flatten(drawn.next_steps)]

    def drawn(self, parts: Sequence[Sequence[tf.Tensor]]) -> EpisodeSample | WindowSample:
        """Joins samples of one memory, whose size may have changed between them.

        A batch of the result consists of a batch of each part. These are drawn independently.
        """
        columns = [
            self._joined(column) if column[0].shape.rank else column[0] for column in zip(*parts)
        ]
        if self.history is not None:
            steps = self.signature.unflatten(columns[8:])
            return WindowSample(*columns[:2], steps, *columns[2:8])
        keys, probabilities, rewards, discounts, bootstraps, q_ret, count, *states = columns
        half = len(states) // 2
        steps, next_steps = map(self.signature.unflatten, (states[:half], states[half:]))
        return EpisodeSample(
            keys, probabilities, steps, next_steps, rewards, discounts, bootstraps, q_ret, count
        )

    def _joined(self, parts: Sequence[tf.Tensor]) -> tf.Tensor:
        batches = [tf.split(part, self.num_batches) for part in parts]
        return tf.concat([part for batch in zip(*batches) for part in batch], 0)
