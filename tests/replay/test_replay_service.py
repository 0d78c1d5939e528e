"""A memory behind a real server on the loopback."""

import collections
import threading
import time

import numpy as np
import pytest
import tensorflow as tf

from common.cluster import rpc
from common.cluster.errors import (MessageTooLargeError, ServiceUnavailableError,
                                   WrongTokenError)
from common.cluster.topology import free_ports
from common.replay import key_layout
from common.replay.distributions import Fifo, Proportional, UNKNOWN_PRIORITY
from common.replay.memory import Memory
from common.replay.service import RemoteMemory, ReplayService

TOKEN = "a token of the tests"
WIDTH = 64
SPECS = {"x": tf.TensorSpec([WIDTH], tf.float32), "y": tf.TensorSpec([], tf.float32)}
Served = collections.namedtuple("Served", "server service memory client remote")


def serve(specs=SPECS, capacity=2000, exponent=1.0, address=None):
    memory = Memory(specs, capacity, {"sample": Proportional(exponent), "old": Fifo()}, "old",
                    seed=1)
    address = address or f"127.0.0.1:{free_ports(1)[0]}"
    server = rpc.Server(address, TOKEN)
    service = ReplayService(server, memory)
    server.start()
    client = rpc.Client(address, TOKEN, timeout_seconds=20.0)
    return Served(server, service, memory, client, RemoteMemory(client, specs))


@pytest.fixture
def served():
    served = serve()
    yield served
    served.server.close()


def rows(keys):
    """Both columns are functions of the key."""
    y = (np.asarray(keys) % 65521).astype(np.float32)
    return {"x": np.repeat(y[:, None], WIDTH, 1), "y": y}


def add(memory, keys, priority=1.0):
    keys = np.asarray(keys)
    return memory.insert(keys, rows(keys), np.full(len(keys), priority, np.float32))


def assert_whole(keys, steps):
    for name, column in rows(keys).items():
        np.testing.assert_array_equal(steps[name], column)


# The contract of Memory.


def test_the_remote_memory_does_what_the_memory_does(served):
    remote, memory = served.remote, served.memory
    statistics = add(remote, range(10), 2.0)
    assert statistics == remote.statistics() == memory.statistics()
    assert statistics.items == statistics.inserted == 10  # counted after the insert
    sample = remote.sample(64)
    assert sample.keys.dtype == tf.int64 and sample.masses.dtype == tf.float64
    assert sample.lengths.dtype == tf.int32 and sample.count == 10
    assert sample.total_mass == 20 and np.all(sample.masses == 2) and np.all(sample.lengths == 1)
    tf.nest.assert_same_structure(sample.steps, SPECS)
    assert_whole(sample.keys.numpy(), sample.steps)
    missing = remote.update_priorities(tf.constant([3, 999, 4], tf.int64),
                                       tf.constant([0.0, 1.0, UNKNOWN_PRIORITY]))
    assert missing == 1
    assert remote.sample(1).total_mass == 8 * 2 + 0 + 2
    assert remote.statistics().missing == 1 and remote.statistics().sampled == 65
    memory.check()


def test_a_retried_insert_does_not_duplicate(served):
    for _ in range(3):
        statistics = add(served.remote, range(100))
    assert (statistics.items, statistics.inserted, statistics.duplicates) == (100, 100, 200)
    # Of a retry of which a part had arrived, the rest is added.
    assert add(served.remote, range(90, 110)).inserted == 110


def test_nothing_to_sample_and_nothing_to_add(served):
    with pytest.raises(tf.errors.FailedPreconditionError, match="no item"):
        served.remote.sample(1)
    assert add(served.remote, np.zeros([0], np.int64)).items == 0


def test_what_exceeds_a_message_is_split(served):
    wide = {"x": tf.TensorSpec([5000], tf.float32)}  # 20 kB: about 200 rows a message
    with_wide = serve(wide, capacity=700)
    remote, memory = with_wide.remote, with_wide.memory
    x = np.random.default_rng(0).normal(size=[650, 5000]).astype(np.float32)
    priorities = np.arange(1, 651).astype(np.float32)
    statistics = remote.insert(np.arange(650), {"x": x}, priorities)
    assert statistics.items == 650 == memory.statistics().items
    np.testing.assert_array_equal(memory.read(np.arange(650))[1]["x"], x)

    sample = remote.sample(1001)
    keys = sample.keys.numpy()
    assert keys.shape == sample.masses.shape == sample.lengths.shape == (1001,)
    np.testing.assert_array_equal(sample.masses, priorities[keys])
    assert sample.total_mass == priorities.sum(dtype=np.float64) and sample.count == 650
    np.testing.assert_array_equal(sample.steps["x"], x[keys])
    assert remote.statistics().sampled == 1001
    with_wide.server.close()


def test_a_split_insert_with_too_many_priorities_is_refused():
    with_wide = serve({"x": tf.TensorSpec([5000], tf.float32)}, capacity=700)
    for count in range(200, 212):  # at the end of a message too
        with pytest.raises(tf.errors.InvalidArgumentError, match="priorities must be of shape"):
            with_wide.remote.insert(np.arange(count), {"x": np.zeros([count, 5000], np.float32)},
                                    np.ones(count + 1, np.float32))
    with_wide.server.close()


def test_the_probabilities_of_a_split_sample_are_right_while_masses_change():
    wide = {"x": tf.TensorSpec([5000], tf.float32)}
    with_wide = serve(wide, capacity=10)
    with_wide.remote.insert(np.arange(2), {"x": np.zeros([2, 5000], np.float32)},
                            np.float32([1, 1]))
    stop = threading.Event()

    def change():
        while not stop.is_set():
            for scale in (1.0, 1000.0):  # both at once: each always has probability 1/2
                with_wide.memory.update_priorities([0, 1], np.float32([scale, scale]))

    thread = threading.Thread(target=change)
    thread.start()
    for _ in range(5):
        sample = with_wide.remote.sample(800)
        np.testing.assert_allclose(sample.masses / sample.total_mass, 0.5, rtol=1e-12)
    stop.set()
    thread.join()
    with_wide.server.close()


@pytest.mark.parametrize("specs, value", [
    ({"n": tf.TensorSpec([], tf.int8)}, -1),  # ten bytes on the wire each
    ({"n": tf.TensorSpec([3], tf.uint8)}, 255),
    ({"n": tf.TensorSpec([8], tf.int32)}, -5),
    ({"n": tf.TensorSpec([], tf.half)}, -1.5),
    ({"n": tf.TensorSpec([], tf.float64)}, 1e300),
    ({"n": tf.TensorSpec([0], tf.float32)}, 0),
    ({"n": tf.TensorSpec([13], tf.float32)}, 1e30),  # cartpole's transition
])
def test_small_and_integer_steps_are_split_in_time(specs, value):
    """The largest keys and values take the most of a message."""
    count = 300_000
    narrow = serve(specs, capacity=count)
    dtype, shape = specs["n"].dtype.as_numpy_dtype, specs["n"].shape
    keys = 2**63 - 1 - np.arange(count)
    statistics = narrow.remote.insert(keys, {"n": np.full([count, *shape], value, dtype)},
                                      np.full(count, 1e-3, np.float32))
    assert statistics.items == count
    sample = narrow.remote.sample(count)
    assert sample.keys.shape == [count] and sample.steps["n"].shape == [count, *shape]
    assert np.all(sample.steps["n"].numpy() == np.asarray(value, dtype))
    narrow.server.close()


def test_incarnations_differ(served):
    given = [served.remote.new_incarnation()]
    for _ in range(5):  # and when many ask at once
        futures = [served.client.call_async("replay_incarnation") for _ in range(400)]
        given += [int(future.result()) for future in futures]
    assert len(set(given)) == len(given) == 2001
    assert all(0 <= one < key_layout.MAX_INCARNATIONS for one in given)


def test_the_learner_ends_the_run(served):
    assert not served.service.finished
    served.remote.finish()
    assert served.service.finished


# Bad input.


def columns(keys):
    return list(rows(keys).values())


def insert_call(keys=None, item_keys=(), lengths=(), priorities=None, columns_=None):
    keys = np.arange(500_000, 500_004) if keys is None else keys
    priorities = np.ones(4, np.float32) if priorities is None else priorities
    return "replay_insert", [
        keys, np.array(item_keys, np.int64), np.array(lengths, np.int32), priorities,
        *(columns(np.arange(4)) if columns_ is None else columns_)]


NAN = np.float32([1, np.nan, 1, 1])
BAD = {
    "dtype of keys": (insert_call(np.float32([1, 2, 3, 4])), None),
    "shape of keys": (insert_call(np.int64([[1, 2, 3, 4]])), None),
    "negative keys": (insert_call(np.int64([1, 2, -3, 4])), r"step_keys\[2\]"),
    "NaN priorities": (insert_call(priorities=NAN), r"priorities\[1\]"),
    "infinite priorities": (insert_call(priorities=NAN * 0 + np.float32(np.inf)), "priorities"),
    "dtype of priorities": (insert_call(priorities=np.ones(4)), None),
    "count of priorities": (insert_call(priorities=np.ones(3, np.float32)), "priorities"),
    "dtype of a column": (insert_call(columns_=[c.astype(np.float64) for c in columns([1] * 4)]),
                          None),
    "shape of a column": (insert_call(columns_=[np.zeros([4, WIDTH - 1], np.float32),
                                                np.zeros(4, np.float32)]), "column x"),
    "a column too few": (insert_call(columns_=columns([1] * 4)[:1]), None),
    "lengths": (insert_call(lengths=[1, 1, 0, 1]), r"item_lengths\[2\]"),
    "sample of none": (("replay_sample", [np.int32(0)]), "batch_size must be at least 1"),
    "sample of less": (("replay_sample", [np.int32(-5)]), "batch_size must be at least 1"),
    "sample above a message": (("replay_sample", [np.int32(100_000)]), "batch_size must be at mo"),
    "sample above any": (("replay_sample", [np.int32(2**31 - 1)]), "batch_size must be at most"),
    "shape of batch_size": (("replay_sample", [np.int32([4])]), None),
    "dtype of batch_size": (("replay_sample", [np.float32(4)]), None),
    "NaN in an update": (("replay_update_priorities", [np.arange(4), NAN]), r"priorities\[1\]"),
    "count in an update": (("replay_update_priorities", [np.arange(4), NAN[:1]]), "priorities"),
    "keys of an update": (("replay_update_priorities", [np.int64([-1]), NAN[:1]]), r"keys\[0\]"),
    "arguments too many": (("replay_statistics", [np.int64(1)]), None),
}


def test_bad_input_under_load_is_a_typed_error_and_does_no_harm(served):
    """Two threads add and sample at full rate meanwhile."""
    stop, errors = threading.Event(), []
    counts = {"added": 0, "sampled": 0}
    add(served.remote, np.arange(100))
    counts["added"] = 100

    def repeat(function):
        try:
            remote = RemoteMemory(rpc.Client(served.server.address, TOKEN, 20.0), SPECS)
            while not stop.is_set():
                function(remote)
        except BaseException as error:  # pylint: disable=broad-except
            errors.append(error)

    def keep_adding(remote):
        begin = counts["added"]
        statistics = add(remote, np.arange(begin, begin + 50))
        assert statistics.inserted == begin + 50
        counts["added"] += 50

    def keep_sampling(remote):
        sample = remote.sample(128)
        assert_whole(sample.keys.numpy(), sample.steps)
        # The priority of each stays 1, whatever else was tried.
        assert np.all(sample.masses == 1) and sample.total_mass == float(sample.count)
        counts["sampled"] += 128

    threads = [threading.Thread(target=repeat, args=[f]) for f in (keep_adding, keep_sampling)]
    for thread in threads:
        thread.start()
    stranger = rpc.Client(served.server.address, "another token", 20.0)
    rounds = 0
    end = time.monotonic() + 2.0
    while time.monotonic() < end or rounds < 2:
        rounds += 1
        for name, ((method, arguments), message) in BAD.items():
            with pytest.raises(tf.errors.InvalidArgumentError, match=message):
                served.client.call(method, arguments)
                pytest.fail(f"not refused: {name}")
        with pytest.raises(WrongTokenError):
            stranger.call(*insert_call())
        with pytest.raises(MessageTooLargeError):
            served.client.call(*insert_call(columns_=[np.zeros([20_000, WIDTH], np.float32),
                                                      np.zeros(20_000, np.float32)]))
        unknown = np.arange(10**6, 10**6 + 64)
        assert served.remote.update_priorities(unknown, np.full(64, 9, np.float32)) == 64
    stop.set()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    if errors:
        raise errors[0]

    served.memory.check()
    added = counts["added"]
    assert added > 200 and counts["sampled"] > 1000  # the load was there
    statistics = served.memory.statistics()
    assert statistics == statistics._replace(
        items=min(added, 2000), steps=min(added, 2000), inserted=added, duplicates=0, incomplete=0,
        unviewed=0, removed=max(0, added - 2000), sampled=counts["sampled"], updated=0,
        missing=64 * rounds)
    newest = np.arange(max(0, added - 2000), added)
    found, steps = served.memory.read(newest)
    assert np.all(found)
    assert_whole(newest, steps)
    assert not np.any(served.memory.read(np.arange(500_000, 500_004))[0])


def test_a_message_of_a_client_that_checks_nothing(served):
    """TensorFlow's own client: the server has the last word on sizes and on the token."""
    raw = tf.distribute.experimental.rpc.Client.create(
        "grpc", served.server.address, name="raw", timeout_in_ms=5000)
    add(served.remote, range(5))
    before = served.memory.statistics()
    _, (keys, item_keys, lengths, _, _, _) = insert_call()
    large = [keys, item_keys, lengths, np.ones(4, np.float32),
             np.zeros([20_000, WIDTH], np.float32), np.zeros(20_000, np.float32)]
    for token, arguments in [(TOKEN, large), ("another token", insert_call()[1])]:
        status = raw.call("replay_insert", [tf.constant(token)]
                          + [tf.convert_to_tensor(argument) for argument in arguments],
                          tf.TensorSpec([10], tf.int64))
        with pytest.raises(tf.errors.OpError):
            status.get_value()
    assert served.memory.statistics() == before
    served.memory.check()


# Failure.


def test_a_service_that_restarts_at_its_address_is_used_again():
    first = serve()
    client = rpc.Client(first.server.address, TOKEN, timeout_seconds=1.0)
    remote = RemoteMemory(client, SPECS)
    add(remote, range(50))
    incarnation = remote.new_incarnation()
    first.server.close()
    with pytest.raises(ServiceUnavailableError):
        remote.sample(4)
    with pytest.raises(ServiceUnavailableError):
        add(remote, range(50, 60))

    second = serve(address=first.server.address)
    client.wait_until_available(30.0)
    assert remote.statistics() == (0,) * 10  # a lost replay refills
    with pytest.raises(tf.errors.FailedPreconditionError):
        remote.sample(4)
    assert remote.update_priorities(np.arange(4), np.ones(4, np.float32)) == 4  # are gone
    assert add(remote, range(50, 60)).items == 10
    assert set(remote.sample(30).keys.numpy()) <= set(range(50, 60))
    assert remote.new_incarnation() != incarnation
    second.memory.check()
    second.server.close()
