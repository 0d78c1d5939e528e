"""An evaluator at work when the run's last snapshot appears."""

import threading
import time
import types

import dm_env
from dm_env import specs
import numpy as np
import pytest

from common.cluster import rpc
from common.cluster.handshake import Credentials
from common.cluster.parameters import EVALUATOR, ParameterService
from common.cluster.processes import StopRequest
from common.cluster.topology import Topology, free_ports
from common.environments.batch import BatchedEnvironment
from common.reporting.csv_rows import last_row, read_rows
from common.roles import evaluator as evaluator_process

TOKEN = "a token of the tests"


class UntilAction(dm_env.Environment):
    """An episode ends with the first action above 0; that gives a reward of 1."""

    def reset(self):
        return dm_env.restart(np.zeros(1, np.float32))

    def step(self, action):
        step = dm_env.termination if action[0] > 0 else dm_env.transition
        return step(float(action[0] > 0), np.zeros(1, np.float32))

    def observation_spec(self):
        return specs.Array((1,), np.float32)

    def action_spec(self):
        return specs.BoundedArray((1,), np.float32, minimum=-1, maximum=1)


class Constant:
    """A policy whose only parameter is its action."""

    def __init__(self):
        self.action, self.calls = 0.0, 0

    def initial_state(self, num_environments):
        return ()

    def load(self, flat):
        self.action, self.calls = flat[0], 0

    def __call__(self, observation, state):
        self.calls += 1
        return np.full([len(observation), 1], self.action, np.float32), state, {}


@pytest.fixture
def evaluator(tmp_path, monkeypatch):
    """An evaluator of such a policy beside a learner: (service, policy, stop, its thread)."""
    monkeypatch.setattr(
        evaluator_process.environments,
        "make_batch",
        lambda name, seeds, evaluation: BatchedEnvironment([UntilAction() for _ in seeds]),
    )
    learner, own = (f"127.0.0.1:{port}" for port in free_ports(2))
    server = rpc.Server(learner, TOKEN)
    service = ParameterService(server, 1)
    server.start()
    policy, stop = Constant(), StopRequest()
    agent = types.SimpleNamespace(
        name="d4pg", setting="of a test", make_evaluator=lambda spec, count: policy
    )
    thread = threading.Thread(
        target=evaluator_process.run_evaluator,
        daemon=True,
        args=(
            agent,
            "control:cartpole:swingup",
            Topology({"learner": (learner,), "evaluator": (own,)}, "evaluator", 0),
            Credentials(TOKEN, "evaluator"),
            tmp_path,
            0,
            3,
            0.0,
            stop,
        ),
    )
    thread.start()
    yield service, policy, stop, thread
    stop.request()
    thread.join(30)
    server.close()


def wait_for(condition, what):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        time.sleep(0.05)


def publish(service, action, step, finished=False):
    return service.publish(np.array([action], np.float32), step, 10 * step, 1.0, finished)


def test_the_last_snapshot_ends_an_evaluation_under_way(evaluator, tmp_path):
    service, policy, _, thread = evaluator
    publish(service, -1.0, 16)  # its episodes never end
    wait_for(lambda: policy.action == -1 and policy.calls > 100, "the first evaluation")
    asked = service.times_asked(EVALUATOR)
    wait_for(lambda: service.times_asked(EVALUATOR) > asked + 1, "signs of life meanwhile")
    assert service.acknowledged(EVALUATOR) == 0
    last = publish(service, 1.0, 32, finished=True)
    wait_for(lambda: service.acknowledged(EVALUATOR) == last, "the last evaluation")
    thread.join(30)
    assert not thread.is_alive()
    rows = read_rows(tmp_path / "evaluator.csv")
    assert rows["learner_steps"].tolist() == [32] and rows["episode_return_mean"].tolist() == [1.0]


def test_a_newer_snapshot_that_is_not_the_last_does_not(evaluator, tmp_path):
    service, policy, stop, thread = evaluator
    publish(service, -1.0, 16)
    wait_for(lambda: policy.action == -1 and policy.calls > 100, "the first evaluation")
    publish(service, 1.0, 32)
    asked = service.times_asked(EVALUATOR)
    wait_for(lambda: service.times_asked(EVALUATOR) > asked + 1, "it has heard of it")
    assert policy.action == -1 and thread.is_alive()
    stop.request()
    thread.join(30)
    assert not thread.is_alive() and service.acknowledged(EVALUATOR) == 0
    assert last_row(tmp_path / "evaluator.csv") is None
