"""Interface of what makes a run's updates."""

from collections.abc import Mapping
from typing import Protocol

import tensorflow as tf

from common.replay.replay_memory import AnyStatistics
from common.types import Metrics


class Updates(Protocol):
    """The updates of a run's networks, whoever computes their gradients."""

    @property
    def statistics(self) -> AnyStatistics | None:
        """Counters of the replay when last heard of; None before, and while it is gone."""

    @property
    def priority_lag(self) -> float:
        """Learner steps from the draw of the last call's sample to its new priorities."""

    @property
    def state(self) -> Mapping[str, tf.Module]:
        """Modules that a checkpoint needs beside the networks to continue, by name."""

    def step(self) -> Metrics | None:
        """Makes the next updates; returns their metrics, or None if there are none to make yet."""

    def flush(self) -> None:
        """Finishes what earlier steps began, so that a checkpoint is consistent with them."""

    def close(self) -> None:
        """Ends the background work."""
