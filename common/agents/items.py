"""Data of items in a `Memory`: transitions or sequences."""

import math
from typing import Any

from common.agents.data import Data
from common.replay.distributions import Distribution
from common.replay.memory import HARD_CAPACITY, ItemWire, Memory
from common.replay.rate_limiter import RateLimiter
from common.types import Nest


class ItemData(Data):
    """Base of data whose store is a `Memory`.

    Attributes:
      distributions: of the memory, by name: the learner draws from "sample"; "remove" removes.
      sequence_length: T, timesteps of an item that is a sequence; 0 if an item is one step.
    """

    sequence_length = 0

    def __init__(
        self,
        config: Any,
        sample: Distribution,
        remove: Distribution,
        *,
        send_batch: int = 1,
        num_copies: int = 1,
        reward_clip: float | None = None,
        is_soft: bool = False,
    ):
        """Copies fields of the configuration.

        Args:
          config: a paper's dataclass of hyperparameters.
          sample: from which the learner draws.
          remove: which picks the items to remove.
          send_batch: actor steps that an actor process sends at a time.
          num_copies: copies of each transition (Ape-X appendix A). Each copy is an item of its own
            and counts in `min_replay_size` and `replay_capacity`.
          reward_clip: bound on the magnitude of rewards as the adder stores them; None for none.
          is_soft: whether the capacity is a soft limit, above which the learner removes (Ape-X
            section 4.1).
        """
        self._config = config
        self.distributions = {"sample": sample, "remove": remove}
        self.send_batch = send_batch
        self.num_copies = num_copies
        self._reward_clip = reward_clip
        self._is_soft = is_soft

    def make_store(self, specs: Nest, seed: int, num_shards: int = 1) -> Memory:
        """Builds the memory, or a shard of it; see base class."""
        capacity = math.ceil(self._config.replay_capacity / num_shards)
        return Memory(
            specs,
            capacity,
            self.distributions,
            "remove",
            seed=seed + 1,
            hard_capacity=HARD_CAPACITY * capacity if self._is_soft else None,
            sequence_length=self.sequence_length,
        )

    def wire(self, specs: Nest) -> ItemWire:
        """See base class."""
        return ItemWire(specs, self.sequence_length)

    def rate_limiter(self, num_samples: int, num_ahead: int | None) -> RateLimiter:
        """Returns the limit on how far actors and learner may run ahead of each other.

        The tolerance is at least the samples of two calls, or of the present call and the
        prefetched ones if those are more. It is also at least two sends of an actor process: with
        less than a send, the learner would wait for each send and the actors for the learner after
        it.
        """
        ratio = self._config.samples_per_insert or None
        calls, sent = 2, 0.0
        if num_ahead is not None:
            calls = max(calls, 1 + num_ahead)
            sent = self.send_batch * self.num_copies * (ratio or 0.0)
        tolerance = max(float(calls * num_samples), 2.0 * sent)
        return RateLimiter(self._config.min_replay_size, ratio, tolerance)
