"""The credit counter that relates inserts to samples."""

import dataclasses

from common.replay.replay_memory import AnyStatistics


@dataclasses.dataclass(frozen=True)
class Schedule:
    """A limit on how far actors and learner may run ahead of each other.

    The credit is the number of samples that inserts have paid for and the learner has not drawn:
        credit = samples_per_insert * (inserted - min_size) - sampled.
    The learner may sample while the credit stays above -tolerance; actors may insert while it stays
    below +tolerance. The memory blocks nobody: callers ask and wait by short polls.

    The counters are those of the memory, summed over its shards. A shard that restarts loses its
    insert and sample counts together. The difference is then missing from the sums, so the side
    that appears to be ahead waits until it is made up.

    Attributes:
      min_size: items inserted before the first sample.
      samples_per_insert: ratio to keep; None lets both sides run free (Ape-X, section 3).
      tolerance: samples by which either side may run ahead; at least those of one call.
    """

    min_size: int
    samples_per_insert: float | None
    tolerance: float

    def _credit(self, statistics: AnyStatistics) -> float:
        paid = self.samples_per_insert * (statistics.inserted - self.min_size)
        return paid - statistics.sampled

    def may_sample(self, statistics: AnyStatistics, num_samples: int) -> bool:
        """Returns whether the learner may draw `num_samples` items now."""
        if statistics.inserted < self.min_size:
            return False
        if self.samples_per_insert is None:
            return True
        return self._credit(statistics) - num_samples >= -self.tolerance

    def may_insert(self, statistics: AnyStatistics) -> bool:
        """Returns whether an actor may go on acting and inserting now."""
        if self.samples_per_insert is None or statistics.inserted < self.min_size:
            return True
        return self._credit(statistics) <= self.tolerance
