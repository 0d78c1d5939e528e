"""Compares the memory with a brute-force twin, written from the words of cc/memory.h."""

from hypothesis import Phase, given, settings
from hypothesis import strategies as st
import numpy as np
import pytest
import tensorflow as tf

from common.replay.columns import Bytes
from common.replay.memory import UNKNOWN_PRIORITY, Fifo, Memory, Proportional, Statistics, Uniform
from common.replay.store import Counters

SPECS = {
    "x": tf.TensorSpec([3], tf.float32),
    "s": Bytes(30),
    "n": tf.TensorSpec([], tf.int64),
    "b": tf.TensorSpec([2, 1], tf.uint8),
}
ZEROS = {"x": [0, 0, 0], "s": b"", "n": 0, "b": [[0], [0]]}
DISTRIBUTIONS = {
    "sample": Proportional(0.6),
    "small": Proportional(-0.4),
    "uniform": Uniform(),
    "old": Fifo(),
}
NUM_KEYS = 20


class Refused(Exception):
    """Raised by the twin where the memory must raise InvalidArgumentError."""


class Twin:
    """A memory of dictionaries and loops that removes first in, first out."""

    def __init__(self, capacity, hard_capacity):
        self.capacity = capacity
        self.hard_capacity = hard_capacity
        self.rows = {}  # step key -> row, by column
        self.lengths = {}  # item key -> number of steps, in order of arrival
        self.masses = {name: {} for name in DISTRIBUTIONS}
        self.max_priority = 0.0
        self.counts = dict.fromkeys(Statistics._fields, 0)

    def insert(self, keys, rows, items, priorities):
        if len(keys) > self.hard_capacity or any(n > self.capacity for _, n in items):
            raise Refused
        fresh = [key not in self.rows for key in keys]
        # While rows are written, a key that occurs twice takes two slots.
        while len(self.rows) + sum(fresh) > self.hard_capacity:
            self.remove(next(iter(self.lengths)))
        for key, row, is_fresh in zip(keys, rows, fresh):
            if is_fresh and key not in self.rows:
                self.rows[key] = row
            else:
                self.counts["duplicates"] += 1
        new = {}
        for (key, length), priority in zip(items, priorities):
            if key in self.lengths:
                continue
            if any(key + t not in self.rows for t in range(length)):
                self.counts["incomplete"] += 1
                continue
            self.lengths[key] = length
            new[key] = priority
        self.set_priorities(new)
        self.counts["inserted"] += len(new)
        self.drop("unviewed")

    def trim(self):
        before = self.counts["removed"]
        while len(self.rows) > self.capacity:
            self.remove(next(iter(self.lengths)))
        return self.counts["removed"] - before

    def remove(self, key):
        del self.lengths[key]
        for masses in self.masses.values():
            del masses[key]
        self.counts["removed"] += 1
        self.drop(None)

    def drop(self, counter):
        """Drops the steps that no item views."""
        viewed = {key + t for key, length in self.lengths.items() for t in range(length)}
        for key in set(self.rows) - viewed:
            del self.rows[key]
            if counter:
                self.counts[counter] += 1

    def update(self, keys, priorities):
        present = [(key, p) for key, p in zip(keys, priorities) if key in self.lengths]
        self.set_priorities(present)
        self.counts["updated"] += len(present)
        self.counts["missing"] += len(keys) - len(present)
        return len(keys) - len(present)

    def set_priorities(self, new):
        new = list(new.items() if isinstance(new, dict) else new)
        self.max_priority = max([self.max_priority, *(float(np.float32(p)) for _, p in new)])
        for key, priority in new:
            if priority == UNKNOWN_PRIORITY:
                priority = self.max_priority or 1.0
            priority = float(np.float32(priority))
            # Priorities, exponents and the smallest priority are float32, masses float64.
            self.masses["sample"][key] = priority ** float(np.float32(0.6))
            smallest = float(np.float32(1e-6))
            self.masses["small"][key] = max(priority, smallest) ** float(np.float32(-0.4))
            self.masses["uniform"][key] = self.masses["old"][key] = 1.0

    def total_mass(self, distribution):
        if distribution == "old":
            return 1.0 if self.lengths else 0.0
        return sum(self.masses[distribution].values())

    def statistics(self, held_bytes):
        assert held_bytes >= sum(len(row["s"]) for row in self.rows.values())
        return Statistics(
            **self.counts
            | {"steps": len(self.rows), "items": len(self.lengths), "held_bytes": held_bytes}
        )


class Pair:
    """A memory and its twin, which get the same calls and are compared."""

    def __init__(self, capacity, excess=0):
        hard_capacity = capacity + excess
        self.memory = Memory(SPECS, capacity, DISTRIBUTIONS, "old", 7, hard_capacity)
        self.twin = Twin(capacity, hard_capacity)
        self.stamp = 0

    def make_rows(self, keys):
        """Returns rows that contain the key and the call, so that an overwritten step shows."""
        rows = []
        for key in keys:
            self.stamp += 1
            rows.append(
                {
                    "x": [key, self.stamp, -key],
                    "s": bytes([key, self.stamp % 256, 0]) * (self.stamp % 11),
                    "n": 2**40 + self.stamp,
                    "b": [[key], [self.stamp % 256]],
                }
            )
        return rows

    def insert(self, keys, items, priorities):
        rows = self.make_rows(keys)
        steps = {
            name: np.array([row[name] for row in rows], spec.dtype.as_numpy_dtype).reshape(
                [-1, *spec.shape]
            )
            for name, spec in SPECS.items()
        }
        arguments = [np.array(keys, np.int64), steps, np.array(priorities, np.float32)]
        if items is not None:
            arguments += [
                np.array([key for key, _ in items], np.int64),
                np.array([length for _, length in items], np.int32),
            ]
        try:
            self.twin.insert(
                keys, rows, [(key, 1) for key in keys] if items is None else items, priorities
            )
        except Refused:
            with pytest.raises(tf.errors.InvalidArgumentError):
                self.memory.insert(*arguments)
        else:
            self.memory.insert(*arguments)

    def update(self, keys, priorities):
        missing = self.memory.update_priorities(
            np.array(keys, np.int64), np.array(priorities, np.float32)
        )
        assert int(missing) == self.twin.update(keys, priorities)

    def trim(self):
        assert int(self.memory.trim()) == self.twin.trim()

    def sample(self, batch_size, distribution, max_length):
        twin, masses = self.twin, self.twin.masses[distribution]
        if twin.total_mass(distribution) == 0:
            with pytest.raises(tf.errors.FailedPreconditionError):
                self.memory.sample(batch_size, distribution, max_length)
            return
        total_mass, count = self.memory.mass(distribution)
        sample = self.memory.sample(batch_size, distribution, max_length)
        twin.counts["sampled"] += batch_size
        assert sample.count == count == len(twin.lengths) and sample.total_mass == total_mass
        np.testing.assert_allclose(sample.total_mass, twin.total_mass(distribution), rtol=1e-12)
        keys = sample.keys.numpy().tolist()
        np.testing.assert_allclose(sample.masses, [masses[key] for key in keys], rtol=1e-12)
        assert all(mass > 0 for mass in sample.masses)
        assert sample.lengths.numpy().tolist() == [twin.lengths[key] for key in keys]
        if distribution == "old":
            assert set(keys) == {next(iter(twin.lengths))}
        for name, column in sample.steps.items():
            assert column.numpy().tolist() == [
                [
                    twin.rows[key + t][name] if t < twin.lengths[key] else ZEROS[name]
                    for t in range(max_length)
                ]
                if max_length
                else twin.rows[key][name]
                for key in keys
            ]

    def compare(self):
        self.memory.check()
        twin = self.twin
        statistics = self.memory.statistics()
        assert statistics == twin.statistics(statistics.held_bytes)
        shared = {name: getattr(statistics, name) for name in Counters._fields}
        assert self.memory.counters() == Counters(**shared)
        assert Counters.of(self.memory.counters_tensor()) == Counters(**shared)
        keys = np.arange(NUM_KEYS + 5)
        found, steps = self.memory.read(keys)
        assert found.numpy().tolist() == [key in twin.rows for key in keys]
        for name, column in steps.items():
            assert column.numpy().tolist() == [
                twin.rows.get(key, ZEROS)[name] for key in keys.tolist()
            ]


a_key = st.integers(0, NUM_KEYS - 1)
a_priority = st.sampled_from([UNKNOWN_PRIORITY, 0.0, 1e-7, 0.3, 1.0, 2.5, 40.0])
some_keys = st.one_of(
    st.tuples(a_key, st.integers(1, 6)).map(lambda run: list(range(run[0], run[0] + run[1]))),
    st.lists(a_key, min_size=0, max_size=6),
)


@st.composite
def inserts(draw):
    keys = draw(some_keys)
    if not keys or draw(st.booleans()):
        items = None
    else:
        starts = st.one_of(st.sampled_from(keys), a_key)
        items = draw(st.lists(st.tuples(starts, st.integers(1, 4)), min_size=1, max_size=6))
    count = len(keys if items is None else items)
    return "insert", keys, items, draw(st.lists(a_priority, min_size=count, max_size=count))


@st.composite
def updates(draw):
    keys = draw(st.lists(a_key, min_size=0, max_size=8))
    return "update", keys, draw(st.lists(a_priority, min_size=len(keys), max_size=len(keys)))


samples = st.tuples(
    st.just("sample"), st.integers(1, 9), st.sampled_from(list(DISTRIBUTIONS)), st.integers(0, 5)
)
removals = st.just(("trim",))


@settings(
    max_examples=50,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate, Phase.shrink],
)
@given(
    st.integers(1, 12),
    st.integers(0, 6),
    st.lists(
        st.one_of(inserts(), inserts(), updates(), samples, removals), min_size=10, max_size=25
    ),
)
def test_random_operations_agree_with_the_twin(capacity, excess, operations):
    pair = Pair(capacity, excess)
    for name, *arguments in operations:
        getattr(pair, name)(*arguments)
        pair.compare()
        for distribution in DISTRIBUTIONS:
            pair.sample(4, distribution, 0)


def test_long_runs_agree_with_the_twin():
    """Thousands of steps pass through few slots, so that the index and the slots are reused."""
    rng = np.random.default_rng(3)
    pair = Pair(capacity=9, excess=4)
    for turn in range(400):
        begin = rng.integers(NUM_KEYS)
        keys = list(range(begin, min(NUM_KEYS, begin + rng.integers(1, 6))))
        items = [(int(rng.choice(keys)), int(rng.integers(1, 4))) for _ in range(4)]
        pair.insert(keys, items, rng.choice([-1.0, 0.0, 0.5, 3.0], 4).tolist())
        pair.update(rng.integers(NUM_KEYS, size=5).tolist(), rng.random(5).tolist())
        if turn % 5 == 0:
            pair.trim()
        pair.compare()
    assert pair.twin.counts["removed"] > 100  # else the test is too weak
    pair.sample(20, "sample", 3)
