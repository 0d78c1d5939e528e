"""What a local run says and does while roles are down, with small programs in their places."""

import json
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from common.cluster.launcher import LocalCluster, Role
from common.cluster.processes import StopRequest
from common.program import local as local_run
from common.program.local import LocalRun
from common.reporting.progress import ProgressLine
from common.reporting.run_directory import RunDirectory

# Writes a row, then ends as its life of that number does; a life is counted in a file.
LEARNER = """
import os, pathlib, sys, time
from common.reporting.csv_rows import CsvRows
from common.reporting.columns import LEARNER
run, ends = pathlib.Path(sys.argv[1]), sys.argv[2:]
with open(run / "lives", "a+") as lives:
    lives.write("x")
life = len((run / "lives").read_text())
row = dict.fromkeys(LEARNER, 1) | {"wall_seconds": life, "learner_steps_per_second": 777.0}
CsvRows(run / "learner.csv", LEARNER).append(row)
time.sleep(1.5)
exec(ends[life - 1])
"""
SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]


@pytest.fixture
def run(tmp_path, monkeypatch):
    """run(*ends, ...) -> (lines that were shown, run.json's outcomes)."""
    lines = []

    class Recorded(ProgressLine):
        def update(self, *arguments, **keywords):
            super().update(*arguments, **keywords)
            lines.append(self.line(None))

    monkeypatch.setattr(local_run, "ProgressLine", Recorded)
    monkeypatch.setattr(local_run, "_NEWS_SECONDS", 1.0)

    def run_one(*ends, max_learner_steps=None):
        directory = RunDirectory(tmp_path / "run")
        directory.open({})
        directory.write_run_record(seed=0, scale="test")
        learner = [sys.executable, "-c", LEARNER, str(directory.path), *ends]
        roles = [Role("learner", 0, learner, restart=True), Role("actor", 0, SLEEP, restart=True)]
        cluster = LocalCluster(roles, directory.logs, restart_delay_seconds=1.2)
        one = LocalRun(
            directory,
            cluster,
            StopRequest(),
            max_minutes=1,
            max_actor_steps=None,
            max_learner_steps=max_learner_steps,
            min_replay_size=0,
        )
        one.run("test")
        assert not any(state.running for state in cluster.states().values())
        starts = json.loads(directory.run_json.read_text())["starts"]
        return lines, [start["outcome"] for start in starts]

    return run_one


def test_a_learner_that_is_down_is_seen_and_its_speed_is_not(run):
    lines, outcomes = run("os.kill(os.getpid(), 9)", "sys.exit(0)")
    down = [line for line in lines if "learner 0 down" in line]
    silent = [line for line in lines if "no news from the learner for 1s" in line]
    assert down and silent
    assert not any("777" in line for line in down + silent)
    assert "777" in lines[0] + lines[1] + lines[2]
    after = [line for line in lines if "learner 0 restarted 1x" in line]
    assert any("777" in line for line in after)
    assert not any("actor" in line.split(" learner steps/s")[1] for line in lines if "777" in line)
    assert outcomes == ["finished"]


def test_a_learner_that_a_signal_stopped_has_not_finished_the_run(run):
    lines, outcomes = run("sys.exit(143)", "sys.exit(0)")
    assert any("learner 0 restarted 1x" in line for line in lines)
    assert outcomes == ["finished"]


def test_the_wait_for_the_last_evaluation_is_named(run):
    lines, _ = run("time.sleep(0.5); sys.exit(0)", max_learner_steps=1)
    assert any("waiting for the last evaluation" in line for line in lines)
    assert not any("no news" in line for line in lines)


def runs(pid, argument):
    try:
        return argument.encode() in (pid / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False  # it has just ended


@pytest.mark.skipif(sys.platform != "linux", reason="the parent-death signal is Linux's")
def test_the_second_ctrl_c_ends_a_run_whose_learner_does_not_stop(tmp_path):
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
    code = f"""
import sys
from common.cluster.launcher import LocalCluster, Role
from common.program.local import LocalRun
from common.cluster.processes import StopRequest
from common.reporting.run_directory import RunDirectory
stop = StopRequest().install()
directory = RunDirectory({str(tmp_path / "run")!r})
directory.open({{}})
directory.write_run_record(seed=0, scale="test")
roles = [Role("learner", 0, [sys.executable, "-c", {deaf!r}, {str(tmp_path)!r}], restart=True)]
run = LocalRun(directory, LocalCluster(roles, directory.logs), stop, 1, None, None, 0)
try:
    run.run("test")
except KeyboardInterrupt:
    print("interrupted twice")
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert "test; run directory" in process.stderr.readline()
    time.sleep(1.5)  # the learner is deaf by now
    process.send_signal(signal.SIGINT)
    while "stopping" not in process.stderr.readline():
        assert process.poll() is None
    begin = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=30)
    assert out == "interrupted twice\n" and time.monotonic() - begin < 20
    (start,) = json.loads((tmp_path / "run" / "run.json").read_text())["starts"]
    assert start["outcome"] == "stopped"
    deadline = time.monotonic() + 5
    while any(runs(pid, str(tmp_path)) for pid in pathlib.Path("/proc").glob("[0-9]*")):
        assert time.monotonic() < deadline
