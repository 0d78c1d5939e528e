"""`--role=local` as its user meets it: to the end, once more, Ctrl-C, and kill -9."""

import json
import os
import re
import signal
import sys
import time

from launched import launched
import pytest
from watched_run import WatchedRun

from common.reporting.csv_rows import last_row

FLAGS = (
    "--environment=control:cartpole:swingup",
    "--num_actors=2",
    "--actor_processes=1",
    "--learner_threads=1",
    "--evaluation_episodes=2",
    "--evaluation_seconds=1",
    "--config.policy_sizes=(16,16)",
    "--config.critic_sizes=(16,16)",
    "--config.batch_size=32",
    "--config.min_replay_size=200",
    "--config.samples_per_insert=16",
    "--config.updates_per_call=4",
)
PROCESSES = {"local-0", "learner-0", "replay-0", "actor-0", "evaluator-0"}


@pytest.fixture
def start():
    """Starts launchers."""
    with launched() as program:
        yield lambda workdir, *flags: program(
            "-m", "binaries.d4pg", *FLAGS, f"--workdir={workdir}", *flags
        )


def starts(workdir):
    return json.loads((workdir / "run.json").read_text())["starts"]


def test_a_run_ends_with_its_result_and_goes_on_with_a_higher_limit(tmp_path, start):
    workdir = tmp_path / "run"
    run = WatchedRun(workdir)
    out, err = start(workdir, "--max_learner_steps=200").communicate(timeout=130)
    picture = workdir / "learning_curve.png"
    assert re.search(r"^evaluator return \d+\.\d \+- .* 200 learner steps$", out, re.M), (out, err)
    assert out.splitlines()[-1] == f"learning curve {picture}"
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "error" not in err and "MUJOCO" not in err and "200 learner steps left" in err
    assert [one["outcome"] for one in starts(workdir)] == ["finished"]
    assert starts(workdir)[0]["end_time"]
    first = last_row(workdir / "learner.csv")
    assert first["learner_steps"] == 200
    assert run.pids() == {}

    # Where the memory lives is no part of the run.
    out, _ = start(workdir, "--max_learner_steps=400", "--replay=learner").communicate(timeout=130)
    second = last_row(workdir / "learner.csv")
    assert "400 learner steps" in out
    assert second["learner_steps"] == 400
    assert second["wall_seconds"] > first["wall_seconds"]
    assert second["actor_steps"] > first["actor_steps"]
    assert [one["outcome"] for one in starts(workdir)] == ["finished", "finished"]
    steps = [
        int(line.split(",")[1]) for line in (workdir / "learner.csv").read_text().splitlines()[1:]
    ]
    assert steps == sorted(steps) and steps.count(0) <= 1  # it did not begin anew
    run.check_files()


def test_ctrl_c_leaves_a_checkpoint_and_whole_files(tmp_path, start):
    workdir = tmp_path / "run"
    run = WatchedRun(workdir)
    process = start(workdir)
    run.wait_for(lambda: run.learner("learner_steps"), 90, "the learner learns")
    assert set(run.pids()) == PROCESSES
    process.send_signal(signal.SIGINT)
    begin = time.monotonic()
    out, err = process.communicate(timeout=60)
    assert time.monotonic() - begin < 30
    assert process.returncode == 0 and "Traceback" not in err
    assert "stopping: the learner saves a checkpoint" in err
    assert run.pids() == {}
    assert [one["outcome"] for one in starts(workdir)] == ["stopped"]
    run.check_files()


@pytest.mark.skipif(sys.platform != "linux", reason="the parent-death signal is Linux's")
def test_kill_9_of_the_launcher_leaves_no_process(tmp_path, start):
    workdir = tmp_path / "run"
    run = WatchedRun(workdir)
    process = start(workdir)
    run.wait_for(lambda: set(run.pids()) == PROCESSES, 30, "every role runs")
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    run.wait_for(lambda: run.pids() == {}, 5, "no process is left")
