"""Tests of the memory with many threads."""

import threading

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
    Uniform,
)

WIDTH = 2000  # wide rows are copied slowly enough to be torn
SPECS = {
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
    distributions = {
        "sample": Proportional(0.6),
        "small": Proportional(-0.4),
        "uniform": Uniform(),
        "context": ContextualPriorityTree(),
        "old": Fifo(),
    }
    memory = Memory(SPECS, 500, distributions, removal, 1, hard_capacity)
    newest = [actor * PER_ADDER for actor in range(4)]
    totals = {"steps": 0, "items": 0, "sampled": 0, "priorities": 0, "missing": 0, "excess": 0}
    lock = threading.Lock()

    def count(**by):
        with lock:
            for name, n in by.items():
                totals[name] += n

    def adder(actor):
        rng = np.random.default_rng(actor)

        def add(turn):
            begin = actor * PER_ADDER + 16 * turn
            # The last four keys of the call before are known or gone.
            keys = np.arange(max(actor * PER_ADDER, begin - 4), begin + 16)
            items = np.arange(begin, begin + 16, 2)
            lengths = np.minimum(rng.integers(1, 4, 8), begin + 16 - items).astype(np.int32)
            # An item that starts at one of these older steps.
            items = np.append(items, keys[0])
            lengths = np.append(lengths, np.int32(3))
            priorities = rng.choice([UNKNOWN_PRIORITY, 0.0, 0.5, 3.0], 9).astype(np.float32)
            memory.insert(keys, rows(keys), priorities, items, lengths)
            newest[actor] = begin + 16
            count(steps=len(keys), items=9)

        return add

    def sampler(number):
        names = list(distributions)

        def draw(turn):
            try:
                sample = memory.sample(32, names[(turn + number) % 5], max_length=3)
            except tf.errors.FailedPreconditionError:
                return  # empty, or zeros only
            count(sampled=32)
            keys, lengths = sample.keys.numpy(), sample.lengths.numpy()
            assert np.all((lengths >= 1) & (lengths <= 3)) and np.all(sample.masses.numpy() > 0)
            real = np.arange(3) < lengths[:, None]
            assert_whole(
                (keys[:, None] + np.arange(3))[real],
                {name: column.numpy()[real] for name, column in sample.steps.items()},
            )
            assert not np.any(sample.steps["x"].numpy()[~real])
            assert not np.any(sample.steps["text"].numpy()[~real])

        return draw

    def updater(number):
        rng = np.random.default_rng(100 + number)

        def update(turn):
            last = newest[rng.integers(4)]
            keys = np.maximum(0, last - rng.integers(0, 400, 64))
            missing = memory.update_priorities(keys, rng.random(64, np.float32))
            found, steps = memory.read(keys)
            found = found.numpy()
            assert_whole(keys[found], {n: column.numpy()[found] for n, column in steps.items()})
            is_item, masses = (each.numpy() for each in memory.masses(keys, "context"))
            # The mix leaves no item without mass.
            assert np.all((masses > 0) == is_item)
            if turn % 20 == 0:
                memory.check()
            count(priorities=64, missing=int(missing))

        return update

    def remove(_):
        count(excess=int(memory.trim()))

    run_threads(
        [adder(i) for i in range(4)]
        + [sampler(i) for i in range(2)]
        + [updater(i) for i in range(2)]
        + [remove],
        seconds=2.0,
        least_turns=40,
    )

    memory.check()
    statistics = memory.statistics()
    assert statistics.inserted == statistics.items + statistics.removed
    assert statistics.inserted + statistics.incomplete <= totals["items"]
    assert statistics.sampled == totals["sampled"]
    assert statistics.missing == totals["missing"]
    assert statistics.updated + statistics.missing == totals["priorities"]
    assert statistics.steps <= hard_capacity and statistics.removed > 500
    assert (totals["excess"] > 0) == (hard_capacity > 500)
    # The stored items are those inserted, each with one mass.
    every = np.concatenate([np.arange(i * PER_ADDER, newest[i]) for i in range(4)])
    found = np.concatenate([memory.read(part)[0].numpy() for part in np.array_split(every, 50)])
    keys = every[found]
    assert len(keys) == statistics.steps
    assert_whole(keys, memory.read(keys)[1])
    assert int(memory.update_priorities(keys, np.ones(len(keys), np.float32))) == (
        statistics.steps - statistics.items
    )
    for name in ("sample", "small", "uniform", "context"):
        assert float(memory.sample(1, name).total_mass) == statistics.items


def test_every_thread_that_adds_the_same_keys_adds_them_once():
    memory = Memory(SPECS, 4000, {"sample": Uniform(), "old": Fifo()}, "old", seed=1)

    def add(turn):
        # There is room for what all calls write at once.
        keys = np.arange(20 * turn, 20 * turn + 20) % 3000
        memory.insert(keys, rows(keys), np.ones(20, np.float32))

    run_threads([add] * 4, seconds=0.7)
    statistics = memory.statistics()
    assert statistics.inserted == statistics.items == statistics.steps
    assert statistics.duplicates > 0 and statistics.removed == statistics.incomplete == 0
    memory.check()


def test_calls_that_do_not_fit_together_leave_the_memory_full():
    """Rows that are being written cannot be removed, so a call that needs their room is refused."""
    memory = Memory(SPECS, 100, {"sample": Uniform(), "old": Fifo()}, "old", seed=1)
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
