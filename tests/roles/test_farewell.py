"""What keeps a learner that has finished: the evaluator's last evaluation, as long as it is on."""

import threading
import time

import numpy as np
import pytest

from common.cluster import rpc
from common.cluster.parameters import EVALUATOR, ParameterClient, ParameterService
from common.cluster.processes import StopRequest
from common.cluster.topology import free_ports
from common.roles import learner as process

TOKEN = "a token of the tests"


@pytest.fixture
def served():
    """A service with a run's last snapshot: (service, its version, the evaluator's client)."""
    server = rpc.Server(f"127.0.0.1:{free_ports(1)[0]}", TOKEN)
    service = ParameterService(server, 1)
    server.start()
    version = service.publish(np.zeros([1], np.float32), 5, 5, 1.0, finished=True)
    client = ParameterClient(rpc.Client(server.address, TOKEN, 5.0), EVALUATOR)
    client.latest()
    yield service, version, client
    server.close()


def wait(service, version, stop=None):
    """Returns how long the learner waits."""
    begin = time.monotonic()
    process._wait_for_evaluator(service, version, stop or StopRequest())
    return time.monotonic() - begin


def test_it_waits_while_the_evaluator_asks_and_ends_when_it_is_through(served, monkeypatch):
    service, version, client = served
    monkeypatch.setattr(process, "SILENCE_SECONDS", 2.0)

    def evaluate():
        for _ in range(10):
            time.sleep(0.5)
            client.latest()
        client.acknowledge(version)

    thread = threading.Thread(target=evaluate)
    thread.start()
    assert wait(service, version) >= 5.0
    assert service.acknowledged(EVALUATOR) == version
    thread.join()
    assert wait(service, version) < 1.0


def test_a_dead_evaluator_is_not_waited_for(served, monkeypatch):
    service, version, _ = served
    monkeypatch.setattr(process, "SILENCE_SECONDS", 0.5)
    assert 0.5 <= wait(service, version) < 10.0


def test_it_does_not_wait_for_ever(served, monkeypatch):
    service, version, client = served
    monkeypatch.setattr(process, "FAREWELL_SECONDS", 1.0)
    ended = threading.Event()

    def evaluate():
        while not ended.wait(0.1):
            client.latest()

    thread = threading.Thread(target=evaluate)
    thread.start()
    assert 1.0 <= wait(service, version) < 20.0
    ended.set()
    thread.join()


def test_whoever_stops_the_learner_need_not_wait(served):
    service, version, _ = served
    stop = StopRequest()
    stop.request()
    assert wait(service, version, stop) < 10.0


@pytest.mark.parametrize(
    "local, decodes, single_process, calls",
    [
        (False, False, False, 7),
        (False, True, False, 7),
        (True, True, False, 7),
        (True, False, False, 0),
        (True, True, True, 0),
    ],
)
def test_what_is_drawn_ahead(local, decodes, single_process, calls):
    class Plain(process.Agent):
        prefetch = 7

    class Decoding(Plain):
        def decode(self, steps):
            return steps

    agent = Decoding() if decodes else Plain()
    agent.single_process = single_process
    assert process._prefetch(agent, local) == calls
