"""A layout that no paper has runs as the papers' own do, locally and by hand."""

import json
import os
import signal
import sys

from launched import ROOT, forked, launched
import pytest
from watched_run import WatchedRun

from common.cluster import topology
from common.cluster.errors import ServiceUnavailableError
from common.cluster.topology import free_ports

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
        yield lambda workdir, *flags: program(
            *("-m", "tally", ENVIRONMENT, f"--workdir={workdir}", *flags),
            env={**os.environ, "PYTHONPATH": paths},
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
    assert not run.pids()
    again, _ = start(run.workdir, "--max_actor_steps=15").communicate(timeout=SECONDS)
    assert again == out
    (one,) = starts(run)  # the second command started nothing
    assert one["outcome"] == "finished" and one["changed"] == {"clickers": 2}
    assert one["command"][-4:-1] == [
        f"--workdir={run.workdir}",
        "--clickers=2",
        "--config.clicks=5",
    ]
    assert one["budget"] == {"minutes": None, "actor_steps": 15, "learner_steps": None}


@pytest.fixture(scope="module")
def by_hand(tmp_path_factory):
    """A run by hand from its start to its end, and roles beside it that do not belong.

    Returns:
      The folder, and by name the exit codes and the outputs.
    """
    folder, codes, programs = tmp_path_factory.mktemp("by_hand"), {}, {}
    run = WatchedRun(folder / "run")
    own, other = free_ports(2)

    def begin(name, role, *flags, port=own, host="127.0.0.1", token=TOKEN, workdir="run"):
        config = {"cluster": {"tally": [f"{host}:{port}"]}, "task": {"type": role, "index": 0}}
        programs[name] = start(
            *(folder / f"{name}.log", "tally", ENVIRONMENT, f"--workdir={folder / workdir}"),
            *(f"--role={role}", "--clickers=1", "--max_actor_steps=20", *flags),
            PYTHONPATH=FOLDER,
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
        begin(
            *("other", "clicker", "--config.clicks=7", "--environment=control:cheetah:run"),
            *("--clickers=2", "--seed=1"),
            host="localhost",
            workdir="other",
        )
        for name in ("impostor", "same_port", "same_workdir", "other"):
            codes[name] = programs[name].wait(SECONDS)
        first = begin("first", "clicker")
        clicked = "clicked for [0, 1] of 1"
        run.wait_for(lambda: clicked in first.output, SECONDS, "ten clicks")
        first.stop(signal.SIGINT)
        codes["first"] = first.wait(SECONDS)
        begin("second", "clicker")  # the limit is at twenty
        for name in ("second", "tally"):
            codes[name] = programs[name].wait(SECONDS)
        yield folder, codes, {name: one.output for name, one in programs.items()}


def test_roles_by_hand_end_with_the_same_record_and_result(by_hand):
    folder, codes, outputs = by_hand
    run = WatchedRun(folder / "run")
    assert codes["tally"] == codes["second"] == 0 and codes["first"] == 128 + signal.SIGINT
    assert outputs["tally"].endswith(
        f"finished: no evaluation; the logs are in {run.workdir}/logs\n"
    )
    assert clicks(run) >= 20
    (one,) = starts(run)
    assert one["outcome"] == "finished" and one["changed"] == {"clickers": 1}
    assert not any("Traceback" in text or TOKEN in text for text in outputs.values())


@pytest.mark.parametrize(
    "name, code, words",
    [
        ("impostor", 2, ["refused this role's token", "REPLAY_RL_TOKEN"]),
        ("same_port", 1, ["another process serves", "another port"]),  # it may be free again
        ("same_workdir", 2, ["another tally uses", "another --workdir"]),
        (
            "other",
            2,
            [
                "this clicker and the tally at localhost:",
                "belong to different runs",
                "and 2 more",
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
