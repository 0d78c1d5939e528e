"""Tests of updates from workers to a parameter server, through a real server on the loopback."""

import threading
import time

import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf

from common.cluster import rpc
from common.cluster.errors import ClusterError
from common.cluster.parameters import SLICE_SIZE, TARGET, ParameterClient, ParameterService
from common.cluster.processes import StopRequest
from common.cluster.topology import free_ports
from common.learning.applied_updates import AppliedUpdates
from common.learning.learner import Gradients, Learner
from common.learning.remote_step import RemoteStep
from common.learning.update_client import UpdateClient
from common.learning.update_service import UpdateService
from common.networks import packing
from common.replay.memory import Sample, Statistics

SIZE = SLICE_SIZE + 3  # two slices
METRICS = ("loss", "error_max")


class Descent(Learner):
    """Descends |w - x|^2 / 2 by steps of 1/2; its target is copied every third step."""

    def __init__(self, size=SIZE):
        super().__init__()
        self.w = tf.Variable(tf.zeros([size]))
        self.target = tf.Variable(tf.zeros([size]))
        self.optimizer = snt.optimizers.SGD(0.5)
        self.steps = tf.Variable(0, dtype=tf.int64, trainable=False)

    @property
    def actor_variables(self):
        return (self.w,)

    @property
    def target_variables(self):
        return (self.target,)

    def gradients(self, batch):
        error = self.w - batch.steps
        metrics = {"error_max": tf.reduce_max(tf.abs(error)), "loss": tf.reduce_sum(error**2)}
        return Gradients([error], tf.abs(error[:1]), metrics)

    def apply(self, gradients):
        self.optimizer.apply(gradients, [self.w])
        self.steps.assign_add(1)


class Server:
    """A parameter server without a run: what the role does between two steps is done here."""

    def __init__(self, address=None, state=None):
        self.learner = Descent()
        self.address = address or f"localhost:{free_ports(1)[0]}"
        self.rpc = rpc.Server(self.address, "a token")
        self.service = UpdateService(self.rpc, SIZE, len(METRICS), num_workers=6)
        self.online = ParameterService(self.rpc, SIZE)
        self.target = ParameterService(self.rpc, SIZE, name=TARGET)
        self.updates = AppliedUpdates(self.learner, self.service, METRICS, lambda: None)
        if state is not None:
            for name, module in state.items():
                for variable, value in zip(self.updates.state[name].variables, module):
                    variable.assign(value)
            self.updates.resume()
        self.publish()
        self.rpc.start()

    def publish(self):
        steps = int(self.learner.steps)
        self.online.publish(packing.pack(self.learner.actor_variables), steps, 0, 0.0)
        self.target.publish(packing.pack(self.learner.target_variables), steps, 0, 0.0)

    def step(self):
        metrics = self.updates.step()
        self.publish()
        return metrics

    def saved(self):
        """What a checkpoint has of the updates."""
        self.updates.flush()
        return {
            name: [variable.numpy() for variable in module.variables]
            for name, module in self.updates.state.items()
        }

    def client(self, worker=0, steps=0):
        stop = StopRequest()
        client = UpdateClient(
            rpc.Client(self.address, "a token"),
            worker,
            lambda: (steps, Statistics(*range(11))),
            stop,
        )
        assert client.join()
        return client


@pytest.fixture(name="server")
def _server():
    server = Server()
    yield server
    server.rpc.close()


def push(client, value, learner_steps=0):
    """Pushes an update in the background; returns the thread and its result."""
    result = []
    gradients = tf.fill([SIZE], tf.constant(value, tf.float32))
    thread = threading.Thread(
        target=lambda: result.append(client.push(learner_steps, gradients, tf.zeros([2]))),
        daemon=True,
    )
    thread.start()
    return thread, result


def steps_until(server, done, seconds=180.0):
    """Steps the server until something is done; returns the metrics of its updates."""
    found, deadline = [], time.monotonic() + seconds
    while not done() and time.monotonic() < deadline:
        found += [one for one in [server.step()] if one is not None]
    assert done()
    return found


def test_an_update_is_applied_once_and_then_the_worker_goes_on(server):
    client = server.client()
    thread, result = push(client, 2.0)
    metrics = steps_until(server, lambda: not thread.is_alive())
    assert result == [True]
    assert len(metrics) == 1 and int(server.learner.steps) == 1
    np.testing.assert_array_equal(server.learner.w.numpy(), np.full(SIZE, -1.0, np.float32))
    flat = ParameterClient(rpc.Client(server.address, "a token")).read().flat
    np.testing.assert_array_equal(flat, server.learner.w.numpy())


def test_slices_that_arrive_again_and_out_of_order_count_once(server):
    client = server.client()
    call = rpc.Client(server.address, "a token")

    def send(number, offset, value):
        values = tf.fill([min(SLICE_SIZE, SIZE - offset)], tf.constant(value, tf.float32))
        numbers = [0, client.incarnation, number, 0, SIZE, offset]
        arguments = [tf.constant(each, tf.int64) for each in numbers]
        assert int(call.call("updates_push", [*arguments, tf.zeros([2]), values])) == SIZE

    send(1, SLICE_SIZE, 2.0)
    send(1, SLICE_SIZE, 2.0)
    assert server.step() is None  # half of it is missing
    send(1, 0, 2.0)
    assert server.step() is not None
    send(1, 0, 2.0)
    send(1, SLICE_SIZE, 2.0)
    send(2, 0, 4.0)
    send(1, 0, 2.0)  # a late one of an older update
    assert server.step() is None
    send(2, SLICE_SIZE, 4.0)
    assert server.step() is not None
    assert server.step() is None
    np.testing.assert_array_equal(server.learner.w.numpy(), np.full(SIZE, -3.0, np.float32))


def test_what_is_no_slice_is_refused_and_leaves_the_update_as_it_was(server):
    client = server.client()
    call = rpc.Client(server.address, "a token")

    def send(offset, length, value=2.0, number=1):
        values = tf.fill([length], tf.constant(value, tf.float32))
        numbers = [0, client.incarnation, number, 0, SIZE, offset]
        arguments = [tf.constant(each, tf.int64) for each in numbers]
        call.call("updates_push", [*arguments, tf.zeros([2]), values])

    last = SIZE - SLICE_SIZE
    for offset, length in [
        (0, 0),
        (0, 10),
        (0, last),
        (0, SLICE_SIZE + 1),
        (7, SLICE_SIZE),
        (SLICE_SIZE, last - 1),
        (SLICE_SIZE, SLICE_SIZE),
        (2 * SLICE_SIZE, 0),
        (2**40, 1),
    ]:
        with pytest.raises(tf.errors.InvalidArgumentError, match="no slice of an update: "):
            send(offset, length, 99.0)
    send(0, SLICE_SIZE)
    assert server.step() is None
    send(SLICE_SIZE, last)
    assert server.step() is not None
    np.testing.assert_array_equal(server.learner.w.numpy(), np.full(SIZE, -1.0, np.float32))
    with pytest.raises(tf.errors.InvalidArgumentError, match="number must be at most 2, is 2000"):
        send(0, SLICE_SIZE, number=2000)
    send(0, SLICE_SIZE, number=2)


@pytest.mark.parametrize(
    "changes, words",
    [
        ({0: 6}, "worker must be from 0 to 5, is 6"),
        ({0: -1}, "worker"),
        ({1: -(2**62)}, "incarnation"),
        ({2: -4}, "accepted"),
        ({2: 2**62}, "accepted"),
        ({2: 2**43}, "accepted"),  # of an incarnation that joined this server
        ({3: [0] * 10 + [-1]}, "statistics"),
        ({3: [0, 2**50, *[0] * 9]}, "statistics"),
    ],
)
def test_reports_that_cannot_be_right_are_refused(shared, changes, words):
    server, client = shared
    call = rpc.Client(server.address, "a token")
    right = {0: 2, 1: client.incarnation, 2: 1000, 3: [*range(11)]}
    with pytest.raises(tf.errors.InvalidArgumentError, match=words):
        call.call("updates_report", [tf.constant(v, tf.int64) for v in (right | changes).values()])
    assert server.service.accepted() == {} and server.service.statistics is None


@pytest.fixture(scope="module", name="shared")
def _shared():
    server = Server()
    yield server, server.client(2, 1000)
    server.rpc.close()


def test_a_server_that_restarts_takes_counts_and_numbers_as_they_are(server):
    client = server.client(steps=2**31)
    client.incarnation += 2**20  # of a former server
    client._number = 500
    thread, result = push(client, 2.0, learner_steps=10**6)
    (metrics,) = steps_until(server, lambda: not thread.is_alive())
    assert result == [True] and metrics["staleness"] == 0
    assert server.service.accepted() == {client.incarnation: 2**31}


def test_staleness_and_workers(server):
    clients = [server.client(worker) for worker in range(3)]
    for steps, client in enumerate(clients):
        client.report()
        thread, _ = push(client, 0.0, learner_steps=0)
        (metrics,) = steps_until(server, lambda thread=thread: not thread.is_alive())
        assert metrics["staleness"] == metrics["staleness_max"] == steps
        assert metrics["num_workers"] == steps + 1
    assert server.updates.statistics == Statistics(*(3 * n for n in range(11)))


def test_what_is_not_finite_is_refused_counted_and_named(server, caplog):
    caplog.set_level("WARNING", logger="absl")  # other tests of this process may have raised it
    client = server.client(worker=4)
    thread, result = push(client, np.nan)
    steps_until(server, lambda: not thread.is_alive())
    assert result == [True]  # the worker goes on with its next batch
    assert int(server.learner.steps) == 0
    assert not server.learner.w.numpy().any()
    thread, _ = push(client, 1.0)
    (metrics,) = steps_until(server, lambda: not thread.is_alive())
    assert metrics["num_refused"] == 1 and int(server.learner.steps) == 1
    assert "refused an update of worker 4: it has values that are not finite" in caplog.text


def test_metrics_that_are_not_finite_are_refused(server):
    client = server.client()
    metrics, result = tf.constant([1.0, np.inf]), []
    thread = threading.Thread(
        target=lambda: result.append(client.push(0, tf.ones([SIZE]), metrics)), daemon=True
    )
    thread.start()
    assert steps_until(server, lambda: not thread.is_alive()) == []
    assert result == [True] and server.service.num_refused == 1
    assert not server.learner.w.numpy().any()


def test_an_update_of_another_size_is_refused(server):
    client = server.client(worker=1)
    with pytest.raises(ClusterError, match=f"network has {SIZE} parameters, this worker's 5"):
        client.push(0, tf.zeros([5]), tf.zeros([2]))
    assert server.service.num_refused == 1
    assert server.step() is None


def test_actor_steps_are_what_workers_reported(server):
    clients = [server.client(steps=10), server.client(steps=7)]
    for client in clients:
        client.report()
        client.report()
    expected = {clients[0].incarnation: 10, clients[1].incarnation: 7}
    assert server.service.accepted() == expected


def test_an_update_in_the_checkpoint_is_not_applied_again_after_a_restart(server):
    client = server.client()
    call = server.updates
    thread, result = push(client, 2.0)
    while call.step() is None:  # applied, but the worker was not told
        pass
    saved, address = server.saved(), server.address
    w = server.learner.w.numpy()
    server.rpc.close()
    again = Server(address, saved)
    again.learner.w.assign(w)
    found = steps_until(again, lambda: not thread.is_alive())
    assert result == [True] and found == []
    np.testing.assert_array_equal(again.learner.w.numpy(), np.full(SIZE, -1.0, np.float32))
    again.rpc.close()


def test_an_update_that_a_killed_server_lost_is_sent_again(server):
    client = server.client()
    thread, result = push(client, 2.0)
    while server.service.take(0.1) is None:
        pass
    address = server.address
    server.rpc.close()
    again = Server(address)
    found = steps_until(again, lambda: not thread.is_alive())
    assert result == [True] and len(found) == 1
    np.testing.assert_array_equal(again.learner.w.numpy(), np.full(SIZE, -1.0, np.float32))
    again.rpc.close()


def test_the_end_of_the_run_releases_workers_that_wait(server):
    thread, result = push(server.client(), 2.0)
    time.sleep(0.3)
    assert thread.is_alive()
    server.updates.close()
    thread.join(10)
    assert result == [True]


def test_a_workers_step_uses_the_newest_parameters_and_target(server):
    client = server.client()
    call = rpc.Client(server.address, "a token")
    learner = Descent()
    step = RemoteStep(
        learner,
        ParameterClient(call),
        ParameterClient(call, TARGET),
        client,
        METRICS,
        1,
        False,
        StopRequest(),
    )
    server.learner.w.assign(tf.fill([SIZE], 3.0))
    server.learner.target.assign(tf.fill([SIZE], 7.0))
    server.publish()
    sample = Sample(
        tf.constant([5], tf.int64),
        tf.constant([1.0], tf.float64),
        tf.constant(1.0, tf.float64),
        tf.constant(1, tf.int64),
        tf.constant([1], tf.int32),
        tf.fill([SIZE], 1.0),
    )
    results = []
    thread = threading.Thread(target=lambda: results.append(step(sample)), daemon=True)
    thread.start()
    (metrics,) = steps_until(server, lambda: not thread.is_alive())
    ((outputs, own),) = results
    assert learner.target.numpy()[0] == 7 and outputs.numpy() == [2.0]
    assert float(own["error_max"]) == metrics["error_max"] == 2.0
    assert metrics["loss"] == pytest.approx(4 * SIZE)
    np.testing.assert_array_equal(server.learner.w.numpy(), np.full(SIZE, 2.0, np.float32))
    assert step.steps == 0
    assert step.download() and step.steps == 1
    np.testing.assert_array_equal(learner.w.numpy(), server.learner.w.numpy())
