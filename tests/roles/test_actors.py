"""Tests of common.roles.actors: actors in a process that also learns, and with replays."""

import dataclasses
import random
import threading

from launched import wait_for
import numpy as np
import pandas as pd
import pytest
from run_contexts import make_context
from unroll_task import EPISODE_STEPS, TIMESTEPS, Sums, make_agent
from watched_run import WatchedRun

from common.cluster.processes import StopRequest
from common.cluster.topology import Topology
from common.environments.canonical import CanonicalEnvironment
from common.environments.spec import EnvironmentSpec
from common.program.layouts import ACTORS_WITH_REPLAY, ONE_PROCESS, ONE_PROCESS_WITH_REPLAYS
from common.replay.store import Counters, RateLimiter
from common.reporting.budget import Budget
from common.reporting.csv_rows import last_row, read_rows
from common.reporting.run_directory import RunDirectory
from common.roles import actors, keeper
from common.roles.actors import LocalActing, Turns, acting_during_updates
from reproductions.d4pg.config import AGENT

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
    agent = make_agent(queue_capacity=queue_capacity)
    context = make_context(
        *(agent, SPEC, ONE_PROCESS_WITH_REPLAYS, path),
        environment="python:unroll_task:Sums",
        actors=ACTORS,
        num_actors=len(ACTORS),
        seed=5,
    )
    source, store = Source(), agent.data.make_store(agent.step_specs(SPEC), 0)
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
    assert actors.adder.replay.counters().inserted == len(ACTORS) * TIMESTEPS


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
    assert (first.start, first.adder.incarnation) == (0, 1)
    assert (second.start, second.adder.incarnation) == (1, 2)
    assert first.seed != second.seed
    run = RunDirectory(tmp_path)
    for _ in range(4):  # the disk was full at the third one, whose row in lives.csv is missing
        run.write_run_record(seed=5, scale="laptop")
    assert make(tmp_path)[0].adder.incarnation == 4
    assert make(tmp_path, incarnation=777)[0].adder.incarnation == 777  # a parameter server counts


def test_environments_that_draw_from_global_generators_repeat_with_the_start_alone(tmp_path):
    def drawn(path):
        make(path)
        return random.random(), np.random.random()

    first, second, again = (drawn(tmp_path / name) for name in ("a", "a", "b"))
    assert first == again and len({*first, *second}) == 4


def make_d4pg(path):
    """Four actors of D4PG, their memory, and the source of their parameters."""
    agent = AGENT.make_agent(
        policy_sizes=(16,), critic_sizes=(16,), batch_size=16, min_replay_size=50, n_step=3
    )
    assert agent.data.inserts_late
    spec = EnvironmentSpec(2, 1)
    context = make_context(
        *(agent, spec, ONE_PROCESS, path),
        environment="python:reproductions.d4pg.own_environment:make",
        actors=ACTORS,
        num_actors=len(ACTORS),
    )
    num_parameters = agent.make_learner(spec, 0).num_parameters
    parameters = np.random.default_rng(0).normal(scale=0.1, size=num_parameters)
    source = Source()
    source.parameters = lambda: (parameters * (1 + source.steps)).astype(np.float32)
    store = agent.data.make_store(agent.step_specs(spec), 0)
    return LocalActing(context, store, source, 3), store, source


def transitions_after(path, num_calls, late):
    """Stored items and priorities after so many calls of D4PG, and the insertions it took."""
    actors, store, source = make_d4pg(path)
    puts = []
    put, store.put = store.put, lambda rows: puts.append(len(rows.keys)) or put(rows)
    limiter = RateLimiter(50, 8.0, 64.0)
    while (counters := store.counters()).sampled < 64 * num_calls:
        if limiter.may_sample(counters, 64):  # a call of the learner
            store.draw(64, seed=1 + counters.inserted)
            source.steps += 16
        elif late:
            actors.act(Turns(limiter, 64, 1).next_call_is_due(actors, counters))
        else:
            actors.act()
    sample = store.draw(200, seed=7)
    columns = [np.asarray(column) for column in (*sample[:3], *sample.steps)]
    return actors.timesteps, counters, columns, puts


def test_late_insertions_change_neither_what_is_stored_nor_when_a_call_is_due(tmp_path):
    timesteps, counters, rows, puts = transitions_after(tmp_path / "each", 60, late=False)
    assert timesteps > 103  # an end of the episodes completes many transitions at once
    late_timesteps, late_counters, late_rows, late_puts = transitions_after(
        tmp_path / "late", 60, late=True
    )
    assert (late_timesteps, late_counters) == (timesteps, counters)
    for ours, expected in zip(late_rows, rows, strict=True):
        np.testing.assert_array_equal(ours, expected)
    # 64 samples of 8 for an insert take two timesteps of four actors.
    assert sum(late_puts) == sum(puts) and len(late_puts) < 0.6 * len(puts)


def test_actors_insert_at_the_latest_after_so_many_timesteps(tmp_path):
    actors, store, _ = make_d4pg(tmp_path)
    actors.act(lambda: False)
    assert actors.timesteps == 32
    assert store.counters().inserted == actors.num_steps == 4 * (32 - 3)  # n_step is 3


class Steps:
    """Actors of which each step adds one, as `acting_during_updates` takes them."""

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
TURNS = Turns(LIMITER, 12, 1)


@pytest.mark.parametrize("num_copies, steps", [(1, 3), (2, 2)])
def test_actors_act_beside_a_call_until_the_next_one_is_due(num_copies, steps):
    actors = Steps()
    beside = acting_during_updates(Turns(LIMITER, 12, num_copies), actors, StopRequest())
    for call in range(1, 3):
        before = actors.num_steps
        with beside(Counters(100, 20 + num_copies * before, 12 * (call - 1))):
            wait_for(lambda: actors.num_steps >= call * 3 // num_copies)
            assert "insert" not in actors.log
            actors.log.append("update")
        pulled, *between, inserted = actors.log
        assert (pulled, inserted) == ("pull", "insert")
        acted = between.count("step")
        assert acted == actors.num_steps - before and "update" in between
        actors.log.clear()
        assert acted == (steps if call == 1 else 6 // num_copies - steps)


def test_a_call_that_is_due_at_once_has_no_acting_during_updates_it():
    actors = Steps()
    with acting_during_updates(TURNS, actors, StopRequest())(Counters(100, 100, 0)):
        pass
    assert actors.log == ["pull", "insert"]


def test_a_stop_ends_the_acting_of_actors_that_make_no_step():
    actors, stop = Steps(), StopRequest()
    stop.request()
    with acting_during_updates(TURNS, actors, stop)(Counters(100, 20, 0)):
        pass
    assert actors.log == ["pull", "insert"]


def test_an_error_of_the_actors_ends_the_call():
    actors = Steps(error=ValueError("a simulator broke"))
    with pytest.raises(ValueError, match="a simulator broke"):
        with acting_during_updates(TURNS, actors, StopRequest())(Counters(100, 20, 0)):
            actors.log.append("update")
    assert actors.log == ["pull", "update"]


# The roles of a run whose actors keep replays, each in a thread; and the same in one process.

STEPS, NUM_ACTORS, SAMPLES, RATIO = 60, 4, 20, 3
SECONDS = 60


def context(path, layout, topology=None, episode_return=None, **others):
    return make_context(
        *(make_agent(), SPEC, layout, path, topology),
        environment="python:unroll_task:Sums",
        num_actors=NUM_ACTORS,
        limits=Budget(learner_steps=STEPS, episode_return=episode_return),
        **others,
    )


def test_the_learner_learns_from_every_unroll_of_two_processes(tmp_path):
    topology = Topology.local(ACTORS_WITH_REPLAY.roles, {"learner": 1, "actor": 2})
    roles = [(keeper.run, topology, range(0))]
    for k in range(2):
        task = dataclasses.replace(topology, job="actor", index=k)
        roles.append((actors.run_actor, task, range(2 * k, 2 * k + 2)))
    threads = [
        threading.Thread(
            target=run, args=[context(tmp_path, ACTORS_WITH_REPLAY, task, actors=own)], daemon=True
        )
        for run, task, own in roles
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
        assert not thread.is_alive()
    row = last_row(tmp_path / "learner.csv")
    assert row["learner_steps"] == STEPS and row["parameter_version"] > 0
    assert row["priority_lag_steps"] == 0 and row["replay_size"] <= 8
    timesteps = row["actor_steps"] * TIMESTEPS / EPISODE_STEPS
    # In the queue, and of a burst of two actors in each process a part that is not taken yet.
    ahead = 5 * (8 + 2 * RATIO * 2)
    assert STEPS * SAMPLES - ahead <= RATIO * timesteps <= STEPS * SAMPLES + ahead
    episodes = read_rows(tmp_path / "acting.csv")
    assert (
        set(episodes["actor"]) == set(range(NUM_ACTORS)) and len(set(episodes["incarnation"])) == 2
    )
    assert episodes["parameter_version"].max() > episodes["parameter_version"].min()


def test_one_process_takes_turns_and_equal_seeds_give_equal_runs(tmp_path):
    """A burst has twelve unrolls and a batch four, so nothing is left over."""
    paths = [tmp_path / name for name in "ab"]
    for path in paths:
        options = {"actors": range(NUM_ACTORS), "seed": 1, "values": {"evaluation_steps": 30}}
        keeper.run(context(path, ONE_PROCESS_WITH_REPLAYS, **options))

    def rows(path, name, *without):
        return pd.DataFrame(read_rows(path / name)).drop(columns=["wall_seconds", *without])

    without = ("incarnation", "parameter_version")  # begin at random, or with the time
    acting = [rows(path, "acting.csv", *without) for path in paths]
    assert acting[0].equals(acting[1]) and acting[0]["episode_return"].nunique() > 5
    assert (acting[0]["parameter_age_steps"] == 0).all()  # pulled after the updates of a burst
    evaluations = [rows(path, "evaluator.csv") for path in paths]
    assert evaluations[0].equals(evaluations[1])
    assert evaluations[0]["learner_steps"].tolist() == [0, 30, STEPS]

    row = last_row(paths[0] / "learner.csv")
    assert row["learner_steps"] == STEPS and row["replay_size"] == 0
    timesteps = STEPS * SAMPLES / RATIO
    ended = timesteps // NUM_ACTORS // TIMESTEPS * NUM_ACTORS
    assert row["actor_steps"] == timesteps - ended
    # In timesteps, of which some have no actor step.
    assert row["samples_per_insert"] == round(RATIO * timesteps / row["actor_steps"], 3)


def test_a_run_that_stops_at_a_return_has_learnt_something_and_saved_it(tmp_path, monkeypatch):
    """It is saved before the last evaluation, whose row says that the run is over."""
    saved, evaluate = [], keeper.Evaluation.run

    def run(*arguments):
        saved.append(WatchedRun(tmp_path).saved_steps())
        return evaluate(*arguments)

    monkeypatch.setattr(keeper.Evaluation, "run", run)
    options = {"actors": range(NUM_ACTORS), "seed": 1, "values": {"evaluation_steps": 30}}
    options |= {"episode_return": -1e9}  # which the untrained policy has, too
    keeper.run(context(tmp_path, ONE_PROCESS_WITH_REPLAYS, **options))
    assert read_rows(tmp_path / "evaluator.csv")["learner_steps"].tolist() == [0, 30, 30]
    assert saved[-1] == 30
