"""Speed and size of the memories of single papers."""

from collections.abc import Callable, Iterator
import itertools
import math
import operator
import time
from typing import Any

import numpy as np
import tensorflow as tf
import tree

from common.benchmarks.replay_cases import AddedBatch, FilledMemory, resident_bytes
from common.benchmarks.report import Bench, Row, say
from common.environments.spec import EnvironmentSpec
from common.replay.episode_memory import EpisodeMemory
from common.replay.memory import (
    UNKNOWN_PRIORITY,
    ContextualPriorityTree,
    Distribution,
    Fifo,
    Memory,
    Proportional,
    RankBased,
    Uniform,
)

_BATCH = 256
_FILL = 500
"""Steps added at once to fill a memory."""
_PERIOD = 10
"""Updates between two rankings (the authors' code, not in the paper)."""


def priority_tree(
    bench: Bench,
    items: tuple[int, ...] = (1_000, 1_000_000, 10_000_000),
    calls: int = 1000,
    frames: int = 40_000,
) -> Iterator[Row]:
    """Yields the speed and size of the tree that infers priorities, and of the memory around it.

    priority_tree/pairs_of_*: a pair is an item drawn and its priority set, 256 a call, from Python,
      in a full memory whose priorities were unknown when the items came in, and set for as many
      draws as it has items. Steps are of one float, so that the pairs are mostly their trees. The
      peer is the sum tree of proportional priorities in the same kind of memory.
    priority_tree/bytes_per_frame_byte: resident memory that frames of Atari add, with a sequence
      from each of them, over the bytes of the frames, 7,056 each. The rest is what else a step has,
      keys, the index, the tree and the order of removal.

    Args:
      bench: the request.
      items: of the memories whose trees are measured.
      calls: of each measurement.
      frames: in the memory whose size is measured.
    """
    for count in items:
        pairs = {
            "ours": _pairs(count, ContextualPriorityTree()),
            "sum tree": _pairs(count, Proportional(1.0)),
        }
        say(f"filled memories of {count:,} items")
        name = f"priority_tree/pairs_of_{count}"
        yield bench.rates(name, pairs, calls, _BATCH).row(name, "pairs/s", "ours", "sum tree")
        del pairs
    _memory_of_frames(bench, frames, _FILL)  # what the first use loads
    before = resident_bytes()
    memory = _memory_of_frames(bench, frames, frames)
    added = resident_bytes() - before
    frame_bytes = memory.statistics().steps * 84 * 84
    yield Row("priority_tree/bytes_per_frame_byte", added / frame_bytes, "B/B")


def _pairs(items: int, sample: Distribution) -> Callable[[], None]:
    memory = Memory(
        tf.TensorSpec([]), items, {"sample": sample, "remove": Fifo()}, "remove", seed=1
    )
    unknown = np.full(_FILL, UNKNOWN_PRIORITY, np.float32)
    FilledMemory(memory, items, [AddedBatch(np.zeros(_FILL, np.float32), unknown)])
    priorities = tf.random.Generator.from_seed(0).uniform([_BATCH], 0.1, 1.0)

    def draw_and_set() -> None:
        memory.update_priorities(memory.sample(_BATCH).keys, priorities)

    for _ in range(math.ceil(items / _BATCH)):
        draw_and_set()
    return draw_and_set


def _memory_of_frames(bench: Bench, capacity: int, frames: int) -> Memory:
    agent = bench.make_agent(replay_capacity=capacity, min_replay_size=1)
    spec = EnvironmentSpec(84 * 84, 18, (84, 84, 1), is_discrete=True)
    specs, overlap = agent.step_specs(spec), agent.data.sequence_length - 1
    memory = agent.data.make_store(specs, seed=0)
    steps = tree.map_structure(
        lambda column: np.ones((_FILL + overlap, *column.shape), column.dtype.as_numpy_dtype), specs
    )
    lengths = np.full(_FILL, agent.data.sequence_length, np.int32)
    unknown = np.full(_FILL, UNKNOWN_PRIORITY, np.float32)
    for begin in range(0, frames, _FILL):
        keys = np.arange(begin + overlap * bool(begin), begin + _FILL + overlap)
        new = tree.map_structure(operator.itemgetter(slice(len(keys))), steps)
        memory.insert(keys, new, unknown, np.arange(begin, begin + _FILL), lengths)
    memory.check()
    return memory


def episode_memory(
    bench: Bench, capacity: int = 2**18, length: int = 1000, calls: int = 500
) -> Iterator[Row]:
    """Yields the microseconds of each call to the memory of episodes.

    Episodes are as HalfCheetah's: observation 17, action 6, mean 6 and variance 6 of the behaviour
    policy, float32. A batch is 256 steps. Every call comes from Python. A draw, a refresh and an
    addition are beside those of rank-based sampling, whose refresh includes a ranking every ten
    updates.

    episode_memory/refresh: all values and importance weights change, and a sweep stops where the
      Retrace estimates do not; the weights are log-normal. In "_full" each refresh follows a new
      reward scale, so that every sweep reaches the start of its episode. In "_unchanged" nothing
      changes.

    Args:
      bench: the request, whose agent does not matter.
      capacity: steps in the memory.
      length: steps of an episode.
      calls: calls of each measurement; a multiple of the period of ranks.
    """
    uniform = _Episodes(capacity, length, calls, Uniform())
    ranked = _Episodes(capacity, length, calls, RankBased(0.5, _PERIOD))
    medians = bench.in_turns(
        "episode_memory",
        {
            "sample": uniform.sample,
            "sample by rank": ranked.sample,
            "refresh": uniform.refresh,
            "refresh by rank": ranked.refresh,
            "refresh_full": uniform.refresh_fully,
            "refresh_unchanged": uniform.refresh_unchanged,
            "count_far_policy": uniform.count,
            "add": uniform.add,
            "add by rank": ranked.add,
        },
    )
    uniform.memory.check()
    ranked.memory.check()
    for name, peer, label in (
        ("sample", "sample by rank", "rank-based"),
        ("refresh", "refresh by rank", "rank-based"),
        ("refresh_full", "refresh", "early stop"),
        ("refresh_unchanged", "refresh", "early stop"),
        ("count_far_policy", "", None),
        ("add", "add by rank", "rank-based"),
    ):
        yield medians.row(f"episode_memory/{name}", "us", name, peer, label)


class _Episodes:
    """A full memory, and the time in microseconds of each kind of call."""

    def __init__(self, capacity: int, length: int, calls: int, sampling: Uniform | RankBased):
        rng = np.random.default_rng(0)
        specs = {
            name: tf.TensorSpec([size])
            for name, size in {"observation": 17, "action": 6, "mean": 6, "variance": 6}.items()
        }
        self._calls = calls
        self.memory = EpisodeMemory(specs, capacity, 0.995, sampling, seed=1)

        def column(*shape: int) -> tf.Tensor:
            return tf.constant(rng.normal(size=shape), tf.float32)

        states = {name: column(length + 1, *spec.shape) for name, spec in specs.items()}
        self._episode = states, column(length), column(length + 1), False
        self._scales = itertools.cycle([1.0, 2.0])
        self._c_max = itertools.cycle([tf.constant(3 + i / 100) for i in range(100)])
        kinds = (tf.identity, tf.exp, tf.abs, tf.abs, tf.identity)
        self._refreshed = itertools.cycle(
            [[kind(column(_BATCH)) for kind in kinds] for _ in range(20 * _PERIOD)]
        )
        for _ in range(capacity // length + 1):
            self.memory.add(*self._episode)
        # Most steps are drawn once at least.
        for _ in range(2 * capacity // _BATCH):
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
            values, rhos, divergences, *_ = self.memory.stored(keys)
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
        for _ in range(self._calls):
            prepared = prepare()
            begin = time.perf_counter()
            call(prepared)
            times.append(time.perf_counter() - begin)
        # Each mean has one ranking; the median leaves out interruptions by other programs.
        return float(np.median(np.reshape(times, [-1, _PERIOD]).mean(1))) * 1e6
