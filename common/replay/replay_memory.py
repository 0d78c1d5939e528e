"""The interface that replay memories share, wherever they are."""

from typing import Protocol

import tensorflow as tf

from common.replay.episodes import EpisodeStatistics
from common.replay.memory import Sample, Statistics

AnyStatistics = Statistics | EpisodeStatistics
"""Counters of a memory of any kind."""


class ReplayMemory(Protocol):
    """A memory to learn from: `Memory`, `RemoteMemory` or `ShardedMemory`."""

    def sample(self, batch_size: int, *, seed: int | None = None, max_length: int = 0) -> Sample:
        """Draws items with replacement; see `Memory.sample`."""

    def update_priorities(self, keys, priorities) -> tf.Tensor:
        """Sets the raw priorities [B] of items; returns how many of them are gone (int64)."""

    def remove_to_fit(self) -> tf.Tensor:
        """Removes items until the stored steps fit the capacity; returns how many items (int64)."""

    def mass(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the sum of all items' masses (float64) and their number (int64)."""

    def statistics(self) -> Statistics:
        """Returns the counters."""
