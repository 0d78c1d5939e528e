"""A memory that is split into shards: several stores of items, which may be remote.

More shards give more memory, more bandwidth and more requests per second. An actor process adds to
one shard; the learner draws from all. A key says which shard stores it (`common.replay.columns`).
"""

from collections.abc import Callable, Sequence
from concurrent import futures
import time
from typing import Any

from absl import logging
import numpy as np
import tensorflow as tf

from common.cluster.errors import ClusterError, ServiceUnavailableError
from common.replay import columns
from common.replay import store as store_lib
from common.replay.memory import Items, Sample
from common.replay.store import Counters, Store
from common.types import Nest

_AWAY_SECONDS = 5.0
"""Time before a shard that did not answer is asked again, since each timeout takes a second."""


class ShardedStore(Store):
    """Several memories of items as one.

    An item is drawn with the probability that it would have in one large memory: a draw picks a
    shard in proportion to its total mass, and the shard then draws the item. Shards are called in
    parallel. An error names its shard; the calls of other shards are not undone.
    """

    keyed = True

    def __init__(self, stores: Sequence[Store]):
        """Joins stores of equal columns, in the order of the shard numbers in keys."""
        self._stores = list(stores)
        self.wire = self._stores[0].wire
        # Two threads a shard: a learner calls `accepted` while it draws in the background.
        self._threads = futures.ThreadPoolExecutor(2 * len(self._stores), "shard")

    def put(self, rows: Items) -> bool:
        """Adds items of one actor process, whose keys all name the same shard."""
        if not len(rows.keys):
            return True
        shard = int(columns.shard_of(rows.keys[0])) % len(self._stores)
        return self._call({shard: lambda store: store.put(rows)})[shard]

    def draw(self, num_items: int, seed: int | None = None) -> Sample:
        """Draws items with replacement; see `Memory.draw`.

        A shard is drawn for each row separately, so that any part of the rows is a fair sample. The
        seed and the shards' contents determine the draw.

        Raises:
          tf.errors.FailedPreconditionError: there is nothing to draw.
        """
        totals, count = self._masses()
        total = totals.sum()
        if not total > 0:
            raise tf.errors.FailedPreconditionError(None, None, "there is nothing to draw")
        generator = np.random.default_rng(store_lib.derive_seed(seed, 0) if seed else None)
        rows = self._rows(generator.choice(len(totals), num_items, p=totals / total))

        def draw(shard: int) -> Callable:
            part_seed = store_lib.derive_seed(seed, 1 + shard) if seed else None
            return lambda store: store.draw(len(rows[shard]), seed=part_seed)

        parts = self._call({i: draw(i) for i in rows})
        # A shard's total mass may have changed since `_masses` read it.
        masses = [part.masses * (totals[i] / part.total_mass) for i, part in parts.items()]
        places = [tf.constant(of, tf.int32) for of in rows.values()]

        def join(of_shards: Sequence[Nest]) -> Nest:
            return tf.nest.map_structure(lambda *of: tf.dynamic_stitch(places, of), *of_shards)

        return Sample(
            keys=join([part.keys for part in parts.values()]),
            masses=join(masses),
            total_mass=tf.constant(total, tf.float64),
            count=tf.constant(count, tf.int64),
            lengths=join([part.lengths for part in parts.values()]),
            steps=join([part.steps for part in parts.values()]),
        )

    def write_back(self, token, outputs) -> tf.Tensor:
        """Sets raw priorities [B]; returns how many of the items are gone (int64)."""
        keys, priorities = np.asarray(token), np.asarray(outputs)
        # A key whose shard no longer exists (the run had more shards before) is sent to another
        # shard, which reports it as missing.
        rows = self._rows(columns.shard_of(keys) % len(self._stores))
        missing = self._call(
            {
                i: lambda store, of=of: store.write_back(keys[of], priorities[of])
                for i, of in rows.items()
            }
        )
        return tf.add_n(list(missing.values()))

    def trim(self) -> tf.Tensor:
        """Removes items until each shard fits its capacity; returns how many items (int64)."""
        return tf.add_n(self._call_all(lambda store: store.trim()))

    def mass(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the sum of all items' masses (float64) and their number (int64)."""
        totals, count = self._masses()
        return tf.constant(totals.sum(), tf.float64), tf.constant(count, tf.int64)

    def counters(self) -> Counters:
        """Returns the counters, summed over the shards."""
        return Counters.total(self._call_all(lambda store: store.counters()))

    def accepted(self) -> dict[int, int]:
        """Returns the actor steps accepted from each incarnation by the shards that answer."""

        def ask(store: Any) -> dict[int, int]:
            try:
                return store.accepted()
            except ServiceUnavailableError:
                return {}

        counts = self._call_all(ask)
        return {incarnation: count for shard in counts for incarnation, count in shard.items()}

    def disconnect(self, finished: bool) -> None:
        """Tells every service that this learner disconnects, and whether the run is over."""
        self._call_all(lambda store: store.disconnect(finished))

    def _masses(self) -> tuple[np.ndarray, int]:
        """Returns the total mass of each shard, and the number of items in all of them."""
        masses = self._call_all(lambda store: store.mass())
        return np.array([float(total) for total, _ in masses]), sum(int(n) for _, n in masses)

    def _rows(self, shards: np.ndarray) -> dict[int, np.ndarray]:
        """Returns the rows of each shard that has any."""
        rows = {i: np.flatnonzero(shards == i) for i in range(len(self._stores))}
        return {i: of for i, of in rows.items() if len(of)}

    def _call_all(self, function: Callable) -> list:
        return list(self._call(dict.fromkeys(range(len(self._stores)), function)).values())

    def _call(self, functions: dict[int, Callable]) -> dict[int, Any]:
        """Calls a function for each shard in parallel; raises errors after all calls have ended."""
        calls = {
            i: self._threads.submit(self._call_one, i, function)
            for i, function in functions.items()
        }
        futures.wait(calls.values())
        return {i: call.result() for i, call in calls.items()}

    def _call_one(self, shard: int, function: Callable):
        try:
            return function(self._stores[shard])
        except ClusterError as error:
            raise type(error)(f"replay {shard}: {error}") from None
        except tf.errors.OpError as error:
            message = f"replay {shard}: {error.message}"
            raise type(error)(error.node_def, error.op, message) from None


class CountersOfAll:
    """A function that adds the counters of a replay's other shards to those of an actor's shard.

    `RateLimiter` compares all inserts with all samples. One shard's counters do not suffice: it is
    sampled in proportion to its mass, not to its inserts. A shard that does not answer counts as it
    did when it last answered. Shards are asked in parallel.
    """

    def __init__(self, others: Sequence[Store]):
        """Prepares to ask `others`, which may be empty, at each call."""
        self._others = list(others)
        self._seen: list[Counters | None] = [None] * len(self._others)
        self._ask_from = [0.0] * len(self._others)
        self._threads = futures.ThreadPoolExecutor(max(1, len(self._others)), "counters")

    def __call__(self, own: Counters) -> Counters:
        """Returns the counters summed over all shards; `own` are the actor's shard's counters."""
        now = time.monotonic()
        due = [i for i, ask_from in enumerate(self._ask_from) if now >= ask_from]
        list(self._threads.map(self._ask, due))  # waits for all, and raises their errors
        return Counters.total([own, *(seen for seen in self._seen if seen is not None)])

    def _ask(self, other: int) -> None:
        try:
            self._seen[other] = self._others[other].counters()
        except ServiceUnavailableError as error:
            self._ask_from[other] = time.monotonic() + _AWAY_SECONDS
            logging.log_every_n_seconds(
                logging.WARNING, "going on without the counters of a shard: %s", 60, error
            )
