"""A replay in several memories, its shards, each behind a service of its own.

Memory, bandwidth and the load of requests grow with their number: actors add to one of them each,
the learner draws from all. A key says which shard it is in (`common.replay.keys`).
"""

from collections.abc import Callable, Sequence
from concurrent import futures
import time
from typing import Any

from absl import logging
import numpy as np
import tensorflow as tf

from common.cluster.errors import ClusterError, ServiceUnavailableError
from common.replay import keys as keys_lib
from common.replay import memory as memory_lib
from common.replay import seeds

Nest = Any

_AWAY_SECONDS = 5.0
"""How long a shard that did not answer is not asked again: each time-out takes a second."""


class ShardedMemory:
    """The shards as one memory, with what a learner needs of `RemoteMemory`.

    An item is drawn with the probability that it would have in one large memory: first the shard,
    in proportion to its total mass, then the item, by the shard itself. The shards are called in
    parallel. An error names the shard it comes from, and leaves what others did as it is.
    """

    def __init__(self, memories: Sequence):
        """Joins memories.

        Args:
          memories: `RemoteMemory` or `Memory`, of one signature, by the number in the keys.
        """
        self._memories = list(memories)
        # Twice as many: a learner asks for accounts while it draws in the background.
        self._threads = futures.ThreadPoolExecutor(2 * len(self._memories), "shard")

    def sample(self, batch_size: int, seed: int | None = None) -> memory_lib.Sample:
        """Draws items with replacement, as `Memory.sample`.

        Each row is of a shard that is drawn for it, so that any part of the rows is a fair sample.
        What is drawn follows from the seed and the contents.

        Raises:
          tf.errors.FailedPreconditionError: if there is nothing to draw.
        """
        numbers = range(len(self._memories))
        masses = self._call({i: lambda memory: memory.mass() for i in numbers})
        totals = np.array([float(total) for total, _ in masses.values()])
        count = sum(int(items) for _, items in masses.values())
        total = totals.sum()
        if not total > 0:
            raise tf.errors.FailedPreconditionError(None, None, "there is nothing to draw")
        generator = np.random.default_rng(seeds.derive(seed, 0) if seed else None)
        rows = self._rows(generator.choice(len(totals), batch_size, p=totals / total))

        def draw(shard: int) -> Callable:
            part_seed = seeds.derive(seed, 1 + shard) if seed else None
            return lambda memory: memory.sample(len(rows[shard]), seed=part_seed)

        parts = self._call({i: draw(i) for i in rows})
        # A shard's total may have moved since it was asked.
        masses = [part.masses * (totals[i] / part.total_mass) for i, part in parts.items()]
        join = _Join(rows)
        return memory_lib.Sample(
            keys=join([part.keys for part in parts.values()]),
            masses=join(masses),
            total_mass=tf.constant(total, tf.float64),
            count=tf.constant(count, tf.int64),
            lengths=join([part.lengths for part in parts.values()]),
            steps=join([part.steps for part in parts.values()]),
        )

    def read(self, keys) -> tuple[tf.Tensor, Nest]:
        """Returns which keys [B] are there and their steps, as `Memory.read`; B is at least 1."""
        keys, rows = self._route(keys)
        parts = self._call(
            {i: lambda memory, of=of: memory.read(keys[of]) for i, of in rows.items()}
        )
        join = _Join(rows)
        return (
            join([found for found, _ in parts.values()]),
            join([steps for _, steps in parts.values()]),
        )

    def update_priorities(self, keys, priorities) -> tf.Tensor:
        """Sets raw priorities and returns how many items were gone, as `Memory`."""
        keys, rows = self._route(keys)
        priorities = np.asarray(priorities)
        missing = self._call(
            {
                i: lambda memory, of=of: memory.update_priorities(keys[of], priorities[of])
                for i, of in rows.items()
            }
        )
        return tf.add_n(list(missing.values()))

    def remove_to_fit(self) -> tf.Tensor:
        """Removes from each what exceeds its capacity and returns how many items that were."""
        return tf.add_n(self._call_all(lambda memory: memory.remove_to_fit()))

    def statistics(self) -> memory_lib.Statistics:
        """Returns the sums of the counters."""
        return total_of(self._call_all(lambda memory: memory.statistics()))

    def accepted(self) -> dict[int, int]:
        """Returns how many transitions were accepted from each incarnation, by all that answer."""

        def ask(memory) -> dict[int, int]:
            try:
                return memory.accepted()
            except ServiceUnavailableError:
                return {}

        accounts = self._call_all(ask)
        return {incarnation: count for one in accounts for incarnation, count in one.items()}

    def leave(self, finished: bool) -> None:
        """Tells the process of each that this learner ends, and whether the run is over."""
        self._call_all(lambda memory: memory.leave(finished))

    def _route(self, keys) -> tuple[np.ndarray, dict[int, np.ndarray]]:
        """Returns keys [B], and which of them each shard gets.

        One that names a shard which there is not, as of a run that had more, is missing elsewhere.
        """
        keys = np.asarray(keys)
        return keys, self._rows(keys_lib.shard_of(keys) % len(self._memories))

    def _rows(self, shards: np.ndarray) -> dict[int, np.ndarray]:
        """Which rows are of each shard, for those that have any."""
        rows = {i: np.flatnonzero(shards == i) for i in range(len(self._memories))}
        return {i: of for i, of in rows.items() if len(of)}

    def _call_all(self, function: Callable) -> list:
        return list(self._call(dict.fromkeys(range(len(self._memories)), function)).values())

    def _call(self, functions: dict[int, Callable]) -> dict[int, Any]:
        """Calls a function of each of these shards; when all have ended, raises what failed."""
        calls = {
            i: self._threads.submit(self._call_one, i, function)
            for i, function in functions.items()
        }
        futures.wait(calls.values())
        return {i: call.result() for i, call in calls.items()}

    def _call_one(self, shard: int, function: Callable):
        try:
            return function(self._memories[shard])
        except ClusterError as error:
            raise type(error)(f"replay {shard}: {error}") from None
        except tf.errors.OpError as error:
            message = f"replay {shard}: {error.message}"
            raise type(error)(error.node_def, error.op, message) from None


class CountersOfAll:
    """Adds the counters of a replay's other shards to those that an actor's own shard has told.

    `Schedule` relates all inserts to all samples: of its own samples alone no shard could tell, for
    it gets its share of the mass, not of the inserts. A shard that is away counts as it was. The
    shards are asked in parallel.
    """

    def __init__(self, others: Sequence):
        """Asks `others`, memories, each time; of none of them there is nothing to add."""
        self._others = list(others)
        self._seen: list[memory_lib.Statistics | None] = [None] * len(self._others)
        self._ask_from = [0.0] * len(self._others)
        self._threads = futures.ThreadPoolExecutor(max(1, len(self._others)), "counters")

    def __call__(self, own: memory_lib.Statistics) -> memory_lib.Statistics:
        """Returns the sums of all."""
        now = time.monotonic()
        due = [i for i, ask_from in enumerate(self._ask_from) if now >= ask_from]
        list(self._threads.map(self._ask, due))  # the list waits for all, and raises
        return total_of([own, *(one for one in self._seen if one is not None)])

    def _ask(self, other: int) -> None:
        try:
            self._seen[other] = self._others[other].statistics()
        except ServiceUnavailableError as error:
            self._ask_from[other] = time.monotonic() + _AWAY_SECONDS
            logging.log_every_n_seconds(
                logging.WARNING, "going on without the counters of a shard: %s", 60, error
            )


def total_of(statistics: Sequence[memory_lib.Statistics]) -> memory_lib.Statistics:
    """Returns the sum of each counter."""
    return memory_lib.Statistics(*(sum(column) for column in zip(*statistics)))


class _Join:
    """Puts the rows of parts, [b, ...] each, where they belong in [B, ...]."""

    def __init__(self, rows: dict[int, np.ndarray]):
        self._rows = [tf.constant(of, tf.int32) for of in rows.values()]

    def __call__(self, parts: Sequence[Nest]) -> Nest:
        return tf.nest.map_structure(lambda *of: tf.dynamic_stitch(self._rows, of), *parts)
