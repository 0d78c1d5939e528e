"""Interface of what makes a run's updates."""

from collections.abc import Mapping
from typing import Protocol

import tensorflow as tf

from common.replay.memory import Statistics
from common.types import Metrics


class Updates(Protocol):
    """The updates of a run's networks, whoever computes their gradients.

    Attributes:
      statistics: counters of the replay when last heard of; None before, and while it is gone.
      priority_lag: learner steps from the draw of the last call's sample to its new priorities.
      state: what a checkpoint needs beside the networks to continue the updates, by name.
    """

    statistics: Statistics | None
    priority_lag: float
    state: Mapping[str, tf.Module]

    def step(self) -> Metrics | None:
        """Makes the next updates; returns their metrics, or None if there are none to make yet."""

    def flush(self) -> None:
        """Finishes what earlier steps began, so that a checkpoint is consistent with them."""

    def close(self) -> None:
        """Ends the background work."""
