"""What a run has behind it, over all lives of its learner, its replay and its actors."""

from collections.abc import Mapping
import time

import tensorflow as tf

_UNKNOWN = 0
"""In the place of incarnations that died with their accounts; a replay hands out larger ones."""


class Progress(tf.Module):
    """The counters as a checkpoint keeps them.

    wall_seconds: float64. incarnations, accepted: int64 [n], transitions accepted from each.
    """

    def __init__(self):
        super().__init__()
        self.wall_seconds = tf.Variable(0.0, dtype=tf.float64, trainable=False)
        self.incarnations = tf.Variable(tf.zeros([0], tf.int64), shape=[None], trainable=False)
        self.accepted = tf.Variable(tf.zeros([0], tf.int64), shape=[None], trainable=False)


class Counters:
    """Wall time and actor steps of a run that goes on from `progress`.

    A step of an actor counts when the replay has accepted the transition that begins with it. The
    replay keeps the count of each incarnation of the actors, and forgets when it dies; here the
    largest that was ever seen of each one stays, so every accepted transition counts once.
    """

    def __init__(self, progress: Progress, wall_seconds: float = 0.0, actor_steps: int = 0):
        """Goes on.

        Args:
          progress: as restored; `store` writes to it.
          wall_seconds: that are known to have passed, from elsewhere: a learner that was killed has
            worked on after its last checkpoint.
          actor_steps: that are known to have been accepted, likewise: until the accounts are there
            again, of a replay that was killed as well.
        """
        self._known_actor_steps = actor_steps
        self._progress = progress
        self._begin = time.monotonic() - max(float(progress.wall_seconds), wall_seconds)
        self._accepted = dict(
            zip(progress.incarnations.numpy().tolist(), progress.accepted.numpy().tolist())
        )
        self._stored = dict(self._accepted)

    @property
    def wall_seconds(self) -> float:
        """Since the run's first start, without the time between its starts."""
        return time.monotonic() - self._begin

    @property
    def actor_steps(self) -> int:
        """Transitions of all actors that were accepted, as far as `see` was told."""
        return max(sum(self._accepted.values()), self._known_actor_steps)

    def book_unknown(self) -> None:
        """Counts what is known but in no account, where nobody else is left to account for it."""
        unknown = self.actor_steps - sum(self._accepted.values())
        if unknown:
            self._accepted[_UNKNOWN] = self._accepted.get(_UNKNOWN, 0) + unknown

    def see(self, accepted: Mapping[int, int]) -> bool:
        """Takes in a replay's accounts: transitions accepted from each incarnation.

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
        """Brings `progress` up to date, to be saved."""
        self._progress.wall_seconds.assign(self.wall_seconds)
        self._progress.incarnations.assign(list(self._accepted))
        self._progress.accepted.assign(list(self._accepted.values()))
        self._stored = dict(self._accepted)
