"""Wall-clock time and actor steps of a run, across restarts of its learner, replay and actors."""

from collections.abc import Mapping
import time

import tensorflow as tf

_UNKNOWN = 0
"""Stands for incarnations whose counts were lost; the numbers that a replay assigns are larger."""
_MOST_STEPS = 2**53
"""Upper bound of the sum: a float64 has every integer up to it."""


class SavedCounters(tf.Module):
    """The counters in a checkpoint.

    Attributes:
      wall_seconds: float64, since the run's first start.
      incarnations: int64 [n], the numbers that the replay assigned to starts of actor processes.
      accepted: int64 [n], transitions accepted from each incarnation.
    """

    def __init__(self):
        super().__init__()
        self.wall_seconds = tf.Variable(0.0, dtype=tf.float64, trainable=False)
        self.incarnations = tf.Variable(tf.zeros([0], tf.int64), shape=[None], trainable=False)
        self.accepted = tf.Variable(tf.zeros([0], tf.int64), shape=[None], trainable=False)


class RunCounters:
    """Wall-clock time and actor steps of a run, continued from saved counters.

    An actor step counts once the replay has accepted the transition that begins with it. The replay
    counts by incarnation and loses its counts when it dies. This class keeps the largest count ever
    reported for each incarnation, so that every accepted transition counts once.
    """

    def __init__(self, saved: SavedCounters, wall_seconds: float = 0.0, actor_steps: int = 0):
        """Starts the clock.

        Args:
          saved: the restored counters; `store` writes to them.
          wall_seconds: last time in learner.csv, which is later than the checkpoint if the learner
            was killed.
          actor_steps: last number of actor steps in learner.csv, valid until the replay reports
            them.
        """
        self._known_actor_steps = actor_steps
        self._saved = saved
        self._begin = time.monotonic() - max(float(saved.wall_seconds), wall_seconds)
        self._accepted = dict(
            zip(saved.incarnations.numpy().tolist(), saved.accepted.numpy().tolist(), strict=True)
        )
        self._stored = dict(self._accepted)

    @property
    def wall_seconds(self) -> float:
        """Seconds since the run's first start, without the time in which it did not run."""
        return time.monotonic() - self._begin

    @property
    def actor_steps(self) -> int:
        """Accepted transitions of all actors, as of the last `update`."""
        return min(_MOST_STEPS, max(sum(self._accepted.values()), self._known_actor_steps))

    def count_unreported(self) -> None:
        """Adds steps that learner.csv recorded but no replay reports.

        Call it only where actors and replay die with this process.
        """
        unreported = self.actor_steps - sum(self._accepted.values())
        if unreported:
            self._accepted[_UNKNOWN] = self._accepted.get(_UNKNOWN, 0) + unreported

    def update(self, accepted: Mapping[int, int]) -> bool:
        """Merges the replay's counts.

        Args:
          accepted: transitions accepted from each incarnation.

        Returns:
          True if neither this replay nor the last `store` has all counts, because a replay has
          died: it is time to save.
        """
        for incarnation, count in accepted.items():
            self._accepted[incarnation] = max(count, self._accepted.get(incarnation, 0))
        return any(
            count > max(self._stored.get(incarnation, 0), accepted.get(incarnation, 0))
            for incarnation, count in self._accepted.items()
        )

    def store(self) -> None:
        """Writes the present counts to the saved counters."""
        self._saved.wall_seconds.assign(self.wall_seconds)
        self._saved.incarnations.assign(list(self._accepted))
        self._saved.accepted.assign(list(self._accepted.values()))
        self._stored = dict(self._accepted)
