"""Relates inserts to samples: the credit counter."""

import dataclasses

from common.replay import memory


@dataclasses.dataclass(frozen=True)
class Schedule:
    """Who may go on, by the memory's own counters; by their sums, if it is in several shards.

    The credit is what the actors have paid for and the learner has not yet used:
        credit = samples_per_insert * (inserted - min_size) - sampled.
    The learner may sample while the credit stays above -tolerance, the actors may insert while it
    stays below +tolerance. Nobody is blocked inside the memory: callers ask, and wait by short
    polls. A shard that begins anew takes both of its counters with it: by what they were apart, the
    side that is ahead of the other then waits.

    Attributes:
      min_size: items in the memory before the first sample.
      samples_per_insert: the ratio that is kept; None lets both sides run free (Ape-X, section 3).
      tolerance: how far, in samples, either side may run ahead; at least one call's samples.
    """

    min_size: int
    samples_per_insert: float | None
    tolerance: float

    def _credit(self, statistics: memory.Statistics) -> float:
        paid = self.samples_per_insert * (statistics.inserted - self.min_size)
        return paid - statistics.sampled

    def may_sample(self, statistics: memory.Statistics, num_samples: int) -> bool:
        """Whether the learner may draw `num_samples` items now."""
        if statistics.items < self.min_size:
            return False
        if self.samples_per_insert is None:
            return True
        return self._credit(statistics) - num_samples >= -self.tolerance

    def may_insert(self, statistics: memory.Statistics) -> bool:
        """Whether an actor may go on acting and inserting now."""
        if self.samples_per_insert is None or statistics.items < self.min_size:
            return True
        return self._credit(statistics) <= self.tolerance
