"""Tests of common.remote.parameters and gradients, through a real server on the loopback."""

import threading
import time
import types

import numpy as np
import pytest
import sonnet as snt
from stores import TOKEN
import tensorflow as tf

from common.cluster import rpc, rpc_server
from common.cluster.errors import ClusterError, ServiceUnavailableError
from common.cluster.processes import PatienceError, StopRequest
from common.cluster.topology import free_ports
from common.learning.learner import DivergedError, Gradients, Learner
from common.learning.parameter_server import AppliedGradients, RemoteStep
from common.networks import packing
from common.remote import parameters
from common.remote.gradients import GradientQueue, GradientSender
from common.remote.inbox import StoreService
from common.remote.parameters import SLICE_SIZE, TARGET, ParameterClient, ParameterService
from common.replay.store import Counters
from common.types import Batch


def serve(num_parameters, **options):
    server = rpc_server.Server(f"127.0.0.1:{free_ports(1)[0]}", TOKEN)
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


@pytest.mark.parametrize(
    "version, offset, size, name",
    [
        (-1, 0, 1, "version"),
        (2**62, 4, 1, "offset"),
        (2**62, 0, -5, "size"),
        (2**62, 0, parameters.SLICE_SIZE + 1, "size"),
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


# Gradients from workers to a parameter server.

LARGE = 2 * SLICE_SIZE + 100_003  # three slices, and a delivery of 4.4 MB in two parts
METRICS = ("loss", "error_max")


class Descent(Learner):
    """Descends |w - x|^2 / 2 by steps of 1/2."""

    def __init__(self, size):
        super().__init__()
        self.w, self.target = tf.Variable(tf.zeros([size])), tf.Variable(tf.zeros([size]))
        self.optimizer = snt.optimizers.SGD(0.5)

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

    def __init__(self, address=None, state=None, size=5):
        self.size, self.learner = size, Descent(size)
        self.address = address or f"localhost:{free_ports(1)[0]}"
        self.rpc = rpc_server.Server(self.address, TOKEN)
        self.queue = GradientQueue(size)
        self.service = StoreService(self.rpc, self.queue)
        self.online = ParameterService(self.rpc, size)
        self.target = ParameterService(self.rpc, size, name=TARGET)
        self.updates = AppliedGradients(self.learner, self.queue, self.service.inbox, lambda: None)
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
        """Returns what a checkpoint has of the updates."""
        self.updates.flush()
        return {
            name: [variable.numpy() for variable in module.variables]
            for name, module in self.updates.state.items()
        }

    def sender(self, worker=0, steps=0, stop=None, client_class=rpc.Client):
        client = client_class(self.address, TOKEN)
        counters = Counters(*range(6))
        sender = GradientSender(client, worker, lambda: (steps, counters), stop or StopRequest())
        assert sender.join() and sender.incarnation > 0
        return sender

    def push(self, value, sender=None, metrics=(0.0, 0.0), learner_steps=0):
        """Starts to send gradients, by default of a new worker."""
        sender = sender or self.sender()
        gradients = tf.fill([self.size], tf.constant(value, tf.float32))
        named = dict(zip(METRICS, map(tf.constant, metrics)))
        return Call(lambda: sender.push(learner_steps, gradients, named))

    def is_at(self, value):
        np.testing.assert_array_equal(self.learner.w.numpy(), np.full(self.size, value, "f"))
        return True


@pytest.fixture(name="server")
def _server():
    server = Server()
    yield server
    server.rpc.close()


@pytest.fixture(name="large")
def _large():
    server = Server(size=LARGE)
    yield server
    server.rpc.close()


class Call:
    """A call of a worker in the background."""

    def __init__(self, function):
        self.result = None
        self._function = function
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        self.result = self._function()

    def applied(self, server, seconds=180.0):
        """Steps the server until the worker goes on; returns the metrics of the updates."""
        found, deadline = [], time.monotonic() + seconds
        while self.thread.is_alive() and time.monotonic() < deadline:
            found += [step for step in [server.step()] if step is not None]
        assert self.result
        return found


class SlowClient(rpc.Client):
    """Takes its time with each part of a delivery, and sends it twice."""

    def call_async(self, method, *arguments):
        if method == "store_put_part":
            super().call_async(method, *arguments)
            time.sleep(0.2)
        return super().call_async(method, *arguments)


def test_an_update_is_applied_once_and_then_the_worker_goes_on(large):
    sender = large.sender(client_class=SlowClient)
    assert len(large.push(2.0, sender).applied(large)) == 1
    assert int(large.learner.steps) == 1 and large.is_at(-1.0)
    assert (ParameterClient(rpc.Client(large.address, TOKEN)).read().flat == -1).all()
    assert len(large.push(4.0, sender).applied(large)) == 1 and large.is_at(-3.0)


def test_staleness_workers_and_what_they_report(server):
    senders = [server.sender(worker, steps=10 + worker) for worker in range(3)]
    assert server.updates.counters is None
    for steps, sender in enumerate(senders):
        sender.report(), sender.report()
        (metrics,) = server.push(0.0, sender).applied(server)
        assert metrics["staleness"] == metrics["staleness_max"] == steps
        assert metrics["num_workers"] == steps + 1 and metrics["num_refused"] == 0
    assert server.updates.counters == Counters(*(3 * n for n in range(6)))
    assert server.service.accepted() == {
        sender.incarnation: 10 + worker for worker, sender in enumerate(senders)
    }


def test_reports_are_made_once_a_second(server, monkeypatch):
    sender = server.sender(steps=5)
    assert sender.report_if_due() and not sender.report_if_due()
    monkeypatch.setattr("common.remote.gradients._REPORT_SECONDS", 0.0)
    assert sender.report_if_due()
    monkeypatch.setattr(sender.patience, "_seconds", 0.0)
    server.rpc.close()
    sender._store._client.timeout_seconds = 0.2
    with pytest.raises(PatienceError, match="no answer from the parameter server"):
        sender.report_if_due()


def test_a_server_that_restarts_takes_counts_and_numbers_as_they_are():
    server = Server()
    sender = server.sender(steps=2**31)
    sender._store.incarnation += 2**20  # of a former server, to which it has reported
    sender._store.number, sender._store.num_accepted = 500, 2**31 - 10
    (metrics,) = server.push(2.0, sender, learner_steps=10**6).applied(server)
    assert metrics["staleness"] == 0  # the checkpoint is older than the worker's parameters
    assert server.service.accepted() == {sender.incarnation: 2**31}
    server.rpc.close()


def test_what_is_not_finite_is_refused_counted_and_named(server, caplog):
    caplog.set_level("WARNING", logger="absl")  # other tests of this process may have raised it
    sender = server.sender(worker=4)
    assert server.push(np.nan, sender).applied(server) == []  # it goes on with its next batch
    assert server.push(1.0, sender, (1.0, np.inf)).applied(server) == []
    assert int(server.learner.steps) == 0 and server.is_at(0.0)
    (metrics,) = server.push(1.0, sender).applied(server)
    assert metrics["num_refused"] == 2 and int(server.learner.steps) == 1
    assert "refused an update of worker 4: it is not finite" in caplog.text


def test_workers_that_all_diverge_end_the_run_unless_an_update_is_applied_between(server):
    def diverge(worker, times=1):
        sender = server.sender(worker)  # another start of it
        for _ in range(times):
            assert server.push(np.nan, sender).applied(server) == []

    for worker in (1, 2, 1, 2):
        diverge(worker)
    assert len(server.push(1.0, server.sender(3)).applied(server)) == 1
    diverge(1, times=5)  # a single start: nobody has tried another replay
    for worker in (2, 1):
        diverge(worker)
    server.push(np.nan, server.sender(1))
    words = "diverged: 3 starts of worker 1 ended with an update that is not finite"
    with pytest.raises(DivergedError, match=words):
        while True:
            server.step()
    assert int(server.learner.steps) == 1 and server.is_at(-0.5)


def test_an_update_of_another_size_is_refused_in_one_line(large):
    sender = large.sender(worker=1)
    expected = f"the update was refused: an update has {LARGE} parameters and the metrics 'loss' "
    expected += "here, but worker 1 sent 5 parameters and metrics of size 1, 'loss': "
    expected += "start all roles with the same version of the program"
    loss = {"loss": tf.constant(0.0)}
    with pytest.raises(ClusterError) as caught:
        sender.push(0, tf.zeros([5]), loss)
    assert str(caught.value) == expected
    words = f"worker 1 sent {LARGE + 1} parameters and metrics of size 1, 'loss'"
    with pytest.raises(ClusterError, match=words):
        sender.push(0, tf.zeros([LARGE + 1]), loss)  # in parts
    assert large.step() is None
    assert len(large.push(2.0, sender).applied(large)) == 1
    for names in ("loss", "loss,error_min"):
        with pytest.raises(ClusterError, match=f"'loss,error_max' here.* of size [12], '{names}'"):
            sender.push(0, tf.zeros([LARGE]), dict.fromkeys(names.split(","), tf.constant(0.0)))
    assert large.step() is None


def test_an_update_in_the_checkpoint_is_not_applied_again_after_a_restart(server):
    waiting = server.push(2.0)
    while server.updates.step() is None:  # applied, but the worker was not told
        pass
    saved, w = server.saved(), server.learner.w.numpy()
    server.rpc.close()
    again = Server(server.address, saved)
    again.learner.w.assign(w)
    assert waiting.applied(again) == [] and again.is_at(-1.0)
    again.rpc.close()


def test_an_update_that_a_killed_server_lost_is_sent_again(server):
    waiting = server.push(2.0)
    while server.queue.draw(timeout_seconds=0.1) is None:
        pass
    server.rpc.close()
    again = Server(server.address)
    assert len(waiting.applied(again)) == 1 and again.is_at(-1.0)
    again.rpc.close()


def test_the_end_of_the_run_or_a_stop_releases_workers_that_wait(server):
    stop = StopRequest()
    waiting, stopped = server.push(2.0), server.push(2.0, server.sender(1, stop=stop))
    time.sleep(0.3)
    assert waiting.thread.is_alive() and stopped.thread.is_alive()
    stop.request()
    stopped.thread.join(10)
    assert stopped.result is False and waiting.thread.is_alive()
    server.updates.close()
    waiting.thread.join(10)
    assert waiting.result is True
    assert not GradientSender(rpc.Client(server.address, TOKEN), 0, None, stop).join()


def test_a_workers_step_uses_the_newest_parameters_and_target(server):
    client, learner = rpc.Client(server.address, TOKEN), Descent(server.size)
    clients = ParameterClient(client), ParameterClient(client, TARGET)
    step = RemoteStep(learner, *clients, server.sender(), 1, False, StopRequest())
    server.learner.w.assign(tf.fill([server.size], 3.0))
    server.learner.target.assign(tf.fill([server.size], 7.0))
    server.publish()
    batch = Batch(tf.fill([server.size], 1.0), tf.ones([1]), tf.constant(1.0))
    call = Call(lambda: step(types.SimpleNamespace(batch=lambda: batch)))
    (metrics,) = call.applied(server)
    outputs, own = call.result
    assert learner.target.numpy()[0] == 7 and outputs.numpy() == [2.0]
    assert list(own) == ["error_max", "loss"]
    extra = ["staleness", "staleness_max", "num_workers", "num_refused"]
    assert list(metrics) == [*own, *extra]
    assert float(own["error_max"]) == metrics["error_max"] == 2.0
    assert metrics["loss"] == pytest.approx(4 * server.size)
    assert server.is_at(2.0)
    assert step.steps == 0
    assert step.download() and step.steps == 1
    np.testing.assert_array_equal(learner.w.numpy(), server.learner.w.numpy())
