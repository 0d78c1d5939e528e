"""Speed of the memory of episodes.

Episodes have 1000 steps, as HalfCheetah's: observation 17, action 6, mean 6 and variance 6 of the
behaviour policy, float32. A batch is 256 steps. Every call comes from Python.
"""

from collections.abc import Callable
import dataclasses
import itertools
import time
from typing import Any

import numpy as np
import tensorflow as tf

from common.benchmarks.report import Row, interleave
from common.benchmarks.roles import BenchmarkedProgram
from common.replay.distributions import RankBased, Uniform
from common.replay.episodes import EpisodeMemory

_SPECS = {
    name: tf.TensorSpec([size], tf.float32)
    for name, size in {"observation": 17, "action": 6, "mean": 6, "variance": 6}.items()
}
_BATCH = 256
_PERIOD = 10
"""Updates between two rankings (the authors' code, not in the paper)."""
_BATCHES = 20 * _PERIOD
"""Different batches of refreshed values."""


@dataclasses.dataclass(frozen=True)
class EpisodeMemorySizes:
    """Amount of what is measured.

    Attributes:
      capacity: steps in the memory.
      length: steps of an episode.
      calls: calls of each measurement; a multiple of the period of ranks.
    """

    capacity: int = 2**18
    length: int = 1000
    calls: int = 500


FULL = EpisodeMemorySizes()
QUICK = EpisodeMemorySizes(capacity=2**13, length=100, calls=20)


def measure(program: BenchmarkedProgram, sizes: EpisodeMemorySizes, repeats: int) -> list[Row]:
    """Returns the rows of the episode_memory suite; the program does not matter.

    A draw and a refresh are beside those of rank-based sampling, whose refresh includes a ranking
    every ten updates. In the row "refresh" all values and importance weights change, and a sweep
    stops where the Retrace estimates do not; the weights are log-normal. In "refresh_full" each
    refresh follows a new reward scale, so that every sweep reaches the start of its episode. In
    "refresh_unchanged" nothing changes.
    """
    del program
    uniform = _Episodes(sizes, Uniform())
    ranked = _Episodes(sizes, RankBased(0.5, _PERIOD))
    name = "episode_memory/refresh"
    medians = interleave(
        "episode_memory",
        {
            "sample": uniform.sample,
            "sample by rank": ranked.sample,
            "refresh": uniform.refresh,
            "refresh by rank": ranked.refresh,
            "full": uniform.refresh_fully,
            "unchanged": uniform.refresh_unchanged,
            "count": uniform.count,
            "add": uniform.add,
            "add by rank": ranked.add,
        },
        repeats,
    )
    uniform.memory.check()
    ranked.memory.check()
    return [
        Row(
            "episode_memory/sample",
            medians["sample"],
            "us",
            "rank-based",
            medians["sample by rank"],
        ),
        Row(name, medians["refresh"], "us", "rank-based", medians["refresh by rank"]),
        Row(f"{name}_full", medians["full"], "us", "early stop", medians["refresh"]),
        Row(f"{name}_unchanged", medians["unchanged"], "us", "early stop", medians["refresh"]),
        Row("episode_memory/count_far_policy", medians["count"], "us"),
        Row("episode_memory/add", medians["add"], "us", "rank-based", medians["add by rank"]),
    ]


class _Episodes:
    """A full memory, and the time in microseconds of each kind of call."""

    def __init__(self, sizes: EpisodeMemorySizes, sampling: Uniform | RankBased):
        rng = np.random.default_rng(0)
        self._sizes = sizes
        self.memory = EpisodeMemory(_SPECS, sizes.capacity, 0.995, sampling, seed=1)
        states = {
            name: tf.constant(rng.normal(size=[sizes.length + 1, *spec.shape]), tf.float32)
            for name, spec in _SPECS.items()
        }
        rewards = tf.constant(rng.normal(size=sizes.length), tf.float32)
        values = tf.constant(rng.normal(size=sizes.length + 1), tf.float32)
        self._episode = states, rewards, values, False
        self._scales = itertools.cycle([1.0, 2.0])
        self._c_max = itertools.cycle([tf.constant(3 + i / 100) for i in range(100)])

        def column(of: Callable[[np.ndarray], np.ndarray] = lambda x: x) -> tf.Tensor:
            return tf.constant(of(rng.normal(size=_BATCH)), tf.float32)

        self._refreshed = itertools.cycle(
            [
                (column(), column(np.exp), column(np.abs), column(np.abs), column())
                for _ in range(_BATCHES)
            ]
        )
        for _ in range(sizes.capacity // sizes.length + 1):
            self.memory.add(*self._episode)
        # Most steps are drawn once at least.
        for _ in range(2 * sizes.capacity // _BATCH):
            self._refresh(self.memory.sample(_BATCH).keys)

    def sample(self) -> float:
        return self._time(lambda _: self.memory.sample(_BATCH))

    def refresh(self) -> float:
        return self._time(self._refresh, lambda: self.memory.sample(_BATCH).keys)

    def refresh_fully(self) -> float:
        def prepare() -> tf.Tensor:
            self.memory.set_reward_scale(next(self._scales), recompute=False)
            return self.memory.sample(_BATCH).keys

        return self._time(self._refresh, prepare)

    def refresh_unchanged(self) -> float:
        # The row before leaves stale estimates behind.
        self.memory.set_reward_scale(1.0, recompute=True)

        def prepare() -> tuple[Any, ...]:
            keys = self.memory.sample(_BATCH).keys
            values, rhos, divergences, _, _ = self.memory.stored(keys)
            return keys, values, rhos, divergences, tf.abs(values), tf.zeros([_BATCH])

        return self._time(lambda columns: self.memory.refresh(*columns, 4.0), prepare)

    def count(self) -> float:
        return self._time(self.memory.count_far_policy, lambda: next(self._c_max))

    def add(self) -> float:
        return self._time(lambda _: self.memory.add(*self._episode))

    def _refresh(self, keys: tf.Tensor) -> None:
        self.memory.refresh(keys, *next(self._refreshed), 4.0)

    def _time(
        self, call: Callable[[Any], object], prepare: Callable[[], Any] = lambda: None
    ) -> float:
        times = []
        for _ in range(self._sizes.calls):
            prepared = prepare()
            begin = time.perf_counter()
            call(prepared)
            times.append(time.perf_counter() - begin)
        # Each mean has one ranking; the median leaves out interruptions by other programs.
        return float(np.median(np.reshape(times, [-1, _PERIOD]).mean(1))) * 1e6
