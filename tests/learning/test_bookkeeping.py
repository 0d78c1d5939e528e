"""Tests of common.learning.bookkeeping beside a real replay service; nothing is learned."""

import threading
import time

import numpy as np
import pytest

from common.cluster import parameters, rpc
from common.cluster.errors import ServiceUnavailableError
from common.cluster.topology import free_ports
from common.environments.spec import EnvironmentSpec
from common.learning.bookkeeping import Bookkeeping
from common.learning.replay_learner import ReplayLearner
from common.learning.update_loop import UpdateLoop
from common.replay.service import ReplayService
from common.reporting.csv_rows import last_row, read_rows
from common.reporting.run_directory import RunDirectory
from common.roles.replay import make_memory
from reproductions.d4pg.agent import D4PG
from reproductions.d4pg.config import D4PGConfig

SPEC = EnvironmentSpec(3, 2)


class Setting:
    """A run directory, and lives of a learner in it."""

    def __init__(self, path):
        self.agent = D4PG(
            D4PGConfig(
                policy_sizes=(4,), critic_sizes=(4,), replay_capacity=1000, min_replay_size=100
            )
        )
        self.run = RunDirectory(path)
        self.run.open({})
        self._learners = [self.agent.make_learner(SPEC, 0) for _ in range(2)]  # before any server
        self._servers = []
        self.accepted = self._fail

    @staticmethod
    def _fail():
        raise ServiceUnavailableError("away")

    def server(self):
        """One that is closed at the end of the test."""
        self._servers.append(rpc.Server(f"127.0.0.1:{free_ports(1)[0]}", "a token"))
        return self._servers[-1]

    def replay(self):
        """A new replay, with actors in its process, which the learner's next look goes to."""
        self.memory = make_memory(self.agent, SPEC, seed=0)
        self.service = ReplayService(self.server(), self.memory)
        self.accepted = self.service.accepted
        return self.service

    def insert(self, incarnation, accepted, rows=10):
        """Adds some transitions of an actor that has added `accepted` after them."""
        steps = self.agent.step_specs(SPEC)
        steps = steps._make(np.zeros([rows, *spec.shape], np.float32) for spec in steps)
        keys = np.arange(accepted, accepted + rows) + (incarnation << 20)
        self.service.insert(incarnation, accepted, keys, steps, np.ones(rows, np.float32))

    def books(self, checkpoint_seconds=1000.0):
        """Those of a new life of the learner."""
        learner = self._learners.pop()
        self.memory = make_memory(self.agent, SPEC, seed=0)
        loop = UpdateLoop(learner.update, 1, 4, jit_compile=False)
        self.replay_learner = ReplayLearner(
            self.memory, loop, learner.steps, schedule_for(self.agent), prefetch=0
        )
        service = parameters.ParameterService(
            self.server(), sum(v.shape.num_elements() for v in learner.actor_variables)
        )
        return Bookkeeping(
            self.run,
            self.agent,
            learner,
            self.replay_learner,
            service,
            lambda: self.accepted(),
            checkpoint_seconds,
        )

    def num_saved(self):
        """Checkpoints so far."""
        numbers = [int(path.stem.split("-")[1]) for path in self.run.checkpoints.glob("*.index")]
        return max(numbers, default=0)

    def close(self):
        for server in self._servers:
            server.close()


@pytest.fixture
def setting(tmp_path):
    setting = Setting(tmp_path)
    yield setting
    setting.close()


def test_counts_what_comes_until_the_actors_have_ended(setting):
    books = setting.books()
    setting.replay()
    setting.insert(1, accepted=10)
    books.after_call(None)
    assert books.counters.actor_steps == 10  # in a row that is due at once

    def go_on():
        for i in range(5):  # two seconds without any would be the end
            time.sleep(0.5)
            setting.insert(1, accepted=20 + 10 * i)

    thread = threading.Thread(target=go_on)
    ended = books.counters.wall_seconds
    thread.start()
    books.settle(setting.memory.statistics)
    thread.join()
    row = last_row(setting.run.learner_csv)
    assert row["actor_steps"] == row["replay_size"] == books.counters.actor_steps == 60
    assert row["wall_seconds"] - ended < 2 < books.counters.wall_seconds - row["wall_seconds"]
    assert setting.books().counters.actor_steps == 60  # and it is saved


def test_saves_what_only_it_knows_when_a_replay_has_died(setting):
    books = setting.books()
    setting.replay()
    setting.insert(1, accepted=10)
    setting.insert(2, accepted=10)
    books.after_call(None)
    assert setting.num_saved() == 0
    setting.accepted = setting._fail
    time.sleep(1.1)
    books.after_call(None)
    assert setting.num_saved() == 1 and books.counters.actor_steps == 20  # it may be dead
    time.sleep(1.1)
    books.after_call(None)
    assert setting.num_saved() == 1  # once

    setting.replay()
    setting.insert(2, accepted=20)  # the first actor is dead, too
    time.sleep(1.1)
    books.after_call(None)
    assert books.counters.actor_steps == 30

    second = setting.books()  # the learner dies without another save
    second.after_call(None)
    assert second.counters.actor_steps == 30


def test_a_learner_that_was_killed_goes_on_after_its_last_row(setting):
    books = setting.books()
    books.counters._begin -= 100  # pylint: disable=protected-access
    books.save()
    books.counters._begin -= 50  # pylint: disable=protected-access
    books.after_call(None)
    assert last_row(setting.run.learner_csv)["wall_seconds"] == pytest.approx(150, abs=5)

    books = setting.books()
    books.after_call(None)
    walls = read_rows(setting.run.learner_csv)["wall_seconds"]
    assert len(walls) == 2 and walls.is_monotonic_increasing and walls.iloc[-1] < 160


def test_checkpoints_come_in_their_time(setting):
    books = setting.books(checkpoint_seconds=0.3)
    books.after_call(None)
    assert setting.num_saved() == 0
    time.sleep(0.35)
    books.after_call(None)
    assert setting.num_saved() == 1
    books.after_call(None)
    assert setting.num_saved() == 1


def test_a_transition_that_was_added_several_times_is_one_step_of_an_actor(setting):
    setting.agent.num_copies = 4
    books = setting.books()
    setting.replay()
    setting.insert(1, accepted=10)  # of the third one half, a message ended there
    setting.insert(2, accepted=7, rows=7)
    books.after_call(None)
    assert last_row(setting.run.learner_csv)["actor_steps"] == 2 + 1


def test_versions_go_on_after_those_of_a_former_life_whatever_the_clock_says(setting, monkeypatch):
    books = setting.books()
    books.publish()
    books.after_call(None)
    version = books.version
    monkeypatch.setattr(parameters.time, "time_ns", lambda: 10**9)
    assert setting.books().publish() > version
