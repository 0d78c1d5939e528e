"""`--role=local` of D4PG as its user meets it, through kill -9 of each role to the end."""

import json
import os
import re
import signal
import sys
import time

from by_hand import RunByHand
from launched import forked, launched
import pytest
from watched_run import TOKEN, WatchedRun

from common.cluster.credentials import TOKEN_VARIABLE
from common.learning import checkpoint as checkpoint_lib
from common.remote.parameters import ParameterClient
from common.replay.store import Counters
from common.reporting.csv_rows import read_rows

MIN_SIZE = 1000
FLAGS = (
    "--environment=python:reproductions.d4pg.own_environment:make",
    "--num_actors=2",
    "--actor_processes=1",
    "--learner_threads=1",
    "--evaluation_episodes=1",
    "--evaluation_seconds=2",
    "--checkpoint_seconds=1",
    "--nocheckpoint_replay",
    "--config.policy_sizes=(16,16)",
    "--config.critic_sizes=(16,16)",
    "--config.batch_size=32",
    f"--config.min_replay_size={MIN_SIZE}",
    "--config.samples_per_insert=16",
    "--config.updates_per_call=4",
)
PROCESSES = {"launcher-0", "learner-0", "replay-0", "actor-0", "evaluator-0"}
SECONDS = 600
"""Patience with a busy machine."""


@pytest.fixture
def start():
    """Starts programs."""
    with launched() as program:
        yield lambda workdir, *flags, **variables: program(
            *("-m", "binaries.d4pg", *FLAGS, f"--workdir={workdir}", *flags),
            env={**os.environ, TOKEN_VARIABLE: TOKEN, **variables},
        )


def outcomes(run):
    starts = json.loads((run.workdir / "run.json").read_text())["starts"]
    return [one["outcome"] for one in starts]


@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
@pytest.mark.timeout(3600)
def test_a_run_survives_kill_9_of_each_role_is_stopped_and_goes_on_to_its_end(tmp_path, start):
    run = WatchedRun(tmp_path / "run")
    launcher = start(run.workdir)
    checkpoint = run.workdir / "checkpoints" / "checkpoint"
    run.wait_for(
        lambda: run.learner("learner_steps") and checkpoint.exists() and run.acting() is not None,
        SECONDS,
        "learning, an episode, a checkpoint",
    )
    assert set(run.pids()) == PROCESSES

    # The actor acts with another incarnation. The replay is empty, and the learner waits until it
    # is filled to its minimum.
    incarnations = run.incarnations()
    run.kill("actor")
    rows = len(read_rows(run.workdir / "learner.csv"))
    run.wait_for(
        lambda: len(read_rows(run.workdir / "learner.csv")) > rows, SECONDS, "its steps are counted"
    )
    run.kill("replay")
    replay, seen = run.client_when_there("replay", SECONDS), []

    def has_sampled():
        seen.append(Counters.of(replay.call("store_counters")))
        return seen[-1].sampled

    run.wait_for(has_sampled, SECONDS, "the learner samples again")
    assert MIN_SIZE <= seen[-1].items
    assert all(one.sampled == 0 for one in seen if one.items < MIN_SIZE)
    run.wait_for(lambda: run.incarnations() - incarnations, SECONDS, "a new actor")
    saved_at = checkpoint.stat().st_mtime_ns
    run.wait_for(lambda: checkpoint.stat().st_mtime_ns > saved_at, SECONDS, "another checkpoint")

    # The learner goes on from its checkpoint, and the actors get its parameters.
    run.kill("learner")
    version, steps = run.acting()["parameter_version"].max(), run.learner("learner_steps")
    learner = ParameterClient(run.client_when_there("learner", SECONDS))
    resumed_at = int(re.search(r"resumed at learner step (\d+)", run.log("learner"))[1])
    assert resumed_at > 0
    run.wait_for(
        lambda: learner.latest().learner_steps > max(steps, resumed_at), SECONDS, "learning"
    )
    run.wait_for(
        lambda: run.acting()["parameter_version"].iloc[-1] > version,
        SECONDS,
        "acting with new parameters",
    )

    launcher.send_signal(signal.SIGINT)
    begin = time.monotonic()
    out, err = launcher.communicate(timeout=SECONDS)
    assert launcher.returncode == 130 and "Traceback" not in err, err
    assert "stopping: the learner saves what it has learnt" in err
    assert "stopped; to go on: " in out and " -m binaries.d4pg " in out.splitlines()[-1]
    assert time.monotonic() - begin < 55  # nobody had to be killed
    for role in ("actor", "replay", "learner"):
        assert f"{role} 0 ended with signal 9 (Killed)" in err
    assert "evaluator 0 ended" not in err and "MUJOCO" not in err
    assert not run.pids()
    run.check_files()
    run.check_accounts(in_order=1)
    assert outcomes(run) == [None, "stopped"]  # a start that was killed tells nothing
    stopped_at, wall_seconds = run.learner("learner_steps"), run.learner("wall_seconds")
    assert f"finished at learner step {stopped_at}" in run.log("learner")

    # It goes on where it was; where the memory lives is no part of the run.
    limit = stopped_at + 200
    out, err = start(run.workdir, "--replay=learner", f"--max_learner_steps={limit}").communicate(
        timeout=SECONDS
    )
    assert f"resumed at learner step {stopped_at}" in run.log("learner"), err
    result, picture = out.splitlines()
    assert re.fullmatch(
        rf"finished: evaluator return -?\d+\.\d \+- .* {limit:,} learner steps", result
    )
    assert picture == f"learning curve {run.workdir / 'learning_curve.png'}"
    assert (run.workdir / "learning_curve.png").read_bytes().startswith(b"\x89PNG")
    assert run.learner("learner_steps") == limit and run.learner("wall_seconds") > wall_seconds
    steps = read_rows(run.workdir / "learner.csv")["learner_steps"]
    assert (steps[steps.gt(0).idxmax() :] > 0).all()
    assert outcomes(run) == [None, "stopped", "finished"]
    assert not run.pids()
    run.check_files()
    run.check_accounts(in_order=2)

    # A second start of a finished run starts nothing.
    again, _ = start(run.workdir, f"--max_learner_steps={limit}").communicate(timeout=SECONDS)
    assert again == out and len(outcomes(run)) == 3

    # A checkpoint that is cut is one line, and nothing is overwritten.
    checkpoints = run.workdir / "checkpoints"
    newest = checkpoints / f"{checkpoint_lib.newest(checkpoints).name}.data-00000-of-00001"
    newest.write_bytes(newest.read_bytes()[:100])
    before = {path.name: path.read_bytes() for path in checkpoints.iterdir()}
    with forked() as fork:
        learner = RunByHand(fork, run.workdir, "binaries.d4pg", FLAGS, learner=1).start("learner")
        assert learner.wait(SECONDS) == 2 and "Traceback" not in learner.output
    (error,) = [line for line in learner.output.splitlines() if line.startswith("error: ")]
    for words in ("the checkpoint", "cannot be read", newest.name, "ckpt-"):
        assert words in error
    assert {path.name: path.read_bytes() for path in checkpoints.iterdir()} == before
