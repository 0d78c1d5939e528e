"""Tests of sequences in common.replay.service and shards, with real servers on the loopback."""

import collections

import numpy as np
import pytest
import tensorflow as tf

from common.cluster import rpc
from common.cluster.errors import ServiceUnavailableError
from common.cluster.topology import free_ports
from common.replay import keys as keys_lib
from common.replay import service as service_lib
from common.replay.distributions import Fifo, Proportional
from common.replay.memory import Bytes, Memory
from common.replay.service import RemoteMemory, ReplayService
from common.replay.shards import ShardedMemory

TOKEN = "a token of the tests"
LENGTH = 33
WIDTH = 5000
"""20 kB a step: a message holds 205 steps, or 6 sequences."""
SPECS = {
    "x": tf.TensorSpec([WIDTH], tf.float32),
    "file": Bytes(20),
    "type": tf.TensorSpec([], tf.uint8),
}
Served = collections.namedtuple("Served", "server service memory client remote")
Added = collections.namedtuple("Added", "keys steps priorities item_keys item_lengths")


def serve(capacity=2000, length=LENGTH):
    memory = Memory(SPECS, capacity, {"sample": Proportional(1.0), "old": Fifo()}, "old", 1)
    server = rpc.Server(f"127.0.0.1:{free_ports(1)[0]}", TOKEN)
    service = ReplayService(server, memory, length)
    server.start()
    client = rpc.Client(server.address, TOKEN, timeout_seconds=20.0)
    return Served(server, service, memory, client, RemoteMemory(client, SPECS, length))


@pytest.fixture
def served():
    served = serve()
    yield served
    served.server.close()


def steps_of(keys):
    """Returns steps whose columns are functions of the key, [..., ...]."""
    x = (np.asarray(keys) % 65521).astype(np.float32)
    files = np.array([b"%d" % key for key in np.ravel(keys)], object).reshape(np.shape(keys))
    return {"x": np.repeat(x[..., None], WIDTH, -1), "file": files, "type": np.uint8(keys % 251)}


def stream(actors, begin, end, shard=0):
    """Returns timesteps [begin, end) of some actors, in the order of time, and their sequences."""

    def keys_of(first, last):
        times = np.arange(first, last)[:, None]
        return keys_lib.make_keys(shard, np.arange(actors), 7, times).reshape(-1)

    keys = keys_of(begin, end)
    item_keys = keys_of(max(0, begin - LENGTH + 1), end - LENGTH + 1)
    priorities = (1 + item_keys % 5).astype(np.float32)
    lengths = np.full(len(item_keys), LENGTH, np.int32)
    return Added(keys, steps_of(keys), priorities, item_keys, lengths)


def assert_whole(sample):
    keys = sample.keys.numpy()
    assert np.all(sample.lengths == LENGTH)
    for name, column in steps_of(keys[:, None] + np.arange(LENGTH)).items():
        np.testing.assert_array_equal(sample.steps[name], column)


def test_sequences_arrive_and_are_drawn(served):
    incarnation = served.remote.new_incarnation()
    served.remote.insert(*stream(2, 0, LENGTH))
    for t in range(LENGTH, LENGTH + 10):  # one timestep and one sequence of each actor
        statistics = served.remote.insert(*stream(2, t, t + 1))
    assert (statistics.items, statistics.steps) == (2 * 11, 2 * (LENGTH + 10))
    assert statistics.unviewed == statistics.incomplete == statistics.duplicates == 0
    assert served.remote.accepted() == {incarnation: 2 * (LENGTH + 10)}
    sample = served.remote.sample(5, max_length=LENGTH)
    assert sample.steps["x"].shape == [5, LENGTH, WIDTH]
    assert_whole(sample)
    served.memory.check()


def test_a_draw_of_several_messages(served):
    served.remote.insert(*stream(1, 0, 60))
    assert_whole(served.remote.sample(20, max_length=LENGTH))  # four messages
    seeded = served.remote.sample(6, seed=3, max_length=LENGTH)
    here = served.memory.sample(6, seed=3, max_length=LENGTH)
    np.testing.assert_array_equal(seeded.keys, here.keys)


@pytest.mark.parametrize("actors", [1, 4])
def test_an_insert_of_several_messages(served, actors):
    """The first sequences of the four actors alone take 132 of the 205 steps of a message."""
    incarnation = served.remote.new_incarnation()
    added = stream(actors, 0, 150 * 4 // actors)
    assert len(added.keys) == 600
    statistics = served.remote.insert(*added)
    assert statistics == served.memory.statistics()
    assert (statistics.steps, statistics.items) == (600, len(added.item_keys))
    assert statistics.unviewed == statistics.incomplete == statistics.duplicates == 0
    assert served.remote.num_accepted == 600
    assert served.remote.accepted() == {incarnation: 600}
    _, masses = served.memory.masses(added.item_keys)
    np.testing.assert_array_equal(masses, added.priorities)
    assert_whole(served.remote.sample(40, max_length=LENGTH))
    served.memory.check()


def test_tensors_are_sent_as_arrays_are(served):
    added = stream(1, 0, 300)
    steps = tf.nest.map_structure(tf.constant, added.steps)
    assert served.remote.insert(*added._replace(steps=steps)).items == 300 - LENGTH + 1


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_a_retry_never_duplicates(served, failing, monkeypatch):
    """One of the messages of a call gets no reply, although the memory has got it."""
    incarnation = served.remote.new_incarnation()
    added, number, call = stream(2, 0, 300), iter(range(100)), served.client.call

    def lose_a_reply(method, *arguments, **options):
        reply = call(method, *arguments, **options)
        if method == "replay_insert" and next(number) == failing:
            raise ServiceUnavailableError("no reply")
        return reply

    monkeypatch.setattr(served.client, "call", lose_a_reply)
    with pytest.raises(ServiceUnavailableError):
        served.remote.insert(*added)
    assert served.remote.num_accepted == 0
    statistics = served.remote.insert(*added)
    assert (statistics.steps, statistics.items) == (600, 2 * (300 - LENGTH + 1))
    assert statistics.inserted == statistics.items and statistics.duplicates > 0
    assert statistics.unviewed == statistics.incomplete == 0
    assert served.remote.accepted() == {incarnation: 600}
    assert_whole(served.remote.sample(12, max_length=LENGTH))


def test_steps_without_an_item_are_counted_and_not_kept(served):
    added = stream(1, 0, 300)
    kept = added._replace(
        priorities=added.priorities[:-5],
        item_keys=added.item_keys[:-5],
        item_lengths=added.item_lengths[:-5],
    )
    assert served.remote.insert(*kept).steps == 295
    assert served.remote.num_accepted == 300
    assert served.remote.insert(*stream(1, 298, 300)).incomplete == 2


def test_sequences_of_several_shards():
    shards = [serve(), serve()]
    for shard, one in enumerate(shards):
        one.remote.insert(*stream(1, 0, LENGTH + 20 * (shard + 1), shard))
    memory = ShardedMemory([one.remote for one in shards])
    sample = memory.sample(64, seed=1, max_length=LENGTH)
    assert sample.steps["x"].shape == [64, LENGTH, WIDTH] and sample.count == 21 + 41
    assert set(keys_lib.shard_of(sample.keys.numpy())) == {0, 1}
    assert_whole(sample)
    assert memory.update_priorities(sample.keys, tf.ones([64])) == 0
    for one in shards:
        one.server.close()


def test_another_length_than_the_services_is_refused(served):
    served.remote.insert(*stream(1, 0, LENGTH))
    with pytest.raises(ValueError, match="max_length must be 33, .* is 0"):
        served.remote.sample(2)


@pytest.mark.parametrize("length", [206, 100_000])
def test_a_sequence_that_exceeds_a_message_is_refused(served, length):
    with pytest.raises(ValueError, match=f"sequence of {length} steps exceeds a .* holds 205"):
        RemoteMemory(served.client, SPECS, length)
    with pytest.raises(ValueError, match="exceeds a message"):
        ReplayService(served.server, served.memory, length)


@pytest.mark.parametrize("seed", range(20))
def test_each_message_is_complete_and_within_its_limit(seed):
    """A twin of the memory: a step is there when its item is, and no step waits for one."""
    rng = np.random.default_rng(seed)
    length, most = int(rng.integers(2, 8)), int(rng.integers(8, 20))
    order = rng.permutation(np.arange(60))  # not only in the order of time
    starts = rng.permutation(np.arange(60 - length + 1))
    lengths = np.full(len(starts), length)
    stored, arrived, counted = set(), [], 0
    for count, rows, items in service_lib._messages_of_items(order, starts, lengths, most):
        new = order[rows].tolist()
        assert len(new) == count <= most and len(starts[items]) <= most
        assert not stored & set(new)
        stored |= set(new)
        views = {start + i for start in starts[items] for i in range(length)}
        assert set(new) <= views <= stored
        arrived += starts[items].tolist()
        counted += count
    assert arrived == starts.tolist() and counted == 60
