"""The learner's loop on a memory of episodes in its process."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext

import tensorflow as tf

from common.environments.environment_errors import UnusableEnvironmentError
from common.learning import metrics as metrics_lib
from common.replay.episodes import EpisodeMemory, EpisodeStatistics
from common.replay.schedule import Schedule
from common.types import Metrics


class EpisodeLearner:
    """Loop of calls, each of which draws, updates and refreshes in one graph (see `Updates`).

    Attributes:
      num_samples: steps that a call draws.
      schedule: says when a call is due.
      statistics: counters of the memory before the last call; None before the first.
      priority_lag: updates of a call.
      state: nothing, since a draw follows from the learner step.
      beside: returns a context in which the updates of a call are made, given the counters of the
        memory before it. What happens in the context must not change the memory.
    """

    state: Mapping[str, tf.Module] = {}

    def __init__(
        self,
        memory: EpisodeMemory,
        call: Callable[[], Metrics],
        num_updates: int,
        batch_size: int,
        steps: tf.Variable,
        schedule: Schedule,
        prepare: Callable[[int, bool], None],
    ):
        """Prepares the loop.

        Args:
          memory: the memory to learn from.
          call: a graph that makes the updates of a call.
          num_updates: updates of a call.
          batch_size: steps that an update draws.
          steps: the learner's own count of updates.
          schedule: says when a call is due.
          prepare: called before each call with the learner step and whether it is the first one.
        """
        self._memory = memory
        self._call = call
        self._batch_size = batch_size
        self.num_samples = num_updates * batch_size
        self._steps = steps
        self.schedule = schedule
        self._prepare = prepare
        self._num_updates = num_updates
        self._next: int | None = None  # learner step of the next call; read when it is restored
        self.statistics: EpisodeStatistics | None = None
        self.priority_lag = float(num_updates)
        self.beside: Callable[[EpisodeStatistics], AbstractContextManager] = lambda statistics: (
            nullcontext()
        )

    def step(self) -> Metrics | None:
        """Makes the updates of one call.

        Returns:
          Their metrics. None if the call is not due yet, or if the memory has less than a batch,
          because the first episodes are longer than the steps before the first update.

        Raises:
          UnusableEnvironmentError: the memory removes episodes before it has a batch.
          DivergedError: an update is not finite.
        """
        self.statistics = self._memory.statistics()
        if not self.schedule.may_sample(self.statistics, self.num_samples):
            return None
        if self.statistics.items < self._batch_size:
            if self.statistics.removed:
                raise UnusableEnvironmentError(
                    "--environment has so long episodes that the memory, from which whole ones are "
                    f"removed, holds {self.statistics.items} steps, fewer than a batch of "
                    f"{self._batch_size}: raise --config.replay_capacity"
                )
            return None
        begin = int(self._steps) if self._next is None else self._next
        self._prepare(begin, self._next is None)
        self._next = begin + self._num_updates
        with self.beside(self.statistics):
            metrics = self._call()
        metrics_lib.check_finite(metrics)
        return metrics

    def flush(self) -> None:
        """Does nothing: no work is under way between calls."""

    def close(self) -> None:
        """Does nothing."""
