"""Tests of common.remote.shards: several memories are compared with one that holds all items."""

import threading
import time

import numpy as np
import pytest
from stores import Served, columns_of, marks_of, specs_of
import tensorflow as tf

from common.cluster.errors import ServiceUnavailableError, WrongTokenError
from common.remote import shards as shards_lib
from common.remote.shards import CountersOfAll, ShardedStore
from common.replay import columns
from common.replay.memory import Fifo, Items, Memory, Proportional, Uniform
from common.replay.store import Counters

EXPONENT = 0.6
ITEMS = (5, 30, 12)  # in each shard


def make_memory(capacity=100, **options):
    distributions = {"sample": Proportional(EXPONENT), "remove": Fifo()}
    return Memory(specs_of(4, strings=True), capacity, distributions, "remove", 1, **options)


def make_keys(shard, count):
    return columns.transition_keys(shard, 3, 1, np.arange(count))


def marks_by(keys):
    """Returns the marks 1000 * shard + step of the items with these keys."""
    return 1000 * columns.shard_of(keys) + keys % 1000


def items_of(keys, priorities=None):
    if priorities is None:
        priorities = np.ones(len(keys), np.float32)
    return Items(keys, columns_of(marks_by(keys), 4, True), priorities)


class Filled:
    """Shards whose priorities differ in scale, and one memory with the items of all."""

    def __init__(self):
        generator = np.random.default_rng(0)
        self.shards = [make_memory() for _ in ITEMS]
        self.whole, self.store = make_memory(), ShardedStore(self.shards)
        self.priorities = {}
        for shard, count in enumerate(ITEMS):
            keys = make_keys(shard, count)
            priorities = generator.uniform(0, 1 + 4 * shard, count).astype(np.float32)
            for store in (self.store, self.whole):
                assert store.put(items_of(keys, priorities))
            self.priorities |= dict(zip(keys.tolist(), priorities.tolist()))

    def probabilities(self):
        """Returns the probability of each key, by the definition."""
        masses = {key: priority**EXPONENT for key, priority in self.priorities.items()}
        return {key: mass / sum(masses.values()) for key, mass in masses.items()}


@pytest.fixture(scope="module")
def filled():
    return Filled()


def keys_of(sample):
    return sample.keys.numpy().tolist()


def probabilities_of(sample):
    return sample.masses.numpy() / sample.total_mass.numpy()


def assert_fair(keys, expected):
    """Asserts that the chi-square statistic of counts is within four standard deviations."""
    found, counts = np.unique(keys, return_counts=True)
    seen = dict(zip(found.tolist(), counts.tolist()))
    assert set(seen) <= set(expected)
    expected = {key: len(keys) * p for key, p in expected.items()}
    statistic = sum((seen.get(key, 0) - count) ** 2 / count for key, count in expected.items())
    freedom = len(expected) - 1
    assert (statistic - freedom) / np.sqrt(2 * freedom) < 4


def test_items_are_drawn_as_from_one_memory(filled):
    assert [shard.counters().items for shard in filled.shards] == list(ITEMS)
    sample, whole = filled.store.draw(60_000, seed=7), filled.whole.draw(60_000, seed=7)
    expected = filled.probabilities()
    keys = sample.keys.numpy()
    # Each quarter is a fair sample, too.
    for part in (whole.keys.numpy(), keys, *np.split(keys, 4)):
        assert_fair(part, expected)
    np.testing.assert_allclose(
        probabilities_of(sample), [expected[key] for key in keys.tolist()], rtol=1e-6
    )
    np.testing.assert_array_equal(marks_of(sample.steps), marks_by(keys))  # every row is whole
    np.testing.assert_array_equal(sample.lengths, np.ones(60_000))
    for total, count in (sample[2:4], filled.store.mass()):
        assert int(count) == int(whole.count) == sum(ITEMS) and count.dtype == tf.int64
        assert float(total) == pytest.approx(float(whole.total_mass), rel=1e-12)
    assert [column.dtype for column in sample[:5]] == [column.dtype for column in whole[:5]]


def test_what_is_drawn_follows_from_the_seed_and_the_contents(filled):
    def draw(store, seed):
        return keys_of(store.draw(100, seed=seed))

    assert draw(filled.store, 5) == draw(Filled().store, 5)
    assert draw(filled.store, 5) != draw(filled.store, 6)
    assert draw(filled.store, None) != draw(filled.store, None)


def test_an_empty_shard_is_left_alone_and_a_part_of_it_is_none(filled):
    class Strict(Memory):
        def draw(self, *arguments, **keywords):
            raise AssertionError("it is empty")

    distributions = {"sample": Uniform(), "remove": Fifo()}
    empty = Strict(specs_of(4, strings=True), 10, distributions, "remove")
    sample = ShardedStore([empty, filled.shards[1]]).draw(50, seed=1)
    assert set(columns.shard_of(sample.keys.numpy())) == {1} and int(sample.count) == ITEMS[1]
    with pytest.raises(tf.errors.FailedPreconditionError, match="nothing to draw"):
        ShardedStore([make_memory(), make_memory()]).draw(5)


class MovedOn:
    """A shard whose total mass trebles after `mass` was called."""

    def __init__(self, memory):
        self._memory, self.wire, self.draw = memory, memory.wire, memory.draw

    def mass(self):
        total, count = self._memory.mass()
        return total / 3, count


def test_probabilities_are_those_of_the_draw_also_when_masses_move(filled):
    """They are P(shard), from the masses first read, times P(item) in the shard."""
    first, second = filled.shards[:2]
    sample = ShardedStore([MovedOn(first), second]).draw(1000, seed=2)
    totals = [float(first.mass()[0]) / 3, float(second.mass()[0])]
    for key, probability in zip(keys_of(sample), probabilities_of(sample)):
        shard = key >> 58
        inside = filled.priorities[key] ** EXPONENT / float(filled.shards[shard].mass()[0])
        assert probability == pytest.approx(totals[shard] / sum(totals) * inside, rel=1e-6)


def test_priorities_go_to_the_shards_of_their_keys():
    filled = Filled()
    keys = np.array([*filled.priorities])
    np.random.default_rng(1).shuffle(keys)
    gone, of_no_shard = make_keys(1, 1000)[-2:], make_keys(7, 2)
    keys = np.concatenate([keys, gone, of_no_shard])
    priorities = np.linspace(1, 2, len(keys)).astype(np.float32)
    assert int(filled.store.write_back(tf.constant(keys), tf.constant(priorities))) == 4
    filled.priorities = dict(zip(keys.tolist()[:-4], priorities.tolist()[:-4]))
    expected, sample = filled.probabilities(), filled.store.draw(3000, seed=1)
    np.testing.assert_allclose(
        probabilities_of(sample), [expected[key] for key in keys_of(sample)], rtol=1e-6
    )
    assert [shard.statistics().updated for shard in filled.shards] == list(ITEMS)
    with pytest.raises(tf.errors.InvalidArgumentError, match="replay 2: .*priorit"):
        bad = np.array([make_keys(0, 1)[0], make_keys(2, 1)[0]])
        filled.store.write_back(bad, np.array([1, np.nan], np.float32))


def test_counters_and_removals_are_added_up():
    shards = [make_memory(capacity=10, hard_capacity=40) for _ in range(3)]
    store = ShardedStore(shards)
    for shard in range(3):
        assert store.put(items_of(make_keys(shard, 8 + 4 * shard)))
    assert store.put(items_of(make_keys(0, 0)))
    store.draw(25, seed=1)
    assert store.counters() == Counters(36, 36, 25)
    assert int(store.trim()) == 2 + 6
    assert [shard.counters().items for shard in shards] == [8, 10, 10]
    assert store.counters().removed == Counters.of(store.counters_tensor()).removed == 8


class Service:
    """A stand-in for `RemoteStore`; without counts its service does not answer."""

    wire = None

    def __init__(self, accepted=None, seconds=0.0):
        self.counts, self.seconds = accepted, seconds
        self.left, self.asked = None, 0

    def accepted(self):
        return self._answer(self.counts)

    def counters(self):
        self.asked += 1
        return self._answer(Counters(*[10] * 6))

    def disconnect(self, finished):
        self._answer(0)
        self.left = finished

    def _answer(self, value):
        if self.counts is None:
            time.sleep(self.seconds)
            raise ServiceUnavailableError("nothing answers at host-b:7000")
        return value


OWN = Counters(*[1] * 6)


def test_all_shards_that_answer_tell_and_are_told():
    services = [Service({11: 5}), Service(), Service({31: 7, 32: 1})]
    store = ShardedStore(services)
    assert store.accepted() == {11: 5, 31: 7, 32: 1}
    with pytest.raises(ServiceUnavailableError, match="replay 1: nothing answers at host-b:7000"):
        store.disconnect(finished=True)
    assert [service.left for service in services] == [True, None, True]


def test_a_shard_that_is_away_counts_as_before_and_is_left_alone_for_a_while(monkeypatch):
    assert CountersOfAll([])(OWN) == OWN
    services = [Service({}), Service({}), Service(seconds=0.3)]
    there, away, never = services
    of_all = CountersOfAll(services)
    for _ in range(5):
        assert of_all(OWN) == Counters(*[21] * 6)
        away.counts = None
    assert (there.asked, away.asked, never.asked) == (5, 2, 1)

    monkeypatch.setattr(shards_lib, "_AWAY_SECONDS", 0.0)
    of_all = CountersOfAll(services)
    assert of_all(OWN).inserted == 11
    away.counts = {}
    assert of_all(OWN).inserted == 21


def test_shards_are_asked_in_parallel_and_another_error_is_no_reason_to_go_on():
    """No shard answers before all have been asked."""
    barrier = threading.Barrier(3, timeout=30.0)

    class Waiting(Service):
        def counters(self):
            barrier.wait()
            if self.counts == "refused":
                raise WrongTokenError("refused")
            return super().counters()

    assert CountersOfAll([Waiting({}) for _ in range(3)])(OWN).inserted == 31
    with pytest.raises(WrongTokenError):
        CountersOfAll([Waiting({}), Waiting("refused"), Waiting({})])(OWN)


def test_behind_services_one_of_which_dies_and_comes_back_empty():
    filled = Filled()
    served = [Served(memory) for memory in filled.shards]
    store = ShardedStore([shard.remote(2.0) for shard in served])
    here, there = filled.store.draw(64, seed=9), store.draw(64, seed=9)
    np.testing.assert_array_equal(here.keys, there.keys)
    np.testing.assert_array_equal(marks_of(here.steps), marks_of(there.steps))
    np.testing.assert_allclose(probabilities_of(here), probabilities_of(there), rtol=1e-12)

    served[1].close()
    with pytest.raises(ServiceUnavailableError, match=f"replay 1: .*{served[1].address}"):
        store.draw(64, seed=9)
    served[1] = served[1].restart(make_memory())
    sample = store.draw(64, seed=9)
    assert set(columns.shard_of(sample.keys.numpy())) == {0, 2}
    assert int(sample.count) == ITEMS[0] + ITEMS[2]
    for shard in served:
        shard.close()
