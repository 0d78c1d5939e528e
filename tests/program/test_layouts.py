"""Layouts: processes of local runs, what cannot be, and a program whose layout no paper has."""

import dataclasses
import json
import os
import re
import signal
import sys

from launched import ROOT, forked, launched
import pytest
from watched_run import WatchedRun

from common.cluster import topology
from common.cluster.errors import ServiceUnavailableError
from common.cluster.layout import LayoutError, imported
from common.cluster.topology import Topology, free_ports
from common.program.layouts import (
    ACTORS_WITH_REPLAY,
    CENTRAL,
    DISTRIBUTED,
    LEARNER_AND_ACTORS,
    ONE_PROCESS,
    ONE_PROCESS_WITH_REPLAYS,
    WORKERS,
)
import reproductions

FLAGS = {
    "actor_processes": None,
    "learner_threads": None,
    "replay": "process",
    "replay_shards": 1,
    "evaluation_steps": None,
}
GIVEN = {"actor_processes": 2, "learner_threads": 3}


def local(layout, num_actors, cores, **given):
    """Tasks by job, and threads of the learner, of a local run."""
    values = {name: (FLAGS | given)[name] for name in layout.flags}
    values |= layout.local_values(values, num_actors, cores)
    tasks = {role.name: role.local_tasks(values) for role in layout.roles}
    layout.require_tasks(tasks, num_actors)
    return tasks, layout.keeper.threads(values, cores)


@pytest.mark.parametrize(
    "name", ["DISTRIBUTED", "WORKERS", "ACTORS_WITH_REPLAY", "LEARNER_AND_ACTORS", "CENTRAL"]
)
def test_the_diagram_shows_whom_each_role_calls(name):
    page = (ROOT / "docs/clusters.md").read_text()
    diagram = re.search(rf"subgraph {name}\[.*?\n  end", page, re.DOTALL)[0]
    shown = re.findall(r"^    ([a-z_]+)\d.* --> ([a-z_]+)\d", diagram, re.MULTILINE)
    roles = globals()[name].roles
    calls = [(role.name, called) for role in roles for called in role.calls]
    if name != "DISTRIBUTED":  # the evaluator stands there only
        calls = [pair for pair in calls if pair[0] != "evaluator"]
    assert sorted(shown) == sorted(calls)


@pytest.mark.parametrize(
    "layout, actors, cores, given, tasks, threads",
    [
        (DISTRIBUTED, 4, 2, {}, {"replay": 1, "actor": 1}, 1),
        (DISTRIBUTED, 32, 16, {}, {"replay": 1, "actor": 8}, 8),
        (DISTRIBUTED, 4, 16, {}, {"replay": 1, "actor": 4}, 12),
        (DISTRIBUTED, 4, 2, {"replay_shards": 3}, {"replay": 3, "actor": 3}, 1),
        (DISTRIBUTED, 4, 8, GIVEN, {"replay": 1, "actor": 2}, 3),
        (DISTRIBUTED, 4, 8, {"replay": "learner"}, {"replay": 0, "actor": 4}, 4),
        (ONE_PROCESS, 1, 8, {}, {}, 8),
        (ONE_PROCESS, 1, 8, {"learner_threads": 2}, {}, 2),
        (ONE_PROCESS, 1, 8, {"evaluation_steps": 100}, {"evaluator": 0}, 8),
        (ACTORS_WITH_REPLAY, 100, 16, {}, {"actor": 8}, 8),
        (CENTRAL, 24, 8, {"actor_processes": 3}, {"actor": 3}, 5),
    ],
)
def test_a_local_run(layout, actors, cores, given, tasks, threads):
    expected = {"learner": 1, "evaluator": 1} | tasks
    assert local(layout, actors, cores, **given) == (expected, threads)


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
    def share(layout, job, actors=0, **tasks):
        tasks = tasks or {"learner": 1}
        topology = Topology.local(layout.roles, tasks)
        return layout.memory_share(dataclasses.replace(topology, job=job), actors)

    tasks = {"learner": 1, "actor": 3}
    assert share(ACTORS_WITH_REPLAY, "actor", 34, **tasks) == 34
    assert share(ACTORS_WITH_REPLAY, "learner", **tasks) == 0
    assert share(DISTRIBUTED, "replay", learner=1, replay=4) == 0.25
    assert share(DISTRIBUTED, "learner", learner=1, replay=4) == 0
    assert share(DISTRIBUTED, "learner") == share(LEARNER_AND_ACTORS, "learner") == 1
    assert share(ONE_PROCESS, "learner", 4) == 1
    assert share(ONE_PROCESS_WITH_REPLAYS, "learner", 4) == 4
    assert share(WORKERS, "worker", 1, parameter_server=1) == 1
    for layout in (ACTORS_WITH_REPLAY, ONE_PROCESS_WITH_REPLAYS, WORKERS):
        assert layout.num_memories(100) == 100
    assert ONE_PROCESS.num_memories(100) == DISTRIBUTED.num_memories(100) == 1


@pytest.mark.parametrize(
    "given, words",
    [
        ({"replay_shards": 2, "actor_processes": 1}, "2 replay.* 1 actor.*--actor_processes"),
        ({"replay_shards": 2, "replay": "learner"}, "--replay_shards is 2.*--replay=learner"),
    ],
)
def test_a_local_run_that_cannot_be(given, words):
    with pytest.raises(LayoutError, match=words):
        local(DISTRIBUTED, 4, 2, **given)


def test_actors_are_shared_evenly():
    shares = [DISTRIBUTED.actors_of(index, 3, 8) for index in range(3)]
    assert shares == [range(0, 2), range(2, 5), range(5, 8)]
    with pytest.raises(LayoutError, match="actor 3, counted from 0, but there are only 3"):
        DISTRIBUTED.actors_of(3, 3, 8)


# A layout that no paper has runs as the papers' own do, locally and by hand.

ENVIRONMENT = "--environment=python:reproductions.d4pg.own_environment:make"
FOLDER = str(ROOT / "tests/program")
TOKEN = "the token of this run"
SECONDS = 120
"""Patience with a busy machine."""


@pytest.fixture
def start():
    """Starts the program of tally.py."""
    paths = os.pathsep.join([FOLDER, os.environ.get("PYTHONPATH", "")])
    with launched() as program:
        yield lambda workdir, *flags, **options: program(
            *("-m", "tally", ENVIRONMENT, f"--workdir={workdir}", *flags),
            env={**os.environ, "PYTHONPATH": paths},
            **options,
        )


def clicks(run):
    """The number that the tally has written down."""
    return json.loads((run.workdir / "tally.json").read_text())


def starts(run):
    return json.loads((run.workdir / "run.json").read_text())["starts"]


@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
def test_a_local_run_restarts_a_killed_role_and_ends_with_its_result(tmp_path, start):
    run = WatchedRun(tmp_path / "run")
    # Two clickers click five times each, so the limit needs one that is started again.
    process = start(run.workdir, "--clickers=2", "--config.clicks=5", "--max_actor_steps=15")
    clicked = "clicked for [1] of 2"
    run.wait_for(
        lambda: clicked in run.log("clicker", 1) or process.poll() is not None,
        SECONDS,
        "its clicks",
    )
    assert set(run.pids()) == {"launcher-0", "tally-0", "clicker-0", "clicker-1"}
    run.kill("clicker", 1)
    out, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 0 and "error" not in err, err
    assert out == f"finished: no evaluation; the logs are in {run.workdir / 'logs'}\n"
    assert run.log("clicker", 1).count(clicked) == 2 and clicks(run) >= 15
    drawn = [re.search("drew (.*) (.*)", run.log("clicker", index)).groups() for index in (0, 1)]
    assert len({*drawn[0], *drawn[1]}) == 4  # forks of one template
    assert not run.pids()
    again, _ = start(run.workdir, "--max_actor_steps=15").communicate(timeout=SECONDS)
    assert again == out
    (record,) = starts(run)  # the second command started nothing
    assert record["outcome"] == "finished" and record["changed"] == {"clickers": 2}
    assert record["command"][-4:-1] == [
        f"--workdir={run.workdir}",
        "--clickers=2",
        "--config.clicks=5",
    ]
    assert record["budget"] == {"minutes": None, "actor_steps": 15, "learner_steps": None}


LEAVING = """
import time
from reproductions.d4pg.own_environment import make

closed = []

def leaving(seed):
    environment = make(seed)
    environment.close = lambda: time.sleep(600 * len(closed)) or closed.append(1)
    return environment
"""
"""Environments that hang in the second close() of a process."""


def test_close_that_hangs_after_the_last_row_costs_nothing(tmp_path, start):
    (tmp_path / "environments.py").write_text(LEAVING)
    flags = ["--environment=python:environments:leaving", "--environment_seconds=2"]
    flags += ["--clickers=1", "--max_actor_steps=5"]
    run = WatchedRun(tmp_path / "run")
    process = start(run.workdir, *flags, cwd=tmp_path)
    out, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 0 and out.startswith("finished: ") and "restart" not in err
    assert "leaving has not returned from close() for 2 s" in run.log("tally", 0)
    (record,) = starts(run)
    assert record["outcome"] == "finished"


STOPPING = """
import os, signal
from common.cluster.processes import StopRequest
from common.program import main
from tally import AGENT

StopRequest.wait = lambda stop, seconds: os.kill(os.getpid(), signal.SIGTERM) or True
main.start(AGENT)
"""
"""The tally's program, which is stopped when it first waits."""


@pytest.fixture(scope="module")
def by_hand(tmp_path_factory):
    """A run by hand from its start to its end, and other roles that do not belong.

    Returns:
      The folder, and by name the exit codes and the outputs.
    """
    folder, codes, programs = tmp_path_factory.mktemp("by_hand"), {}, {}
    run = WatchedRun(folder / "run")
    own, other, third = free_ports(3)

    (folder / "stopping.py").write_text(STOPPING)

    def begin(name, role, *flags, port=own, token=TOKEN, workdir="run", module="tally"):
        config = {"cluster": {"tally": [f"127.0.0.1:{port}"]}, "task": {"type": role, "index": 0}}
        programs[name] = start(
            *(folder / f"{name}.log", module, ENVIRONMENT, f"--workdir={folder / workdir}"),
            *(f"--role={role}", "--clickers=1", "--max_actor_steps=20", *flags),
            PYTHONPATH=os.pathsep.join([FOLDER, str(folder)]),
            TF_CONFIG=json.dumps(config),
            REPLAY_RL_TOKEN=token,
        )
        return programs[name]

    def is_up():
        try:
            topology.probe(f"127.0.0.1:{own}")
        except ServiceUnavailableError:
            return False
        return True

    with forked() as start:
        begin("tally", "tally")
        run.wait_for(lambda: is_up() or not programs["tally"].runs, SECONDS, "the tally serves")
        begin("impostor", "clicker", token="the token of another")
        begin("same_port", "tally", workdir="same_port")
        begin("same_workdir", "tally", port=other)
        begin("stopped", "tally", port=third, module="stopping")
        begin(
            *("other", "clicker", "--config.clicks=7", "--environment=control:cheetah:run"),
            *("--clickers=2", "--seed=1"),
            workdir="other",
        )
        for name in ("impostor", "same_port", "same_workdir", "stopped", "other"):
            codes[name] = programs[name].wait(SECONDS)
        first = begin("first", "clicker")
        clicked = "clicked for [0, 1] of 1"
        run.wait_for(lambda: clicked in first.output, SECONDS, "ten clicks")
        first.stop(signal.SIGINT)
        codes["first"] = first.wait(SECONDS)
        begin("second", "clicker")  # the limit is at twenty
        for name in ("second", "tally"):
            codes[name] = programs[name].wait(SECONDS)
        yield folder, codes, {name: each.output for name, each in programs.items()}


def test_roles_by_hand_end_with_the_same_record_and_result(by_hand):
    folder, codes, outputs = by_hand
    run = WatchedRun(folder / "run")
    assert codes["tally"] == codes["second"] == 0 and codes["first"] == 128 + signal.SIGINT
    assert outputs["tally"].endswith(
        f"finished: no evaluation; the logs are in {run.workdir}/logs\n"
    )
    assert clicks(run) >= 20
    assert codes["stopped"] == 128 + signal.SIGTERM and "error" not in outputs["stopped"]
    (record,) = starts(run)
    assert record["outcome"] == "finished" and record["changed"] == {"clickers": 1}
    assert not any("Traceback" in text or TOKEN in text for text in outputs.values())


@pytest.mark.parametrize(
    "name, code, words",
    [
        ("impostor", 2, ["does not know this role's token", "REPLAY_RL_TOKEN"]),
        # It may be free again.
        ("same_port", 1, ["another process already listens", "another port"]),
        ("same_workdir", 2, ["another tally uses", "another --workdir"]),
        (
            "other",
            2,
            [
                "this clicker and the tally at 127.0.0.1:",
                "belong to different runs",
                "and 1 more",
                "config.clicks is 7 here and 5 there",
                "control:cheetah:run",
                "seed is 1 here and 0 there",
                "tasks of clicker is 2 here and 1 there",
                "same flags",
            ],
        ),
    ],
)
def test_a_role_that_does_not_belong_is_refused_in_one_line(by_hand, name, code, words):
    folder, codes, outputs = by_hand
    (error,) = [line for line in outputs[name].splitlines() if line.startswith("error: ")]
    assert codes[name] == code
    for word in words:
        assert word in error
    if name == "other":
        assert "agent" not in error  # only what differs
        assert [path.name for path in (folder / "other").rglob("*") if path.is_file()] == [
            "config.json"
        ]
