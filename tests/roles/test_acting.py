"""Tests of common.roles.acting: actors in a process that also learns."""

import dataclasses
import threading
import time

import numpy as np
import pytest
from run_contexts import make_context
from unroll_task import EPISODE_STEPS, TIMESTEPS, Sums, make_agent

from common.cluster.topology import Topology
from common.environments.canonical import CanonicalEnvironment
from common.environments.spec import EnvironmentSpec
from common.program.layouts import ONE_PROCESS_WITH_REPLAYS
from common.replay.rate_limiter import RateLimiter
from common.replay.store import Counters
from common.reporting.csv_rows import read_rows
from common.reporting.run_directory import RunDirectory
from common.roles.acting import ActingBeside, LocalActing

SPEC = EnvironmentSpec.of(CanonicalEnvironment(Sums(0)))
ACTORS = range(4)
LENGTH, BATCH, COPIES = 5, 4, 3
"""Timesteps of an unroll, unrolls of an update, and unrolls in the queue for each new one."""


@dataclasses.dataclass
class Source:
    """Parameters of a learner that a test advances."""

    steps: int = 0
    wall_seconds: float = 1.0
    asked: int = 0

    @property
    def version(self):
        return 100 + self.steps

    def parameters(self):
        self.asked += 1
        return np.array([self.steps / 1000], np.float32)


def make(path, queue_capacity=8, incarnation=None):
    """Four actors, the queue to which they add, and the source of their parameters."""
    path.mkdir(exist_ok=True)
    agent = make_agent(queue_capacity=queue_capacity)
    topology = Topology.local(ONE_PROCESS_WITH_REPLAYS.roles, {"learner": 1})
    context = make_context(
        agent,
        SPEC,
        ONE_PROCESS_WITH_REPLAYS,
        dataclasses.replace(topology, job="learner"),
        RunDirectory(path),
        environment="python:unroll_task:Sums",
        actors=ACTORS,
        num_actors=len(ACTORS),
        seed=5,
    )
    source, store = Source(), agent.make_store(SPEC, 0)
    return LocalActing(context, store, source, 3, incarnation), store, source


def test_actors_wait_until_the_store_has_taken_a_step_and_the_learner_has_learnt_from_it(tmp_path):
    actors, store, source = make(tmp_path)
    while not store.counters().inserted:
        actors.act()
    at, items = actors.timesteps, len(ACTORS) * COPIES
    assert (at, items) == (LENGTH + 1, 12)
    assert store.counters().items == 5  # of parts of 5, 5 and 2 for a queue of 8
    actors.act()
    assert actors.timesteps == at and store.counters().items == 5
    store.draw(BATCH)
    source.steps = 1
    actors.act()
    assert actors.timesteps == at and store.counters().items == 8
    store.draw(2 * BATCH)
    source.steps = 3
    actors.act()
    assert actors.timesteps == at + 1 and store.counters() == Counters(0, items, items)
    assert actors.version == 103 and actors.age_steps == 0


def drawn(actors, store, num_timesteps):
    """The unrolls of so many timesteps, which are taken whenever the actors wait."""
    rows = []

    def draw():
        while (batch := store.draw(1)) is not None:
            rows.append(batch.steps.reward[0])

    while actors.timesteps < num_timesteps:
        before = actors.timesteps
        actors.act()
        if actors.timesteps == before:
            draw()
    while store.counters().items:
        draw()
        actors.insert()
    return rows


def test_nothing_is_lost_or_added_twice_while_a_store_is_full(tmp_path):
    found = []
    for capacity in (8, 1000):
        actors, store, _ = make(tmp_path / str(capacity), capacity)
        found.append(drawn(actors, store, LENGTH * TIMESTEPS + 1))
        assert actors.num_steps == len(ACTORS) * LENGTH * EPISODE_STEPS
        assert store.counters().inserted == len(ACTORS) * COPIES * TIMESTEPS
    np.testing.assert_array_equal(*found)
    assert actors.replay.counters().inserted == len(ACTORS) * TIMESTEPS


def test_parameters_are_copied_once_a_period(tmp_path):
    actors, _, source = make(tmp_path, queue_capacity=1000)
    versions = []
    for step in range(12):
        source.steps = step
        actors.act()
        versions.append((actors.version, actors.age_steps))
    # The first ones at once; then where an unroll ends, see `ReplayedUnrolls`.
    loaded = [0, 1, 1, 1, 1, 1, 6, 6, 6, 6, 6, 11]
    assert versions == [(100 + at, step - at) for step, at in enumerate(loaded)]
    for _ in range(2 * TIMESTEPS):
        actors.act()
    assert source.asked == 4  # there were no newer ones since
    row = read_rows(tmp_path / "acting.csv").iloc[0]
    assert (row["parameter_version"], row["parameter_age_steps"]) == (101, 4)
    assert (row["incarnation"], row["wall_seconds"]) == (1, 1.0)


def test_each_start_of_the_actors_has_another_number_and_other_random_numbers(tmp_path):
    first, second = (make(tmp_path)[0] for _ in range(2))
    assert (first.start, first.incarnation) == (0, 1)
    assert (second.start, second.incarnation) == (1, 2)
    assert first.seed != second.seed
    assert make(tmp_path, incarnation=777)[0].incarnation == 777  # a parameter server counts


class Steps:
    """Actors of which each step adds one, as `ActingBeside` takes them."""

    def __init__(self, error=None):
        self.log, self.num_steps, self._error = [], 0, error

    def pull(self):
        self.log.append("pull")

    def step(self):
        assert threading.current_thread() is not threading.main_thread()
        if self._error:
            raise self._error
        self.num_steps += 1
        self.log.append("step")

    def insert(self):
        self.log.append("insert")


LIMITER = RateLimiter(20, 4.0, 12.0)


@pytest.mark.parametrize("num_copies, steps", [(1, 3), (2, 2)])
def test_actors_act_beside_a_call_until_the_next_one_is_due(num_copies, steps):
    actors = Steps()
    beside = ActingBeside(LIMITER, 12, num_copies, actors)
    for call in range(1, 3):
        before = actors.num_steps
        with beside(Counters(100, 20 + num_copies * before, 12 * (call - 1))):
            deadline = time.monotonic() + 60
            while actors.num_steps < call * 3 // num_copies and time.monotonic() < deadline:
                time.sleep(0.01)
            assert "insert" not in actors.log
            actors.log.append("update")
        pulled, *between, inserted = actors.log
        assert (pulled, inserted) == ("pull", "insert")
        acted = between.count("step")
        assert acted == actors.num_steps - before and "update" in between
        actors.log.clear()
        assert acted == (steps if call == 1 else 6 // num_copies - steps)


def test_a_call_that_is_due_at_once_has_no_acting_beside_it():
    actors = Steps()
    with ActingBeside(LIMITER, 12, 1, actors)(Counters(100, 100, 0)):
        pass
    assert actors.log == ["pull", "insert"]


def test_an_error_of_the_actors_ends_the_call():
    actors = Steps(error=ValueError("a simulator broke"))
    with pytest.raises(ValueError, match="a simulator broke"):
        with ActingBeside(LIMITER, 12, 1, actors)(Counters(100, 20, 0)):
            actors.log.append("update")
    assert actors.log == ["pull", "update"]
