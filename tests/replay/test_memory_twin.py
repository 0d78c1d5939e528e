"""Compares the memory with a brute-force twin, written from the words of cc/memory.h; threads."""

from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from many_threads import run_threads
import numpy as np
import pytest
import tensorflow as tf

from common.replay.columns import Bytes
from common.replay.memory import (
    UNKNOWN_PRIORITY,
    ContextualPriorityTree,
    Fifo,
    Memory,
    Proportional,
    Statistics,
    Uniform,
)
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
    max_examples=8,
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
    for turn in range(200):
        begin = rng.integers(NUM_KEYS)
        keys = list(range(begin, min(NUM_KEYS, begin + rng.integers(1, 6))))
        starts = [*rng.choice(keys, 3), rng.integers(NUM_KEYS)]  # one perhaps in older steps
        items = [(int(start), int(rng.integers(1, 4))) for start in starts]
        pair.insert(keys, items, rng.choice([-1.0, 0.0, 0.5, 3.0], 4).tolist())
        pair.update(rng.integers(NUM_KEYS, size=5).tolist(), rng.random(5).tolist())
        if turn % 5 == 0:
            pair.trim()
        pair.compare()
        pair.sample(4, list(DISTRIBUTIONS)[turn % 4], 3)
    assert pair.twin.counts["removed"] > 100  # else the test is too weak


# Many threads.

WIDTH = 2000  # wide rows are copied slowly enough to be torn
THREAD_SPECS = {
    "head": tf.TensorSpec([], tf.int64),
    "x": tf.TensorSpec([WIDTH], tf.float32),
    "text": Bytes(WIDTH),
    "tail": tf.TensorSpec([2], tf.uint8),
}
PER_ADDER = 1 << 20


def rows(keys):
    """Returns steps whose columns are functions of the key."""
    keys = np.asarray(keys)
    text = np.empty(keys.shape, object)
    text[:] = [bytes([key % 251]) * (key % (WIDTH + 1)) for key in keys.tolist()]
    return {
        "head": keys,
        "x": np.repeat((keys % 65521).astype(np.float32)[:, None], WIDTH, 1),
        "text": text,
        "tail": np.stack([keys % 251, keys % 241], -1).astype(np.uint8),
    }


def assert_whole(keys, steps):
    expected = rows(keys)
    for name, column in steps.items():
        np.testing.assert_array_equal(column, expected[name])


@pytest.mark.parametrize("removal, hard_capacity", [("old", 500), ("small", 800)])
def test_no_row_is_torn_and_all_counters_add_up(removal, hard_capacity):
    """Small rows, and other calls of several threads: cc/hostile_operations.cc."""
    distributions = DISTRIBUTIONS | {"context": ContextualPriorityTree()}
    names = list(distributions)
    memory = Memory(THREAD_SPECS, 500, distributions, removal, 1, hard_capacity)
    newest = [actor * PER_ADDER for actor in range(3)]
    items, drawn, missing, excess = [0] * 3, [], [], []

    def adder(actor):
        rng = np.random.default_rng(actor)

        def add(turn):
            begin = actor * PER_ADDER + 16 * turn
            # The last four keys of the call before are known or gone.
            keys = np.arange(max(actor * PER_ADDER, begin - 4), begin + 16)
            # Items of up to three steps, and one that starts at one of these older steps.
            starts = np.append(np.arange(begin, begin + 16, 2), keys[0])
            lengths = np.minimum(rng.integers(1, 4, 9), begin + 16 - starts).astype(np.int32)
            priorities = rng.choice([UNKNOWN_PRIORITY, 0.0, 0.5, 3.0], 9).astype(np.float32)
            memory.insert(keys, rows(keys), priorities, starts, lengths)
            newest[actor] = begin + 16
            items[actor] += 9

        return add

    def draw(turn):
        try:
            sample = memory.sample(32, names[turn % len(names)], max_length=3)
        except tf.errors.FailedPreconditionError:
            return  # empty, or zeros only
        drawn.append(32)
        keys, lengths = sample.keys.numpy(), sample.lengths.numpy()
        assert np.all((lengths >= 1) & (lengths <= 3)) and np.all(sample.masses.numpy() > 0)
        real = np.arange(3) < lengths[:, None]
        steps = {name: column.numpy() for name, column in sample.steps.items()}
        whole = {name: column[real] for name, column in steps.items()}
        assert_whole((keys[:, None] + np.arange(3))[real], whole)
        assert not np.any(steps["x"][~real]) and not np.any(steps["text"][~real])

    def update(turn):
        rng = np.random.default_rng(turn)
        keys = np.maximum(0, newest[turn % 3] - rng.integers(0, 400, 64))
        missing.append(int(memory.update_priorities(keys, rng.random(64, np.float32))))
        if turn % 20 == 0:
            memory.check()

    def trim(_):
        excess.append(int(memory.trim()))

    adders = [adder(actor) for actor in range(3)]
    run_threads([*adders, draw, update, trim], seconds=1.0, least_turns=40)

    memory.check()
    statistics = memory.statistics()
    assert statistics.inserted == statistics.items + statistics.removed
    assert statistics.inserted + statistics.incomplete <= sum(items)
    assert statistics.sampled == sum(drawn) and statistics.missing == sum(missing)
    assert statistics.updated + statistics.missing == 64 * len(missing)
    assert statistics.steps <= hard_capacity and statistics.removed > 200
    assert (sum(excess) > 0) == (hard_capacity > 500)
    # The stored items are those inserted, each with one mass.
    every = np.concatenate([np.arange(i * PER_ADDER, newest[i]) for i in range(3)])
    found = np.concatenate([memory.read(part)[0].numpy() for part in np.array_split(every, 50)])
    keys = every[found]
    assert len(keys) == statistics.steps
    assert_whole(keys, memory.read(keys)[1])
    memory.update_priorities(keys, np.ones(len(keys), np.float32))
    for name in ("sample", "small", "uniform", "context"):
        assert float(memory.sample(1, name).total_mass) == statistics.items


def test_calls_that_do_not_fit_together_leave_the_memory_full():
    """Rows that are being written cannot be removed, so a call that needs their room is refused."""
    memory = Memory(THREAD_SPECS, 100, {"sample": Uniform(), "old": Fifo()}, "old", seed=1)
    refused = []

    def adder(actor):
        def add(turn):
            keys = actor * PER_ADDER + np.arange(80 * turn, 80 * turn + 80)
            try:
                memory.insert(keys, rows(keys), np.ones(80, np.float32))
            except tf.errors.ResourceExhaustedError as error:
                refused.append(error)
                assert "too many calls are in flight" in str(error)
            # A call takes room for 80 steps; a refused call took none.
            assert memory.statistics().items >= 20

        return add

    first = np.arange(100) + 10 * PER_ADDER
    memory.insert(first, rows(first), np.ones(100, np.float32))
    run_threads([adder(i) for i in range(3)], seconds=0.7)
    memory.check()
    assert refused
    sample = memory.sample(50)
    assert_whole(sample.keys.numpy(), {n: c.numpy() for n, c in sample.steps.items()})
