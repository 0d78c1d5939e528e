"""Tests of common.replay.service with a real server on the loopback."""

import collections
import random
import threading
import time

import numpy as np
import pytest
import tensorflow as tf

from common.cluster import rpc
from common.cluster.errors import MessageTooLargeError, ServiceUnavailableError, WrongTokenError
from common.cluster.topology import free_ports
from common.replay import key_layout
from common.replay.accounts import Accounts
from common.replay.distributions import UNKNOWN_PRIORITY, Fifo, Proportional
from common.replay.memory import Bytes, Memory
from common.replay.service import RemoteMemory, ReplayService

TOKEN = "a token of the tests"
WIDTH = 64
SPECS = {"x": tf.TensorSpec([WIDTH], tf.float32), "y": tf.TensorSpec([], tf.float32)}
Served = collections.namedtuple("Served", "server service memory client remote")


def serve(specs=SPECS, capacity=2000, exponent=1.0, address=None, hard_capacity=None):
    memory = Memory(
        specs, capacity, {"sample": Proportional(exponent), "old": Fifo()}, "old", 1, hard_capacity
    )
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
    """Returns steps whose columns are functions of the key."""
    y = (np.asarray(keys) % 65521).astype(np.float32)
    return {"x": np.repeat(y[:, None], WIDTH, 1), "y": y}


def add(memory, keys, priority=1.0):
    keys = np.asarray(keys)
    return memory.insert(keys, rows(keys), np.full(len(keys), priority, np.float32))


def assert_whole(keys, steps):
    for name, column in rows(keys).items():
        np.testing.assert_array_equal(steps[name], column)


# The behaviour of Memory.


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
    missing = remote.update_priorities(
        tf.constant([3, 999, 4], tf.int64), tf.constant([0.0, 1.0, UNKNOWN_PRIORITY])
    )
    assert missing == 1
    assert remote.sample(1).total_mass == 8 * 2 + 0 + 2
    assert remote.statistics().missing == 1 and remote.statistics().sampled == 65
    memory.check()


def test_a_retried_insert_does_not_duplicate(served):
    for _ in range(3):
        statistics = add(served.remote, range(100))
    assert (statistics.items, statistics.inserted, statistics.duplicates) == (100, 100, 200)
    # A retry of a call that was partly done adds the rest.
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
            with_wide.remote.insert(
                np.arange(count),
                {"x": np.zeros([count, 5000], np.float32)},
                np.ones(count + 1, np.float32),
            )
    with_wide.server.close()


def test_the_probabilities_of_a_split_sample_are_right_while_masses_change():
    wide = {"x": tf.TensorSpec([5000], tf.float32)}
    with_wide = serve(wide, capacity=10)
    with_wide.remote.insert(
        np.arange(2), {"x": np.zeros([2, 5000], np.float32)}, np.float32([1, 1])
    )
    stop = threading.Event()

    def change():
        while not stop.is_set():
            for scale in (1.0, 1000.0):  # masses change together: the probability stays 1/2
                with_wide.memory.update_priorities([0, 1], np.float32([scale, scale]))

    thread = threading.Thread(target=change)
    thread.start()
    for _ in range(5):
        sample = with_wide.remote.sample(800)
        np.testing.assert_allclose(sample.masses / sample.total_mass, 0.5, rtol=1e-12)
    stop.set()
    thread.join()
    with_wide.server.close()


@pytest.mark.parametrize(
    "specs, value",
    [
        ({"n": tf.TensorSpec([], tf.int8)}, -1),  # ten bytes on the wire each
        ({"n": tf.TensorSpec([3], tf.uint8)}, 255),
        ({"n": tf.TensorSpec([8], tf.int32)}, -5),
        ({"n": tf.TensorSpec([], tf.half)}, -1.5),
        ({"n": tf.TensorSpec([], tf.float64)}, 1e300),
        ({"n": tf.TensorSpec([0], tf.float32)}, 0),
        ({"n": tf.TensorSpec([13], tf.float32)}, 1e30),  # cartpole's transition
    ],
)
def test_small_and_integer_steps_are_split_in_time(specs, value):
    """Uses the keys and values that take most room in a message."""
    count = 300_000
    narrow = serve(specs, capacity=count)
    dtype, shape = specs["n"].dtype.as_numpy_dtype, specs["n"].shape
    keys = 2**63 - 1 - np.arange(count)
    statistics = narrow.remote.insert(
        keys, {"n": np.full([count, *shape], value, dtype)}, np.full(count, 1e-3, np.float32)
    )
    assert statistics.items == count
    sample = narrow.remote.sample(count)
    assert sample.keys.shape == [count] and sample.steps["n"].shape == [count, *shape]
    assert np.all(sample.steps["n"].numpy() == np.asarray(value, dtype))
    narrow.server.close()


# Columns of strings, such as compressed images.


MAX_BYTES = 30_000
IMAGES = {"image": Bytes(MAX_BYTES), "y": tf.TensorSpec([], tf.float32)}


@pytest.fixture
def with_images():
    served = serve(IMAGES)
    yield served
    served.server.close()


def images(keys):
    """Returns strings of all sizes; keys that are multiples of ten have the longest."""
    keys = np.asarray(keys)
    column = np.empty(len(keys), object)
    sizes = np.where(keys % 10, keys * 7919 % MAX_BYTES, MAX_BYTES)
    column[:] = [bytes([key % 256]) * size for key, size in zip(keys.tolist(), sizes.tolist())]
    return {"image": column, "y": keys.astype(np.float32)}


def as_tensors(steps):
    return tf.nest.map_structure(tf.constant, steps)


@pytest.mark.parametrize("convert", [as_tensors, lambda steps: steps])
def test_strings_that_exceed_a_message_are_split(with_images, convert):
    """A message holds 137 rows of the longest strings."""
    remote = with_images.remote
    keys = np.arange(300)
    statistics = remote.insert(keys, convert(images(keys)), np.ones(300, np.float32))
    assert statistics.items == 300
    assert statistics.held_bytes == sum(map(len, images(keys)["image"]))
    sample = remote.sample(400, seed=3)
    expected = images(sample.keys.numpy())
    assert sample.steps["image"].numpy().tolist() == expected["image"].tolist()
    np.testing.assert_array_equal(sample.steps["y"], expected["y"])
    with_images.memory.check()


def test_the_longest_strings_fit_a_message(with_images):
    keys = np.arange(0, 4000, 10)
    with_images.remote.insert(keys, images(keys), np.ones(400, np.float32))
    assert with_images.memory.statistics().held_bytes == 400 * MAX_BYTES
    sample = with_images.remote.sample(300)
    assert set(map(len, sample.steps["image"].numpy())) == {MAX_BYTES}


def test_a_string_that_is_too_long_is_named(with_images):
    with_images.remote.new_incarnation()
    steps = images(np.arange(4))
    steps["image"][2] = bytes(MAX_BYTES + 1)
    message = r"column image\[2\] must have at most 30000 bytes, has 30001"
    for insert in (with_images.remote.insert, with_images.memory.insert):
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            insert(np.arange(4), steps, np.ones(4, np.float32))
    assert with_images.remote.accepted() == {}
    assert set(with_images.memory.statistics()) == {0}


@pytest.mark.parametrize("convert", [as_tensors, lambda steps: steps])
def test_strings_of_actors_in_this_process(with_images, convert):
    keys = np.arange(10)
    with_images.memory.insert(keys, convert(images(keys)), np.ones(10, np.float32))
    steps = with_images.memory.read(keys)[1]
    assert steps["image"].numpy().tolist() == images(keys)["image"].tolist()


def test_what_was_accepted_is_reported_without_steps(with_images):
    remote = with_images.remote
    remote.incarnation, remote.num_accepted = 7, 30  # of a service that has died
    remote.report_accepted()
    assert remote.accepted() == {7: 30}
    assert with_images.memory.statistics().inserted == 0


# A soft capacity and shards.


def test_removal_and_mass_are_those_of_the_memory():
    soft = serve(capacity=100, hard_capacity=200)
    assert soft.remote.mass() == (0, 0) and soft.remote.remove_to_fit() == 0
    add(soft.remote, range(150), 2.0)
    total_mass, count = soft.remote.mass()
    assert (total_mass, count) == (300, 150) == soft.memory.mass()
    assert total_mass.dtype == tf.float64 and count.dtype == tf.int64
    assert soft.remote.remove_to_fit() == 50
    assert soft.remote.mass() == (200, 100) and soft.remote.statistics().removed == 50
    assert not np.any(soft.memory.read(np.arange(50))[0])
    soft.server.close()


# Accepted transitions by incarnation.


def test_incarnations_differ(served):
    given = [served.remote.new_incarnation()]
    for _ in range(5):  # also when many calls ask at once
        futures = [served.client.call_async("replay_incarnation") for _ in range(400)]
        given += [int(future.result()) for future in futures]
    assert len(set(given)) == len(given) == 2001
    numbers = {one % key_layout.MAX_INCARNATIONS for one in given}
    assert len(numbers) == 2001
    assert (
        len({one // key_layout.MAX_INCARNATIONS for one in given}) == 1
    )  # they share the service's identity


def test_the_learner_ends_the_run(served):
    assert not served.service.finished and not served.service.learner_present
    served.remote.accepted()
    assert not served.service.finished and served.service.learner_present
    served.remote.disconnect(finished=False)
    assert not served.service.finished and not served.service.learner_present
    served.remote.disconnect(finished=True)
    assert served.service.finished


def test_a_seeded_sample_is_that_of_the_memory(served):
    add(served.remote, range(100))
    for seed in (1, 2**63 - 1):
        drawn, again = served.remote.sample(64, seed=seed), served.memory.sample(64, seed=seed)
        np.testing.assert_array_equal(drawn.keys, again.keys)
    assert np.any(served.remote.sample(64).keys != served.remote.sample(64).keys)


def test_the_parts_of_a_seeded_sample_differ_and_repeat():
    wide = serve({"x": tf.TensorSpec([5000], tf.float32)}, capacity=700)  # 200 rows a message
    wide.remote.insert(
        np.arange(650), {"x": np.zeros([650, 5000], np.float32)}, np.ones(650, np.float32)
    )
    keys = wide.remote.sample(400, seed=5).keys.numpy()
    np.testing.assert_array_equal(wide.remote.sample(400, seed=5).keys, keys)
    assert np.mean(keys[:134] == keys[134:268]) < 0.1
    wide.server.close()


def client_of(served):
    """Returns an actor's memory and incarnation."""
    remote = RemoteMemory(rpc.Client(served.server.address, TOKEN, 20.0), SPECS)
    return remote, remote.new_incarnation()


def test_transitions_are_counted_by_incarnation(served):
    (one, first), (two, second) = client_of(served), client_of(served)
    assert served.remote.accepted() == {}
    add(one, range(10))
    add(two, range(100, 103))
    add(one, range(10, 15))
    assert served.remote.accepted() == served.service.accepted() == {first: 15, second: 3}
    assert (one.num_accepted, two.num_accepted) == (15, 3)


def test_services_differ_whatever_an_environment_seeds():
    incarnations = []
    for _ in range(2):
        random.seed(0)
        np.random.seed(0)
        incarnations.append(int(Accounts().next_incarnation()))
    assert incarnations[0] != incarnations[1]


def test_what_is_refused_or_repeated_is_not_counted_again(served):
    remote, incarnation = client_of(served)
    add(remote, range(10))
    with pytest.raises(tf.errors.InvalidArgumentError):
        add(remote, range(10, 15), priority=np.nan)
    assert remote.num_accepted == 10 and served.service.accepted() == {incarnation: 10}
    # A call that succeeded although its caller had given up; it is repeated.
    late = insert_call(keys=np.arange(10, 14), incarnation=incarnation, accepted=14)
    served.client.call(*late)
    assert served.service.accepted() == {incarnation: 14}
    add(remote, range(10, 14))
    served.client.call(*late)
    add(remote, range(14, 20))
    served.client.call(*late)  # arrives after a later call
    assert served.service.accepted() == {incarnation: 20} and remote.num_accepted == 20
    assert served.memory.statistics().inserted == 20


def test_a_count_that_exceeds_the_last_one_and_the_rows_is_refused(served):
    remote, incarnation = client_of(served)
    before = served.memory.statistics()
    with pytest.raises(tf.errors.InvalidArgumentError, match="accepted must be from 0 to 4, is 5"):
        served.client.call(*insert_call(incarnation=incarnation, accepted=5))
    assert served.memory.statistics() == before and remote.accepted() == {}
    add(remote, range(10))
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="accepted must be from 0 to 14, is 15"
    ):
        served.client.call(*insert_call(incarnation=incarnation, accepted=15))
    # An actor of a service that has died tells its count; from then on it is held to that, too.
    served.client.call(*insert_call(incarnation=8, accepted=10**6))
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="accepted must be from 0 to 1000004, is"
    ):
        served.client.call(*insert_call(incarnation=8, accepted=2**40))
    assert remote.accepted() == {incarnation: 10, 8: 10**6}


def test_a_split_insert_of_which_a_part_fails_counts_what_came_through():
    wide = serve({"x": tf.TensorSpec([5000], tf.float32)}, capacity=700)
    incarnation = wide.remote.new_incarnation()
    priorities = np.ones(450, np.float32)
    priorities[300] = -2  # in the second of three messages
    x = {"x": np.zeros([450, 5000], np.float32)}
    with pytest.raises(tf.errors.InvalidArgumentError):
        wide.remote.insert(np.arange(450), x, priorities)
    assert wide.service.accepted() == {incarnation: wide.memory.statistics().inserted}
    assert 0 < wide.memory.statistics().inserted < 300
    priorities[300] = 2
    wide.remote.insert(np.arange(450), x, priorities)
    assert wide.service.accepted() == {incarnation: 450} and wide.remote.num_accepted == 450
    wide.server.close()


def test_many_actors_at_once_are_all_counted(served):
    def act(index):
        remote, incarnation = client_of(served)
        for i in range(30):
            begin = 10**6 * index + 10 * i
            add(remote, range(begin, begin + 10))
        expected[incarnation] = 300

    expected = {}
    threads = [threading.Thread(target=act, args=[i]) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(expected) == 4 and served.remote.accepted() == expected
    assert served.memory.statistics().inserted == 1200


def test_no_number_is_given_to_two_incarnations_that_a_service_knows(served):
    """It knows its own and those of a former service, whose actors go on."""
    count = key_layout.MAX_INCARNATIONS
    following = served.remote.new_incarnation() % count
    former = [12345 * count + (following + i) % count for i in (1, 2, 4)]
    for i, incarnation in enumerate(former):
        served.client.call(*insert_call(np.arange(4 * i, 4 * i + 4), incarnation=incarnation))
    given = [served.remote.new_incarnation() % count for _ in range(3)]
    assert given == [(following + i) % count for i in (3, 5, 6)]


# Bad input.


def columns(keys):
    return list(rows(keys).values())


def insert_call(keys=None, priorities=None, columns_=None, incarnation=7, accepted=4):
    keys = np.arange(500_000, 500_004) if keys is None else keys
    priorities = np.ones(4, np.float32) if priorities is None else priorities
    return "replay_insert", [
        np.int64(incarnation),
        np.int64(accepted),
        keys,
        priorities,
        *(columns(np.arange(4)) if columns_ is None else columns_),
    ]


def sample_call(batch_size, seed=np.int64(0)):
    return "replay_sample", [batch_size, seed]


NAN = np.float32([1, np.nan, 1, 1])
BAD = {
    "dtype of keys": (insert_call(np.float32([1, 2, 3, 4])), None),
    "shape of keys": (insert_call(np.int64([[1, 2, 3, 4]])), None),
    "negative keys": (insert_call(np.int64([1, 2, -3, 4])), r"step_keys\[2\]"),
    "NaN priorities": (insert_call(priorities=NAN), r"priorities\[1\]"),
    "infinite priorities": (insert_call(priorities=NAN * 0 + np.float32(np.inf)), "priorities"),
    "dtype of priorities": (insert_call(priorities=np.ones(4)), None),
    "count of priorities": (insert_call(priorities=np.ones(3, np.float32)), "priorities"),
    "dtype of a column": (
        insert_call(columns_=[c.astype(np.float64) for c in columns([1] * 4)]),
        None,
    ),
    "shape of a column": (
        insert_call(columns_=[np.zeros([4, WIDTH - 1], np.float32), np.zeros(4, np.float32)]),
        "column x",
    ),
    "NaN in a column": (insert_call(columns_=[*columns([1] * 4)[:1], NAN]), "column y must be fin"),
    "an infinite column": (
        insert_call(columns_=[np.full([4, WIDTH], -np.inf, np.float32), columns([1] * 4)[1]]),
        "column x must be finite",
    ),
    "a count below 0": (insert_call(accepted=-1), "accepted must be from 0"),
    "a count above all": (insert_call(accepted=2**61), "accepted must be from 0"),
    "a column too few": (insert_call(columns_=columns([1] * 4)[:1]), None),
    "sample of none": (sample_call(np.int32(0)), "batch_size must be at least 1"),
    "sample of less": (sample_call(np.int32(-5)), "batch_size must be at least 1"),
    "sample above a message": (sample_call(np.int32(100_000)), "batch_size must be at mo"),
    "sample above any": (sample_call(np.int32(2**31 - 1)), "batch_size must be at most"),
    "shape of batch_size": (sample_call(np.int32([4])), None),
    "shape of seed": (sample_call(np.int32(4), np.int64([1])), None),
    "dtype of seed": (sample_call(np.int32(4), np.int32(1)), None),
    "dtype of accepted": (
        ("replay_insert", [np.int64(7), np.float32(4), *insert_call()[1][2:]]),
        None,
    ),
    "dtype of batch_size": (sample_call(np.float32(4)), None),
    "NaN in an update": (("replay_update_priorities", [np.arange(4), NAN]), r"priorities\[1\]"),
    "count in an update": (("replay_update_priorities", [np.arange(4), NAN[:1]]), "priorities"),
    "keys of an update": (("replay_update_priorities", [np.int64([-1]), NAN[:1]]), r"keys\[0\]"),
    "arguments too many": (("replay_statistics", [np.int64(1)]), None),
}


def test_bad_input_under_load_is_a_typed_error_and_does_no_harm(served):
    """Two threads add and sample at full rate during the calls."""
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
        # Every priority is still 1: the bad calls changed nothing.
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
            served.client.call(
                *insert_call(
                    columns_=[np.zeros([20_000, WIDTH], np.float32), np.zeros(20_000, np.float32)]
                )
            )
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
    assert added > 200 and counts["sampled"] > 1000  # else the other threads did too little
    statistics = served.memory.statistics()
    assert statistics == statistics._replace(
        items=min(added, 2000),
        steps=min(added, 2000),
        inserted=added,
        duplicates=0,
        incomplete=0,
        unviewed=0,
        removed=max(0, added - 2000),
        sampled=counts["sampled"],
        updated=0,
        missing=64 * rounds,
    )
    newest = np.arange(max(0, added - 2000), added)
    found, steps = served.memory.read(newest)
    assert np.all(found)
    assert_whole(newest, steps)
    assert not np.any(served.memory.read(np.arange(500_000, 500_004))[0])


def test_a_message_of_a_client_that_checks_nothing(served):
    """The server itself checks sizes and the token: this is TensorFlow's own client."""
    raw = tf.distribute.experimental.rpc.Client.create(
        "grpc", served.server.address, name="raw", timeout_in_ms=5000
    )
    add(served.remote, range(5))
    before = served.memory.statistics()
    large = [
        *insert_call()[1][:-2],
        np.zeros([20_000, WIDTH], np.float32),
        np.zeros(20_000, np.float32),
    ]
    for token, arguments in [(TOKEN, large), ("another token", insert_call()[1])]:
        status = raw.call(
            "replay_insert",
            [tf.constant(token)] + [tf.convert_to_tensor(argument) for argument in arguments],
            tf.TensorSpec([11], tf.int64),
        )
        with pytest.raises(tf.errors.OpError):
            status.get_value()
    assert served.memory.statistics() == before
    served.memory.check()


# Failure.


def test_a_service_that_restarts_at_its_address_is_used_again():
    first = serve()
    client = rpc.Client(first.server.address, TOKEN, timeout_seconds=1.0)
    remote = RemoteMemory(client, SPECS)
    incarnation = remote.new_incarnation()
    add(remote, range(50))
    first.server.close()
    with pytest.raises(ServiceUnavailableError):
        remote.sample(4)
    with pytest.raises(ServiceUnavailableError):
        add(remote, range(50, 60))

    second = serve(address=first.server.address)
    client.wait_until_available(30.0)
    assert set(remote.statistics()) == {0}  # a lost replay refills
    with pytest.raises(tf.errors.FailedPreconditionError):
        remote.sample(4)
    assert remote.update_priorities(np.arange(4), np.ones(4, np.float32)) == 4  # all are gone
    assert remote.accepted() == {}
    assert add(remote, range(50, 60)).items == 10
    assert remote.accepted() == {incarnation: 60}  # the actor still knows its count
    assert set(remote.sample(30).keys.numpy()) <= set(range(50, 60))
    assert remote.new_incarnation() != incarnation
    second.memory.check()
    second.server.close()
