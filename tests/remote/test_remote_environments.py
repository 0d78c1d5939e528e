"""Tests of common.remote.environments: a batch that others step."""

import contextlib
import threading
import time

import dm_env
from dm_env import specs
import numpy as np
import pytest
from stores import TOKEN

from common.acting.loop import ActingLoop
from common.acting.policy import Policy
from common.cluster import rpc, rpc_server
from common.cluster.credentials import Credentials
from common.cluster.errors import OtherRunError
from common.cluster.processes import Patience, PatienceError, StopRequest
from common.cluster.topology import free_ports
from common.data.episodes import EpisodeAdder
from common.environments.batch import ABSENT, BatchedEnvironment
from common.remote.environments import EnvironmentService, RemoteBatch

FIRST, MID = 0, 1
OBSERVATION = specs.Array((2,), np.float32)
ACTION = specs.BoundedArray((1,), np.float32, minimum=-1, maximum=1)
LENGTH = 3
SECONDS = 60
"""Patience with a busy machine."""


class Marked(dm_env.Environment):
    """Episodes of `LENGTH` steps; observes its mark and the sum of the episode's actions."""

    def __init__(self, mark):
        self._mark, self._step = mark, LENGTH

    def reset(self):
        self._step, self._sum = 0, 0.0
        return dm_env.restart(np.array([self._mark, 0], np.float32))

    def step(self, action):
        if self._step == LENGTH:
            return self.reset()
        self._step += 1
        self._sum += float(action[0])
        observation = np.array([self._mark, self._sum], np.float32)
        end = dm_env.termination if self._step == LENGTH else dm_env.transition
        return end(float(action[0]), observation)

    def observation_spec(self):
        return OBSERVATION

    def action_spec(self):
        return ACTION


class Worker:
    """A worker of rows, in threads of this process; its environments are marked session + row."""

    def __init__(self, rows, address=None, run=None):
        self.rows, self.sessions, self.stop = rows, [], StopRequest()
        address = address or f"127.0.0.1:{free_ports(1)[0]}"
        self.server = rpc_server.Server(address, Credentials(TOKEN, "actor", run))
        service = EnvironmentService(self.server, len(rows), OBSERVATION, ACTION, self.make)
        self.server.start()
        self.thread = threading.Thread(target=service.serve, args=(self.stop,))
        self.thread.start()

    def make(self, session):
        self.sessions.append(session)
        return BatchedEnvironment([Marked(session + row) for row in self.rows])

    def close(self):
        self.stop.request()
        self.thread.join()
        self.server.close()


@pytest.fixture
def workers():
    made = [Worker(range(2)), Worker(range(2, 3))]
    yield made
    for worker in made:
        worker.close()


def remote(workers, stop=None, run=None):
    """The batch of these workers, of a learner's first start."""
    credentials = Credentials(TOKEN, "learner", run)
    clients = [
        rpc.Client(worker.server.address, credentials, timeout_seconds=5.0) for worker in workers
    ]
    rows = [worker.rows for worker in workers]
    return RemoteBatch(clients, rows, 0, OBSERVATION, ACTION, stop or StopRequest())


def step_until(batch, is_it, actions=None):
    """Steps until a timestep is so; returns the timesteps."""
    found, deadline = [], time.monotonic() + SECONDS
    actions = np.zeros((3, 1), np.float32) if actions is None else actions
    while not (found and is_it(found[-1])):
        assert time.monotonic() < deadline
        found.append(batch.step(actions))
    return found


def lose(workers, index):
    """A batch that has begun episodes, one of whose workers then ends; returns its address, too."""
    batch = remote(workers)
    batch.reset()
    batch.step(np.ones((3, 1), np.float32))
    workers[index].close()
    return batch, workers[index].server.address


def test_a_remote_batch_is_like_one_here(workers):
    batch, here = remote(workers), BatchedEnvironment([Marked(row) for row in range(3)])
    assert batch.num_environments == 3
    assert (batch.observation_spec(), batch.action_spec()) == (OBSERVATION, ACTION)
    there = [batch.reset()]
    expected = [here.reset()]
    for number in range(2 * LENGTH + 1):
        actions = np.array([[1], [2], [3]], np.float32) + 10 * number
        there.append(batch.step(actions))
        expected.append(here.step(actions))
    for each, other in zip(there, expected, strict=True):
        for mine, theirs in zip(each, other, strict=True):
            np.testing.assert_array_equal(mine, theirs)
            assert mine.dtype == theirs.dtype


def test_a_lost_workers_rows_are_absent_until_it_is_back_with_new_episodes(workers):
    batch, address = lose(workers, 0)
    (timestep,) = step_until(batch, lambda timestep: True)
    assert timestep.step_type.tolist() == [ABSENT, ABSENT, MID]
    assert timestep.reward[:2].tolist() == [0, 0] and timestep.discount.tolist() == [1, 1, 1]
    np.testing.assert_array_equal(timestep.observation, [[0, 0], [0, 0], [2, 1]])
    workers[0] = Worker(range(2), address)
    timesteps = step_until(batch, lambda timestep: timestep.step_type[0] != ABSENT)
    assert timesteps[-1].step_type[:2].tolist() == [FIRST, FIRST]
    np.testing.assert_array_equal(timesteps[-1].observation[:2], [[1, 0], [2, 0]])  # session 1
    assert ABSENT not in [timestep.step_type[2] for timestep in timesteps]
    assert workers[0].sessions == [1] and workers[1].sessions == [0]


def test_a_worker_that_was_restarted_between_two_steps_does_not_go_on_with_an_episode(workers):
    batch, address = lose(workers, 1)
    workers[1] = Worker(range(2, 3), address)
    timesteps = step_until(batch, lambda timestep: timestep.step_type[2] != ABSENT)
    assert timesteps[-1].step_type[2] == FIRST and timesteps[0].step_type[2] == ABSENT
    assert workers[1].sessions == [1]


class Counting(Policy):
    """Its actions and its extra "mean" are 1."""

    def load(self, flat):
        raise NotImplementedError

    def __call__(self, observation, state):
        ones = np.ones((len(observation), 1), np.float32)
        return ones, state, {"mean": ones}


def test_the_loop_neither_counts_nor_stores_what_is_lost(workers):
    batch, counted, episodes, returns = remote(workers), [], [], []
    adder = EpisodeAdder(3, 100)
    loop = ActingLoop(batch, Counting(), adder, lambda *episode: returns.append(episode))

    def step():
        before, deliveries = adder.num_steps, loop.step()
        counted.append(adder.num_steps - before)
        for rows, _ in deliveries:
            episodes.extend(rows.episodes)

    for _ in range(2):
        step()
    address = workers[0].server.address
    workers[0].close()
    for _ in range(6):
        step()
    workers[0] = Worker(range(2), address)
    deadline = time.monotonic() + SECONDS
    while not any(index < 2 for index, *_ in returns):
        assert time.monotonic() < deadline
        step()
    assert episodes and all(len(episode.rewards) == LENGTH for episode in episodes)
    assert all(length == LENGTH and total == LENGTH for _, total, length in returns)
    # Rows 0 and 1 took two steps, and a third action was on its way. Then they were absent.
    assert counted[:3] == [3, 3, 3] and set(counted[3:8]) <= {0, 1}
    # Actions of lost steps, and those of the timesteps at which the last episodes ended.
    assert sum(counted) - loop.steps == 2


def test_a_batch_without_a_worker_waits_and_gives_up(monkeypatch, workers):
    monkeypatch.setattr(Patience, "default_seconds", 4.0)
    batch = remote(workers)
    batch.reset()
    for worker in workers:
        worker.close()
    with pytest.raises(PatienceError, match="no worker has stepped an environment"):
        step_until(batch, lambda timestep: False)


def test_a_stop_ends_the_wait_for_workers(workers):
    workers[0].close()
    stop = StopRequest()
    threading.Timer(0.5, stop.request).start()
    timestep = remote(workers, stop).reset()
    assert timestep.step_type[:2].tolist() == [ABSENT, ABSENT]


def test_a_worker_of_another_run_is_refused_in_one_line():
    worker = Worker(range(1), run={"observation_size": 14})
    with contextlib.closing(worker):
        batch = remote([worker], run={"observation_size": 11})
        with pytest.raises(
            OtherRunError, match="observation_size is 11 here and 14 there"
        ) as caught:
            batch.reset()
        assert "\n" not in str(caught.value)


def test_workers_end_with_the_run(workers):
    batch = remote(workers)
    batch.reset()
    batch.close()
    for worker in workers:
        worker.thread.join(SECONDS)
        assert not worker.thread.is_alive()
