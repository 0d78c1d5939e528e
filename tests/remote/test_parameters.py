import threading

import numpy as np
import pytest
import tensorflow as tf

from common.cluster import rpc
from common.cluster.errors import ServiceUnavailableError
from common.cluster.topology import free_ports
from common.remote import parameters

TOKEN = "a token of the tests"


def serve(num_parameters, **options):
    server = rpc.Server(f"127.0.0.1:{free_ports(1)[0]}", TOKEN)
    service = parameters.ParameterService(server, num_parameters, **options)
    server.start()
    return server, service, parameters.ParameterClient(rpc.Client(server.address, TOKEN))


def test_a_reader_sees_each_version_once():
    server, service, client = serve(3)
    assert client.latest() == parameters.LearnerStatus(0, 0, 0, 0.0, False)
    assert client.read() is None

    values = np.array([1.0, np.nan, -3.0], np.float32)
    version = service.publish(values, learner_steps=10, actor_steps=2**40, wall_seconds=12.5)
    values[:] = 0.0  # the snapshot is a copy
    snapshot = client.read()
    assert snapshot.status == parameters.LearnerStatus(version, 10, 2**40, 12.5, False)
    np.testing.assert_array_equal(snapshot.flat, np.array([1.0, np.nan, -3.0], np.float32))
    assert client.read(if_newer_than=version) is None

    last = service.publish(tf.zeros([3]), 11, 2**40 + 1, 13.0, finished=True)
    assert last > version
    assert client.latest() == parameters.LearnerStatus(last, 11, 2**40 + 1, 13.0, True)
    np.testing.assert_array_equal(client.read(if_newer_than=version).flat, np.zeros([3]))
    server.close()


def test_a_restarted_learner_publishes_newer_versions():
    server, service, _ = serve(1, start=3)
    old = [service.publish(np.zeros([1], np.float32), step, 0, 0.0) for step in range(100)][-1]
    server.close()
    server, service, client = serve(1, start=4)
    service.publish(np.ones([1], np.float32), 0, 0, 0.0)
    assert client.read(if_newer_than=old).flat == [1.0]
    server.close()


@pytest.mark.parametrize(
    "version, offset, size, name",
    [
        (-1, 0, 1, "version"),
        (2**62, -(2**63), 1, "offset"),
        (2**62, 4, 1, "offset"),
        (2**62, 0, -5, "size"),
        (2**62, 0, parameters.SLICE_SIZE + 1, "size"),
        (2**62, 2, 2**40, "size"),
        (2**62, 2, 2**63 - 1, "size"),
    ],
)
def test_slices_that_no_reader_asks_for_are_refused_at_once(version, offset, size, name, three):
    arguments = [tf.constant(number, tf.int64) for number in (version, offset, size)]
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"{name} must be from 0 to"):
        three.call("parameters_read", arguments)


@pytest.fixture(scope="module", name="three")
def _three():
    server, service, _ = serve(3)
    service.publish(np.zeros([3], np.float32), 0, 0, 0.0)
    yield rpc.Client(server.address, TOKEN, timeout_seconds=60.0)
    server.close()


@pytest.mark.parametrize(
    "flat", [np.zeros([2], np.float32), np.zeros([3], np.float64), np.zeros([3, 1], np.float32)]
)
def test_publishing_another_vector_is_refused(flat):
    server, service, client = serve(3)
    with pytest.raises(ValueError, match=r"\[3\] float32"):
        service.publish(flat, 0, 0, 0.0)
    assert client.latest().version == 0
    server.close()


def test_an_old_version_is_readable_until_it_is_dropped():
    size = parameters.SLICE_SIZE + 7
    server, service, client = serve(size, keep_versions=3)
    first = service.publish(np.full([size], 1.0, np.float32), 1, 0, 0.0)
    for value in (2.0, 3.0):
        service.publish(np.full([size], value, np.float32), 1, 0, 0.0)
    np.testing.assert_array_equal(client._read_version(first, size), np.full([size], 1.0))
    service.publish(np.full([size], 4.0, np.float32), 1, 0, 0.0)
    assert client._read_version(first, size) is None
    server.close()


def test_no_snapshot_is_torn_under_a_publisher_at_full_rate():
    size = 2 * parameters.SLICE_SIZE + 300_000  # 5.2 MB, three slices
    server, service, client = serve(size)
    base = np.zeros([size], np.float32)
    stop = threading.Event()
    published = []

    def publish():
        step = 0
        while not stop.is_set():
            step += 1
            published.append(service.publish(base + np.float32(step), step, 2 * step, 0.0))

    publisher = threading.Thread(target=publish)
    publisher.start()
    seen = []
    try:
        while len(seen) < 5:
            try:
                snapshot = client.read(seen[-1] if seen else 0)
            except ServiceUnavailableError:  # overtaken too often, on a busy machine
                continue
            if snapshot is None:
                continue
            step = snapshot.status.learner_steps
            assert snapshot.status.actor_steps == 2 * step
            assert np.all(snapshot.flat == step)
            seen.append(snapshot.status.version)
    finally:
        stop.set()
        publisher.join()
        server.close()
    assert seen == sorted(set(seen))
    assert set(seen) <= set(published)
