"""The credit counter that relates inserts to samples."""

import dataclasses

from common.replay.store import Counters


@dataclasses.dataclass(frozen=True)
class RateLimiter:
    """A limit on how far actors and learner may run ahead of each other.

    The credit is the number of samples that inserts have paid for and the learner has not drawn:

        credit = samples_per_insert * (inserted - min_size) - sampled.

    The learner may sample while the credit stays above -tolerance; actors may insert while it stays
    below +tolerance. The store blocks nobody: callers ask and wait by short polls.

    The counters are those of the store, summed over its shards. A shard that restarts loses its
    insert and sample counts together. The difference is then missing from the sums, so the side
    that appears to be ahead waits until it is made up.

    Attributes:
      min_size: items inserted before the first sample.
      samples_per_insert: ratio to keep; None lets both sides run free (Ape-X, section 3).
      tolerance: samples by which either side may run ahead; at least those of one call.
      min_items: stored items below which actors may insert whatever the credit, since the learner
        cannot draw: a step of an episode counts before it is stored.
    """

    min_size: int = 0
    samples_per_insert: float | None = None
    tolerance: float = 0.0
    min_items: int = 0

    def _credit(self, counters: Counters) -> float:
        assert self.samples_per_insert is not None
        paid = self.samples_per_insert * (counters.inserted - self.min_size)
        return paid - counters.sampled

    def may_sample(self, counters: Counters, num_samples: int) -> bool:
        """Returns whether the learner may draw `num_samples` items now."""
        if counters.inserted < self.min_size:
            return False
        if self.samples_per_insert is None:
            return True
        return self._credit(counters) - num_samples >= -self.tolerance

    def may_insert(self, counters: Counters) -> bool:
        """Returns whether an actor may go on acting and inserting now."""
        if self.samples_per_insert is None:
            return True
        if counters.inserted < self.min_size or counters.items < self.min_items:
            return True
        return self._credit(counters) <= self.tolerance


UNLIMITED = RateLimiter()
"""The limiter of a store that limits both sides by its capacity."""
