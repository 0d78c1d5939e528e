"""The memory against a brute-force twin of what `common/replay/cc/memory.h` documents."""

from hypothesis import given, Phase, settings, strategies as st
import numpy as np
import pytest
import tensorflow as tf

from common.replay.distributions import Fifo, Proportional, Uniform, UNKNOWN_PRIORITY
from common.replay.memory import Memory, Statistics

SPECS = {"x": tf.TensorSpec([3], tf.float32), "n": tf.TensorSpec([], tf.int64),
         "b": tf.TensorSpec([2, 1], tf.uint8)}
DISTRIBUTIONS = {"sample": Proportional(0.6), "small": Proportional(-0.4), "uniform": Uniform(),
                 "old": Fifo()}
NUM_KEYS = 20


class Refused(Exception):
    """The twin expects `tf.errors.InvalidArgumentError`."""


class Twin:
    """Dictionaries and loops; removes first in, first out."""

    def __init__(self, capacity):
        self.capacity = capacity
        self.rows = {}  # step key -> row
        self.lengths = {}  # item key -> number of steps, in order of arrival
        self.masses = {name: {} for name in DISTRIBUTIONS}
        self.max_priority = 0.0
        self.counts = dict.fromkeys(Statistics._fields, 0)

    def insert(self, keys, rows, items, priorities):
        if len(keys) > self.capacity or any(n > self.capacity for _, n in items):
            raise Refused
        fresh = [key not in self.rows for key in keys]
        # A key that comes twice takes room twice while the rows are written.
        while len(self.rows) + sum(fresh) > self.capacity:
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

    def remove(self, key):
        del self.lengths[key]
        for masses in self.masses.values():
            del masses[key]
        self.counts["removed"] += 1
        self.drop(None)

    def drop(self, counter):
        """A step lives as long as an item views it."""
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

    def statistics(self):
        return Statistics(**self.counts | {"steps": len(self.rows), "items": len(self.lengths)})


class Pair:
    """Does everything to the memory and to its twin, and compares."""

    def __init__(self, capacity):
        self.memory = Memory(SPECS, capacity, DISTRIBUTIONS, "old", seed=7)
        self.twin = Twin(capacity)
        self.stamp = 0

    def make_rows(self, keys):
        """Rows tell the key and the call, so that an overwritten step would show."""
        rows = []
        for key in keys:
            self.stamp += 1
            rows.append((np.float32([key, self.stamp, -key]), np.int64(2**40 + self.stamp),
                         np.uint8([[key], [self.stamp % 256]])))
        return rows

    def insert(self, keys, items, priorities):
        rows = self.make_rows(keys)
        steps = {"x": np.reshape([row[0] for row in rows], [-1, 3]).astype(np.float32),
                 "n": np.array([row[1] for row in rows], np.int64),
                 "b": np.reshape([row[2] for row in rows], [-1, 2, 1]).astype(np.uint8)}
        arguments = [np.array(keys, np.int64), steps, np.array(priorities, np.float32)]
        if items is not None:
            arguments += [np.array([key for key, _ in items], np.int64),
                          np.array([length for _, length in items], np.int32)]
        try:
            self.twin.insert(keys, rows, [(key, 1) for key in keys] if items is None else items,
                             priorities)
        except Refused:
            with pytest.raises(tf.errors.InvalidArgumentError):
                self.memory.insert(*arguments)
        else:
            self.memory.insert(*arguments)

    def update(self, keys, priorities):
        missing = self.memory.update_priorities(np.array(keys, np.int64),
                                                np.array(priorities, np.float32))
        assert int(missing) == self.twin.update(keys, priorities)

    def sample(self, batch_size, distribution, max_length):
        twin, masses = self.twin, self.twin.masses[distribution]
        if twin.total_mass(distribution) == 0:
            with pytest.raises(tf.errors.FailedPreconditionError):
                self.memory.sample(batch_size, distribution, max_length)
            return
        sample = self.memory.sample(batch_size, distribution, max_length)
        twin.counts["sampled"] += batch_size
        assert sample.count == len(twin.lengths)
        np.testing.assert_allclose(sample.total_mass, twin.total_mass(distribution), rtol=1e-12)
        keys = sample.keys.numpy().tolist()
        np.testing.assert_allclose(sample.masses, [masses[key] for key in keys], rtol=1e-12)
        assert all(mass > 0 for mass in sample.masses)
        assert sample.lengths.numpy().tolist() == [twin.lengths[key] for key in keys]
        if distribution == "old":
            assert set(keys) == {next(iter(twin.lengths))}
        zeros = (np.zeros(3), 0, np.zeros([2, 1]))
        for i, key in enumerate(keys):
            for t in range(max(1, max_length)):
                row = twin.rows[key + t] if t < twin.lengths[key] else zeros
                where = (i, t) if max_length else i
                for column, expected in zip("xnb", row):
                    np.testing.assert_array_equal(sample.steps[column].numpy()[where], expected)

    def compare(self):
        self.memory.check()
        twin = self.twin
        assert self.memory.statistics() == twin.statistics()
        keys = np.arange(NUM_KEYS + 5)
        found, steps = self.memory.read(keys)
        assert found.numpy().tolist() == [key in twin.rows for key in keys]
        zeros = (np.zeros(3), 0, np.zeros([2, 1]))
        for i, column in enumerate("xnb"):
            expected = [twin.rows.get(key, zeros)[i] for key in keys]
            np.testing.assert_array_equal(steps[column].numpy(), expected)


a_key = st.integers(0, NUM_KEYS - 1)
a_priority = st.sampled_from([UNKNOWN_PRIORITY, 0.0, 1e-7, 0.3, 1.0, 2.5, 40.0])
some_keys = st.one_of(
    st.tuples(a_key, st.integers(1, 6)).map(lambda run: list(range(run[0], run[0] + run[1]))),
    st.lists(a_key, min_size=0, max_size=6))


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


samples = st.tuples(st.just("sample"), st.integers(1, 9), st.sampled_from(list(DISTRIBUTIONS)),
                    st.integers(0, 5))


@settings(max_examples=50, deadline=None, derandomize=True, database=None,
          phases=[Phase.generate, Phase.shrink])
@given(st.integers(1, 12),
       st.lists(st.one_of(inserts(), inserts(), updates(), samples), min_size=10, max_size=25))
def test_random_operations_agree_with_the_twin(capacity, operations):
    pair = Pair(capacity)
    for name, *arguments in operations:
        getattr(pair, name)(*arguments)
        pair.compare()
        for distribution in DISTRIBUTIONS:
            pair.sample(4, distribution, 0)


def test_long_runs_agree_with_the_twin():
    """Thousands of steps through few places: the index and the slots are used again and again."""
    rng = np.random.default_rng(3)
    pair = Pair(capacity=9)
    for _ in range(400):
        begin = rng.integers(NUM_KEYS)
        keys = list(range(begin, min(NUM_KEYS, begin + rng.integers(1, 6))))
        items = [(int(rng.choice(keys)), int(rng.integers(1, 4))) for _ in range(4)]
        pair.insert(keys, items, rng.choice([-1.0, 0.0, 0.5, 3.0], 4).tolist())
        pair.update(rng.integers(NUM_KEYS, size=5).tolist(), rng.random(5).tolist())
        pair.compare()
    assert pair.twin.counts["removed"] > 100  # else the run shows nothing
    pair.sample(20, "sample", 3)
