"""A layout that no paper has runs as the papers' own do."""

import json
import os
import sys

from launched import ROOT, launched
import pytest
from watched_run import WatchedRun

from common.cluster.topology import free_ports

ENVIRONMENT = "--environment=python:reproductions.d4pg.own_environment:make"
SECONDS = 120
"""Patience with a busy machine."""


@pytest.fixture
def start():
    """Starts the program of tally.py."""
    paths = os.pathsep.join([str(ROOT / "tests/program"), os.environ.get("PYTHONPATH", "")])
    with launched() as program:
        yield lambda workdir, *flags, **variables: program(
            *("-m", "tally", ENVIRONMENT, f"--workdir={workdir}", *flags),
            env={**os.environ, "PYTHONPATH": paths, **variables},
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
    run.wait_for(lambda: clicked in run.log("clicker", 1), SECONDS, "its clicks")
    assert set(run.pids()) == {"local-0", "tally-0", "clicker-0", "clicker-1"}
    run.kill("clicker", 1)
    out, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 0 and "error" not in err, err
    assert out == f"finished: no evaluation; the logs are in {run.workdir / 'logs'}\n"
    assert run.log("clicker", 1).count(clicked) == 2 and clicks(run) >= 15
    assert not run.pids()
    again, _ = start(run.workdir, "--max_actor_steps=15").communicate(timeout=SECONDS)
    assert again == out  # nothing was started
    (one,) = starts(run)
    assert one["outcome"] == "finished" and one["changed"] == {"clickers": 2}
    assert one["command"][-4:-1] == [
        f"--workdir={run.workdir}",
        "--clickers=2",
        "--config.clicks=5",
    ]
    assert one["budget"] == {"minutes": None, "actor_steps": 15, "learner_steps": None}


def test_its_roles_run_by_hand(tmp_path, start):
    address = f"127.0.0.1:{free_ports(1)[0]}"
    run, processes = WatchedRun(tmp_path / "run"), {}
    for role in ("tally", "clicker"):
        config = {"cluster": {"tally": [address]}, "task": {"type": role, "index": 0}}
        processes[role] = start(
            run.workdir,
            *(f"--role={role}", "--clickers=1", "--max_actor_steps=10"),
            TF_CONFIG=json.dumps(config),
            REPLAY_RL_TOKEN="the token of this run",
        )
    for role, process in processes.items():
        out, err = process.communicate(timeout=SECONDS)
        assert process.returncode == 0 and "Traceback" not in err, err
        wanted = "finished: no evaluation" if role == "tally" else "clicked for [0, 1] of 1"
        assert wanted in out
    assert clicks(run) >= 10
    (one,) = starts(run)
    assert one["outcome"] == "finished" and one["changed"] == {"clickers": 1}
