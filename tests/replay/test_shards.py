"""Tests of common.replay.shards: several memories are compared with one that holds all items."""

import threading
import time

import numpy as np
import pytest
import tensorflow as tf

from common.cluster import rpc
from common.cluster.errors import ServiceUnavailableError, WrongTokenError
from common.cluster.topology import free_ports
from common.replay import keys as keys_lib
from common.replay import shards as shards_lib
from common.replay.distributions import Fifo, Proportional, Uniform
from common.replay.memory import Bytes, Memory, Statistics
from common.replay.service import RemoteMemory, ReplayService
from common.replay.shards import CountersOfAll, ShardedMemory

SPECS = {"value": tf.TensorSpec([2], tf.float32), "image": Bytes(20)}
EXPONENT = 0.6
ITEMS = (5, 30, 12)  # in each shard
TOKEN = "a token of the tests"


def make_memory(capacity=100, distribution=Proportional(EXPONENT), **options):
    return Memory(
        SPECS, capacity, {"sample": distribution, "remove": Fifo()}, "remove", seed=1, **options
    )


def steps_of(keys):
    """Returns steps that contain their keys."""
    values = np.stack([keys % 1000, keys >> 58], axis=1).astype(np.float32)
    return {"value": values, "image": np.array([b"%d" % key for key in keys], object)}


def make_keys(shard, count):
    return keys_lib.transition_keys(shard, 3, 1, np.arange(count))


class Filled:
    """Shards whose priorities differ in scale, and one memory with the items of all."""

    def __init__(self, items=ITEMS, distribution=Proportional(EXPONENT)):
        generator = np.random.default_rng(0)
        self.shards = [make_memory(distribution=distribution) for _ in items]
        self.one = make_memory(distribution=distribution)
        self.priorities = {}
        for shard, count in enumerate(items):
            keys = make_keys(shard, count)
            priorities = generator.uniform(0, 1 + 4 * shard, count).astype(np.float32)
            for memory in (self.shards[shard], self.one):
                memory.insert(keys, steps_of(keys), priorities)
            self.priorities |= dict(zip(keys.tolist(), priorities.tolist()))
        self.memory = ShardedMemory(self.shards)

    def probabilities(self):
        """Returns the probability of each key, by the definition."""
        masses = {key: priority**EXPONENT for key, priority in self.priorities.items()}
        return {key: mass / sum(masses.values()) for key, mass in masses.items()}


@pytest.fixture(scope="module")
def filled():
    return Filled()


def probabilities_of(sample):
    return sample.masses.numpy() / sample.total_mass.numpy()


def chi_square(keys, expected):
    """Returns the chi-square statistic of counts, in standard deviations from its mean."""
    found, counts = np.unique(keys, return_counts=True)
    seen = dict(zip(found.tolist(), counts.tolist()))
    statistic = sum(
        (seen.get(key, 0) - len(keys) * p) ** 2 / (len(keys) * p) for key, p in expected.items()
    )
    freedom = len(expected) - 1
    assert set(seen) <= set(expected)
    return (statistic - freedom) / np.sqrt(2 * freedom)


def test_items_are_drawn_as_from_one_memory(filled):
    sample, one = filled.memory.sample(60_000, seed=7), filled.one.sample(60_000, seed=7)
    expected = filled.probabilities()
    keys = sample.keys.numpy()
    assert chi_square(one.keys.numpy(), expected) < 4
    assert chi_square(keys, expected) < 4
    for part in np.split(keys, 4):  # every quarter of the rows is a fair sample, too
        assert chi_square(part, expected) < 4
    np.testing.assert_allclose(
        probabilities_of(sample), [expected[key] for key in keys.tolist()], rtol=1e-6
    )
    assert int(sample.count) == int(one.count) == sum(ITEMS)
    np.testing.assert_allclose(sample.total_mass, one.total_mass, rtol=1e-12)


def test_uniform_shards_of_different_size_give_uniform_items():
    filled = Filled(distribution=Uniform())
    sample = filled.memory.sample(40_000, seed=3)
    n = sum(ITEMS)
    assert chi_square(sample.keys.numpy(), dict.fromkeys(filled.priorities, 1 / n)) < 4
    np.testing.assert_allclose(probabilities_of(sample), 1 / n, rtol=1e-9)


def test_every_row_is_whole(filled):
    sample = filled.memory.sample(200, seed=5)
    keys = sample.keys.numpy()
    assert set(keys_lib.shard_of(keys)) == {0, 1, 2}
    expected = steps_of(keys)
    np.testing.assert_array_equal(sample.steps["value"], expected["value"])
    assert sample.steps["image"].numpy().tolist() == expected["image"].tolist()
    np.testing.assert_array_equal(sample.lengths, np.ones(200))
    assert (sample.masses.dtype, sample.total_mass.dtype, sample.count.dtype) == (
        tf.float64,
        tf.float64,
        tf.int64,
    )


def test_what_is_drawn_follows_from_the_seed_and_the_contents(filled):
    def draw(memory, seed):
        return memory.sample(100, seed=seed).keys.numpy().tolist()

    assert draw(filled.memory, 5) == draw(Filled().memory, 5)
    assert draw(filled.memory, 5) != draw(filled.memory, 6)
    assert draw(filled.memory, None) != draw(filled.memory, None)


def test_an_empty_shard_is_left_alone_and_a_part_of_it_is_none(filled):
    class Strict(Memory):
        def sample(self, *arguments, **keywords):
            raise AssertionError("it is empty")

    empty = Strict(SPECS, 10, {"sample": Uniform(), "remove": Fifo()}, "remove")
    sample = ShardedMemory([empty, filled.shards[1]]).sample(50, seed=1)
    assert set(keys_lib.shard_of(sample.keys.numpy())) == {1}
    assert int(sample.count) == ITEMS[1]
    with pytest.raises(tf.errors.FailedPreconditionError, match="nothing to draw"):
        ShardedMemory([make_memory(), make_memory()]).sample(5)


class MovedOn:
    """A shard whose total mass trebles after `mass` was called."""

    def __init__(self, memory):
        self._memory = memory

    def mass(self):
        total, count = self._memory.mass()
        return total / 3, count

    def sample(self, *arguments, **keywords):
        return self._memory.sample(*arguments, **keywords)


def test_probabilities_are_those_of_the_draw_also_when_masses_move(filled):
    """They are P(shard), from the masses first read, times P(item) in the shard."""
    first, second = filled.shards[:2]
    sample = ShardedMemory([MovedOn(first), second]).sample(1000, seed=2)
    totals = [float(first.mass()[0]) / 3, float(second.mass()[0])]
    for key, probability in zip(sample.keys.numpy().tolist(), probabilities_of(sample)):
        shard = key >> 58
        inside = filled.priorities[key] ** EXPONENT / float(filled.shards[shard].mass()[0])
        assert probability == pytest.approx(totals[shard] / sum(totals) * inside, rel=1e-6)


def test_priorities_go_to_the_shards_of_their_keys():
    filled = Filled()
    gone = make_keys(1, 1000)[-2:]
    of_no_shard = make_keys(7, 2)
    keys = np.concatenate([make_keys(shard, count) for shard, count in enumerate(ITEMS)])
    np.random.default_rng(1).shuffle(keys)
    keys = np.concatenate([keys, gone, of_no_shard])
    priorities = np.linspace(1, 2, len(keys)).astype(np.float32)
    missing = filled.memory.update_priorities(tf.constant(keys), tf.constant(priorities))
    assert int(missing) == 4
    filled.priorities = dict(zip(keys.tolist()[:-4], priorities.tolist()[:-4]))
    expected = filled.probabilities()
    sample = filled.memory.sample(3000, seed=1)
    np.testing.assert_allclose(
        probabilities_of(sample), [expected[key] for key in sample.keys.numpy().tolist()], rtol=1e-6
    )
    for memory, count in zip(filled.shards, ITEMS):
        assert memory.statistics().updated == count


def test_the_mass_is_that_of_one_memory(filled):
    (total_mass, count), (expected, items) = filled.memory.mass(), filled.one.mass()
    assert total_mass.dtype == tf.float64 and count.dtype == tf.int64
    assert float(total_mass) == pytest.approx(float(expected), rel=1e-12)
    assert int(count) == int(items) == sum(ITEMS)


def test_counters_and_removals_are_added_up():
    shards = [make_memory(capacity=10, hard_capacity=40) for _ in range(3)]
    for shard, memory in enumerate(shards):
        keys = make_keys(shard, 8 + 4 * shard)
        memory.insert(keys, steps_of(keys), np.ones(len(keys), np.float32))
    memory = ShardedMemory(shards)
    memory.sample(25, seed=1)
    statistics = memory.statistics()
    assert (statistics.items, statistics.inserted, statistics.sampled) == (36, 36, 25)
    assert int(memory.remove_to_fit()) == 2 + 6
    assert [one.statistics().items for one in shards] == [8, 10, 10]
    assert memory.statistics().removed == 8


def test_an_error_names_the_shard(filled):
    keys = np.array([make_keys(0, 1)[0], make_keys(2, 1)[0]])
    with pytest.raises(tf.errors.InvalidArgumentError, match="replay 2: .*priorit"):
        filled.memory.update_priorities(keys, np.array([1, np.nan], np.float32))


class Service:
    """A stand-in for `RemoteMemory`; without counts its service does not answer."""

    def __init__(self, accepted=None):
        self._accepted = accepted
        self.left = None

    def accepted(self):
        return self._answer(self._accepted)

    def statistics(self):
        return self._answer(Statistics(*[10] * len(Statistics._fields)))

    def disconnect(self, finished):
        self._answer(0)
        self.left = finished

    def _answer(self, value):
        if self._accepted is None:
            raise ServiceUnavailableError("nothing answers at host-b:7000")
        return value


def test_accepted_transitions_are_those_of_all_shards_that_answer():
    memory = ShardedMemory([Service({11: 5}), Service(), Service({31: 7, 32: 1})])
    assert memory.accepted() == {11: 5, 31: 7, 32: 1}


def test_all_that_are_there_are_told_that_the_learner_disconnects():
    services = [Service(), Service({}), Service({})]
    with pytest.raises(ServiceUnavailableError, match="replay 0: nothing answers at host-b:7000"):
        ShardedMemory(services).disconnect(finished=True)
    assert [one.left for one in services] == [None, True, True]


def test_the_counters_of_all_for_an_actor():
    own = Statistics(*[1] * len(Statistics._fields))
    assert CountersOfAll([])(own) == own
    away = Service({})
    of_all = CountersOfAll([Service({}), away, Service()])
    assert of_all(own) == Statistics(*[21] * len(own))  # the third has never answered
    away._accepted = None  # pylint: disable=protected-access
    assert of_all(own) == Statistics(*[21] * len(own))  # the second counts as before


class Counted(Service):
    """Counts its calls; a service that does not answer takes its time."""

    asked = 0

    def statistics(self):
        self.asked += 1
        if self._accepted is None:
            time.sleep(0.3)
        return super().statistics()

    def come_back(self):
        self._accepted = {}


def test_a_shard_that_is_away_is_left_alone_for_a_while(monkeypatch):
    monkeypatch.setattr(shards_lib, "_AWAY_SECONDS", 60.0)
    own = Statistics(*[1] * len(Statistics._fields))
    away, there = Counted(), Counted({})
    of_all = CountersOfAll([away, there])
    for _ in range(5):
        assert of_all(own).inserted == 11
    assert (away.asked, there.asked) == (1, 5)

    monkeypatch.setattr(shards_lib, "_AWAY_SECONDS", 0.0)
    of_all = CountersOfAll([away, there])
    assert of_all(own).inserted == 11
    away.come_back()
    assert of_all(own).inserted == 21


def test_shards_are_asked_for_their_counters_in_parallel():
    """No shard answers before all have been asked."""
    barrier = threading.Barrier(3, timeout=30.0)

    class Waiting(Service):
        def statistics(self):
            barrier.wait()
            return super().statistics()

    own = Statistics(*[1] * len(Statistics._fields))
    assert CountersOfAll([Waiting({}) for _ in range(3)])(own).inserted == 31


def test_another_error_of_a_shard_is_no_reason_to_go_on():
    class Refusing(Service):
        def statistics(self):
            raise WrongTokenError("refused")

    with pytest.raises(WrongTokenError):
        CountersOfAll([Service({}), Refusing({})])(Statistics(*[1] * len(Statistics._fields)))


def test_behind_services_one_of_which_dies_and_comes_back_empty():
    def serve(memory, address=None):
        server = rpc.Server(address or f"127.0.0.1:{free_ports(1)[0]}", TOKEN)
        ReplayService(server, memory)
        server.start()
        return server

    filled = Filled()
    servers = [serve(memory) for memory in filled.shards]
    memory = ShardedMemory(
        [RemoteMemory(rpc.Client(server.address, TOKEN, 2.0), SPECS) for server in servers]
    )
    here, there = filled.memory.sample(64, seed=9), memory.sample(64, seed=9)
    np.testing.assert_array_equal(here.keys, there.keys)
    np.testing.assert_array_equal(here.steps["image"].numpy(), there.steps["image"].numpy())
    np.testing.assert_allclose(probabilities_of(here), probabilities_of(there), rtol=1e-12)

    servers[1].close()
    with pytest.raises(ServiceUnavailableError, match=f"replay 1: .*{servers[1].address}"):
        memory.sample(64, seed=9)
    servers[1] = serve(make_memory(), servers[1].address)
    rpc.Client(servers[1].address, TOKEN).wait_until_available(10.0)
    sample = memory.sample(64, seed=9)
    assert set(keys_lib.shard_of(sample.keys.numpy())) == {0, 2}
    assert int(sample.count) == ITEMS[0] + ITEMS[2]
    for server in servers:
        server.close()
