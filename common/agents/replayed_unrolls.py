"""Data of unrolls, which actors keep in replays of their own and send to the learner's queue."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tree

from common.acting.unrolls import UnrollAdder
from common.agents.data import Data
from common.remote.outbox import Delivery, Writer
from common.replay.local_replay import LocalReplay
from common.replay.rate_limiter import UNLIMITED, RateLimiter
from common.replay.unroll_queue import UnrollQueue, UnrollWire
from common.types import Nest, Unrolls


class ReplayedUnrolls(Data):
    """Unrolls of T timesteps, new and replayed ones (AQL algorithm 2).

    For each unroll an actor sends that unroll and R others, drawn from its replay, to the learner's
    queue. So (learner steps) * B * T = (1 + R) * timesteps.
    """

    in_lockstep = True
    pull_timestep = 1  # an unroll is complete once the next timestep is observed

    def __init__(self, config: Any, columns: Callable[[Unrolls], Nest]):
        """Copies fields of the configuration.

        Args:
          config: a paper's dataclass of hyperparameters.
          columns: returns what is stored and sent of M unrolls, nest of [M, T, ...].
        """
        self._config = config
        self._columns = columns
        self.steps_per_item = config.unroll_length

    def make_adder(self, num_environments: int, share: float = 1.0) -> UnrollAdder:
        """Builds the adder for a batch of environments."""
        del share
        return UnrollAdder(num_environments, self._config.unroll_length)

    def make_store(self, specs: Nest, seed: int, num_shards: int = 1) -> UnrollQueue:
        """Builds the learner's queue; see base class.

        Raises:
          ValueError: a call needs more unrolls than the queue holds.
        """
        del seed, num_shards
        config = self._config
        if self._most_put < 1:
            raise ValueError(
                f"a call of updates takes {config.batch_size * config.updates_per_call} unrolls, "
                f"but the queue holds {config.queue_capacity}: raise queue_capacity, or lower "
                "batch_size or updates_per_call"
            )
        return UnrollQueue(specs, config.queue_capacity)

    def wire(self, specs: Nest) -> UnrollWire:
        """See base class."""
        return UnrollWire(specs)

    def make_writer(self, *, actors: range, specs: Nest, seed: int, **_: Any) -> Writer:
        """Builds the writer of some actors, with their replays; see base class."""
        config = self._config
        replay = LocalReplay(specs, config.replay_capacity, config.unroll_length, seed)
        return _UnrollWriter(replay, actors, self._columns, config.replayed_unrolls, self._most_put)

    def rate_limiter(self, num_samples: int, num_ahead: int | None) -> RateLimiter:
        """Returns no limit: the queue's capacity is one."""
        return UNLIMITED

    @property
    def _most_put(self) -> int:
        """Unrolls of the largest put that the queue takes while the learner lacks a batch."""
        config = self._config
        return config.queue_capacity - config.batch_size * config.updates_per_call + 1


class _UnrollWriter(Writer):
    def __init__(
        self,
        replay: LocalReplay,
        actors: range,
        columns: Callable[[Unrolls], Nest],
        num_replayed: int,
        most_put: int,
    ):
        super().__init__()
        self.replay: LocalReplay = replay
        self._actors = np.asarray(actors)
        self._columns = columns
        self._num_replayed = num_replayed
        self._most_put = most_put

    def count_steps(self, added: Unrolls) -> int:
        """Returns the number of timesteps at which an action was taken."""
        return int(np.count_nonzero(~added.is_last))

    def deliveries(self, collected: Sequence[Unrolls]) -> list[Delivery]:
        """Returns unrolls, each followed by R from its actor's replay.

        The steps count once all of them are taken.
        """
        (added,) = collected
        burst = self.replay.burst(
            self._actors[added.environment_index], self._columns(added), self._num_replayed
        )
        num_rows = len(tree.flatten(burst)[0])
        slices = [slice(i, i + self._most_put) for i in range(0, num_rows, self._most_put)]
        parts = [
            tree.map_structure(lambda column, rows=rows: column[rows], burst) for rows in slices
        ]
        steps = [0] * (len(parts) - 1) + [self.count_steps(added)]
        return list(map(Delivery, parts, steps))
