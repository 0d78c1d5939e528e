"""The roles of a run whose actors keep replays, each in a thread; and the same in one process."""

import dataclasses
import functools
import threading

import pandas as pd
import pytest
from run_contexts import make_context
from unroll_task import EPISODE_STEPS, TIMESTEPS, Sums, make_agent

from common.cluster.topology import Topology
from common.environments.canonical import CanonicalEnvironment
from common.environments.spec import EnvironmentSpec
from common.program.layouts import ACTORS_WITH_REPLAY, ONE_PROCESS_WITH_REPLAYS
from common.reporting.budget import Budget
from common.reporting.csv_rows import last_row, read_rows
from common.reporting.run_directory import RunDirectory
from common.roles import actors, keeper

SPEC = EnvironmentSpec.of(CanonicalEnvironment(Sums(0)))
STEPS, ACTORS, SAMPLES, RATIO = 60, 4, 20, 3
SECONDS = 60


def context(tmp_path, layout, tasks, job="learner", index=0, **others):
    directory = RunDirectory(tmp_path)
    directory.open({})
    directory.path.mkdir(exist_ok=True)
    topology = tasks if isinstance(tasks, Topology) else Topology.local(layout.roles, tasks)
    return make_context(
        make_agent(),
        SPEC,
        layout,
        dataclasses.replace(topology, job=job, index=index),
        directory,
        environment="python:unroll_task:Sums",
        num_actors=ACTORS,
        limits=Budget(learner_steps=STEPS),
        **others,
    )


def test_the_learner_learns_from_every_unroll_of_two_processes(tmp_path):
    topology = Topology.local(ACTORS_WITH_REPLAY.roles, {"learner": 1, "actor": 2})
    make = functools.partial(context, tmp_path, ACTORS_WITH_REPLAY, topology)
    contexts = [make("actor", k, actors=range(2 * k, 2 * k + 2)) for k in range(2)]
    threads = [
        threading.Thread(target=run, args=[one], daemon=True)
        for run, one in [
            (keeper.run, make("learner")),
            *((actors.run_actor, one) for one in contexts),
        ]
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
    assert set(episodes["actor"]) == set(range(ACTORS)) and len(set(episodes["incarnation"])) == 2
    assert episodes["parameter_version"].max() > episodes["parameter_version"].min()


@pytest.fixture(scope="module")
def in_turns(tmp_path_factory):
    """The directories of two runs in one process with equal seeds."""
    paths = []
    for _ in range(2):
        paths.append(tmp_path_factory.mktemp("run"))
        keeper.run(
            context(
                paths[-1],
                ONE_PROCESS_WITH_REPLAYS,
                {"learner": 1},
                actors=range(ACTORS),
                seed=1,
                values={"evaluation_steps": 30},
            )
        )
    return paths


def test_equal_seeds_give_equal_runs_in_one_process(in_turns):
    def rows(path, name, *without):
        return pd.DataFrame(read_rows(path / name)).drop(columns=["wall_seconds", *without])

    without = ("incarnation", "parameter_version")  # begin at random, or with the time
    acting = [rows(path, "acting.csv", *without) for path in in_turns]
    assert acting[0].equals(acting[1]) and acting[0]["episode_return"].nunique() > 5
    assert (acting[0]["parameter_age_steps"] == 0).all()  # pulled after the updates of a burst
    evaluations = [rows(path, "evaluator.csv") for path in in_turns]
    assert evaluations[0].equals(evaluations[1])
    assert evaluations[0]["learner_steps"].tolist() == [0, 30, STEPS]


def test_actors_and_learner_take_turns_in_one_process(in_turns):
    """A burst has twelve unrolls and a batch four, so nothing is left over."""
    row = last_row(in_turns[0] / "learner.csv")
    assert row["learner_steps"] == STEPS and row["replay_size"] == 0
    timesteps = STEPS * SAMPLES / RATIO
    ended = timesteps // ACTORS // TIMESTEPS * ACTORS
    assert row["actor_steps"] == timesteps - ended
    # In timesteps, of which some have no actor step.
    assert row["samples_per_insert"] == round(RATIO * timesteps / row["actor_steps"], 3)
