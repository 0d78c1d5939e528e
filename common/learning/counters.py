"""Wall-clock time and actor steps of a run, over all starts of its learner, replay and actors."""

from collections.abc import Mapping
import time

import tensorflow as tf

_UNKNOWN = 0
"""Stands for incarnations that died with their counts; a replay hands out larger numbers."""


class SavedCounters(tf.Module):
    """The counters as a checkpoint keeps them.

    Attributes:
      wall_seconds: float64.
      incarnations: int64 [n], starts of actor processes, as the replay numbered them.
      accepted: int64 [n], transitions accepted from each.
    """

    def __init__(self):
        super().__init__()
        self.wall_seconds = tf.Variable(0.0, dtype=tf.float64, trainable=False)
        self.incarnations = tf.Variable(tf.zeros([0], tf.int64), shape=[None], trainable=False)
        self.accepted = tf.Variable(tf.zeros([0], tf.int64), shape=[None], trainable=False)


class Counters:
    """Wall-clock time and actor steps of a run that continues from saved counters.

    An actor's step counts when the replay has accepted the transition that begins with it. The
    replay counts by incarnation and loses its counts when it dies. The largest count that was ever
    reported for each incarnation is kept here, so that every accepted transition counts once.

    Args:
      saved: the restored counters; `store` writes to them.
      wall_seconds: seconds known to have passed from elsewhere: a learner that was killed has
        worked on after its last checkpoint.
      actor_steps: actor steps known to have been accepted, likewise, until the replay reports them.
    """

    def __init__(self, saved: SavedCounters, wall_seconds: float = 0.0, actor_steps: int = 0):
        self._known_actor_steps = actor_steps
        self._saved = saved
        self._begin = time.monotonic() - max(float(saved.wall_seconds), wall_seconds)
        self._accepted = dict(
            zip(saved.incarnations.numpy().tolist(), saved.accepted.numpy().tolist(), strict=True)
        )
        self._stored = dict(self._accepted)

    @property
    def wall_seconds(self) -> float:
        """Seconds since the run's first start, without the time between its starts."""
        return time.monotonic() - self._begin

    @property
    def actor_steps(self) -> int:
        """Transitions of all actors that were accepted, as far as `update` was told."""
        return max(sum(self._accepted.values()), self._known_actor_steps)

    def count_unreported(self) -> None:
        """Adds steps that learner.csv recorded but no replay reports.

        Call it only where actors and replay died with this process.
        """
        unreported = self.actor_steps - sum(self._accepted.values())
        if unreported:
            self._accepted[_UNKNOWN] = self._accepted.get(_UNKNOWN, 0) + unreported

    def update(self, accepted: Mapping[int, int]) -> bool:
        """Takes in a replay's counts: transitions accepted from each incarnation.

        Returns:
          Whether there are counts now that neither that replay nor the last `store` has: a replay
          has died, and it is time to save.
        """
        for incarnation, count in accepted.items():
            self._accepted[incarnation] = max(count, self._accepted.get(incarnation, 0))
        return any(
            count > max(self._stored.get(incarnation, 0), accepted.get(incarnation, 0))
            for incarnation, count in self._accepted.items()
        )

    def store(self) -> None:
        """Brings the saved counters up to date."""
        self._saved.wall_seconds.assign(self.wall_seconds)
        self._saved.incarnations.assign(list(self._accepted))
        self._saved.accepted.assign(list(self._accepted.values()))
        self._stored = dict(self._accepted)
