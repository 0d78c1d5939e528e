"""The papers' layouts: the processes of a local run, and those that cannot be."""

import pytest

from common.cluster.errors import ClusterError
from common.cluster.layout import LayoutError, imported
from common.cluster.topology import Topology
from common.program.layouts import (
    ACTORS_WITH_REPLAY,
    CENTRAL,
    DISTRIBUTED,
    ONE_PROCESS,
    ONE_PROCESS_WITH_REPLAYS,
)
import reproductions

FLAGS = {
    "actor_processes": None,
    "learner_threads": None,
    "replay": "process",
    "replay_shards": 1,
    "evaluation_steps": None,
}


def local(layout, num_actors, cores, **given):
    """Tasks by job, and threads of the learner, of a local run."""
    values = {name: (FLAGS | given)[name] for name in layout.flags}
    values |= layout.local_values(values, num_actors, cores)
    tasks = {role.name: role.local_tasks(values) for role in layout.roles}
    layout.check(tasks)
    return tasks, layout.keeper.threads(values, cores)


@pytest.mark.parametrize(
    "actors, cores, given, processes, replays, threads",
    [
        (4, 2, {}, 1, 1, 1),
        (32, 16, {}, 8, 1, 8),
        (4, 16, {}, 4, 1, 12),
        (4, 1, {}, 1, 1, 1),
        (4, 2, {"replay_shards": 3}, 3, 3, 1),
        (4, 8, {"actor_processes": 2, "learner_threads": 3}, 2, 1, 3),
        (4, 8, {"replay": "learner"}, 4, 0, 4),
    ],
)
def test_a_distributed_run(actors, cores, given, processes, replays, threads):
    tasks, learner_threads = local(DISTRIBUTED, actors, cores, **given)
    assert tasks == {"learner": 1, "replay": replays, "actor": processes, "evaluator": 1}
    assert learner_threads == threads


def test_a_run_of_one_process():
    assert local(ONE_PROCESS, 1, 8) == ({"learner": 1, "evaluator": 1}, 8)
    assert local(ONE_PROCESS, 1, 8, learner_threads=2)[1] == 2
    assert local(ONE_PROCESS, 1, 8, evaluation_steps=100)[0] == {"learner": 1, "evaluator": 0}


@pytest.mark.parametrize(
    "actors, cores, given, processes, threads",
    [
        (100, 2, {}, 1, 1),
        (100, 16, {}, 8, 8),
        (3, 16, {}, 3, 13),
        (100, 8, {"actor_processes": 2, "learner_threads": 3}, 2, 3),
    ],
)
def test_a_run_whose_actors_keep_replays(actors, cores, given, processes, threads):
    tasks, learner_threads = local(ACTORS_WITH_REPLAY, actors, cores, **given)
    assert tasks == {"learner": 1, "actor": processes, "evaluator": 1}
    assert learner_threads == threads


def test_a_learner_that_acts_in_environments_elsewhere():
    tasks, learner_threads = local(CENTRAL, 24, 8, actor_processes=3)
    assert tasks == {"learner": 1, "actor": 3, "evaluator": 1} and learner_threads == 5
    assert CENTRAL.acting_role.name == "actor" and CENTRAL.keeper.acts
    assert CENTRAL.actors_of(2, 3, 24) == range(16, 24)
    assert ONE_PROCESS.acting_role is ONE_PROCESS.keeper


def test_a_flag_chooses_a_layout():
    agent = imported(reproductions.AGENTS["refer"])
    config = agent.settings.configuration(agent.settings.default)
    assert agent.layout(config) is ONE_PROCESS
    assert agent.layout(config, {"actor_processes": None, "replay": "process"}) is ONE_PROCESS
    assert agent.layout(config, {"actor_processes": 1}) is CENTRAL
    agent = imported(reproductions.AGENTS["apex_dqn"])
    config = agent.settings.configuration(agent.settings.default)
    assert agent.layout(config, {"actor_processes": 2}) is DISTRIBUTED


def test_replays_are_counted_where_their_actors_are():
    topology = Topology.local(ACTORS_WITH_REPLAY.roles, {"learner": 1, "actor": 3})
    shares = {role.name: role.replay_share(topology, 34) for role in ACTORS_WITH_REPLAY.roles}
    assert shares == {"learner": 0, "actor": 34, "evaluator": 0}
    assert ONE_PROCESS.keeper.replay_share(topology, 4) == 1
    assert ONE_PROCESS_WITH_REPLAYS.keeper.replay_share(topology, 4) == 4
    values = {"num_actors": 100}
    assert ACTORS_WITH_REPLAY.num_memories(values) == 100
    assert ONE_PROCESS_WITH_REPLAYS.num_memories(values) == 100
    assert ONE_PROCESS.num_memories(values) == DISTRIBUTED.num_memories(values) == 1


def test_a_replay_is_no_job_where_actors_keep_replays():
    with pytest.raises(ClusterError, match="'replay': the jobs of .* learner, actor, evaluator"):
        Topology.local(ACTORS_WITH_REPLAY.roles, {"learner": 1, "replay": 1})
    with pytest.raises(LayoutError, match="--role=replay .* learner, actor, evaluator"):
        ACTORS_WITH_REPLAY.role("replay")
    assert not {"replay", "replay_shards"} & {*ACTORS_WITH_REPLAY.flags}


@pytest.mark.parametrize(
    "given, words",
    [
        ({"replay_shards": 2, "actor_processes": 1}, "2 replay.* 1 actor.*--actor_processes"),
        ({"replay_shards": 5}, "5 replay.* 4 actor"),
        ({"replay_shards": 2, "replay": "learner"}, "--replay_shards is 2.*--replay=learner"),
    ],
)
def test_a_local_run_that_cannot_be(given, words):
    with pytest.raises(LayoutError, match=words):
        local(DISTRIBUTED, 4, 2, **given)


def test_actors_are_shared_evenly():
    shares = [DISTRIBUTED.actors_of(index, 3, 8) for index in range(3)]
    assert shares == [range(0, 2), range(2, 5), range(5, 8)]
    for arguments, words in (
        ((0, 0, 8), "--actor_processes is missing"),
        ((0, 9, 8), "9 tasks of actor for --num_actors=8"),
        ((3, 3, 8), "actor 3, counted from 0, but there are 3"),
    ):
        with pytest.raises(LayoutError, match=words):
            DISTRIBUTED.actors_of(*arguments)


def test_a_role_of_another_layout_is_refused():
    assert DISTRIBUTED.role("replay").name == "replay"
    for name in ("replay", "leaner"):
        with pytest.raises(LayoutError, match=f"--role={name} .*one process.* learner, evaluator"):
            ONE_PROCESS.role(name)
