"""Tests of common.evidence.execute, with a program that only pretends."""

import functools
import io
import json
import os
import pathlib
import re
import signal
import sys
import time

import driver
from launched import ROOT, launched
from planted import TASKS, contents, path, plant
import pytest

from common.cluster.processes import StopRequest
from common.reporting.csv_rows import read_rows

HERE = pathlib.Path(__file__).parent


@pytest.fixture(autouse=True)
def find_fake_program(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HERE), str(ROOT)]))


@pytest.fixture
def start():
    """Starts driver.py."""
    with launched() as program:
        yield functools.partial(program, HERE / "driver.py")


def directory(root, setting):
    return path(root, setting, TASKS[0], 0)


def outcomes(run):
    return [start["outcome"] for start in json.loads((run / "run.json").read_text())["starts"]]


def wait_for(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def execute(root, *settings):
    """Carries out a session; returns the lines of the runs that began, and the problems."""
    stream = io.StringIO()
    problems = driver.session(root, settings, stream).execute(StopRequest())
    return [line for line in stream.getvalue().splitlines() if line.startswith("run ")], problems


def test_finished_ones_stay_cut_ones_go_on_and_a_failure_does_not_end_the_rest(tmp_path):
    done = plant(directory(tmp_path, "done")).path
    plant(directory(tmp_path, "cut"), learner_steps=4, outcome=None)
    plant(directory(tmp_path, "other"), num_actors=5)
    before = contents(done)
    lines, problems = execute(tmp_path, "done", "other", "cut", "broken", "new")
    assert contents(done) == before
    begun = [re.match(r"run (\d) of 5 · (\w+) on .*, seed 0 (\d+)%", line) for line in lines]
    assert [one.groups() for one in begun] == [
        ("3", "cut", "40"),
        ("4", "broken", "0"),
        ("5", "new", "0"),
    ]
    assert list(read_rows(directory(tmp_path, "cut") / "learner.csv")["learner_steps"]) == [
        4,
        5,
        6,
        7,
        8,
        9,
        10,
    ]
    assert outcomes(directory(tmp_path, "cut")) == [None, "finished"]
    assert outcomes(directory(tmp_path, "new")) == ["finished"]
    other, broken = problems
    assert other.startswith("failed: other on ") and "num_actors is 5, not 2" in other
    assert broken.startswith("failed: broken on ") and "exit code 1 " in broken


def test_what_another_session_has_finished_since_the_plan_is_finished_too(tmp_path):
    session = driver.session(tmp_path, ["late"], io.StringIO())
    plant(directory(tmp_path, "late"))
    assert session.execute(StopRequest()) == []
    assert session.result == "1 of 1 runs are finished"


def test_scale_and_what_it_changes_are_in_the_record(tmp_path):
    execute(tmp_path, "new")
    (record,) = json.loads((directory(tmp_path, "new") / "run.json").read_text())["starts"]
    assert record["scale"] == "small"
    assert record["scale_changes"].endswith("; num_actors 2 instead of 32; config.sizes (4,4)")


@pytest.mark.parametrize("number, exit_code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_the_run_in_order_and_starts_no_other(tmp_path, start, number, exit_code):
    process = start(tmp_path, "slow", "new")
    wait_for((directory(tmp_path, "slow") / "run.json").exists)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == exit_code, (out, err)
    assert "signals [15]" in out  # one, so that it is not taken for impatience
    assert outcomes(directory(tmp_path, "slow")) == ["stopped"]
    assert not directory(tmp_path, "new").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="the parent-death signal is Linux's")
def test_a_run_ends_in_order_when_its_experiment_is_killed(tmp_path, start):
    process = start(tmp_path, "slow")
    wait_for((directory(tmp_path, "slow") / "run.json").exists)
    process.kill()
    wait_for(lambda: outcomes(directory(tmp_path, "slow")) == ["stopped"])
