"""Ape-X DQN in its roles, two of each kind that there may be several of, through kills."""

import os
import re
import signal
import subprocess
import sys

from launched import ROOT, launched
import pytest
from watched_run import WatchedRun

from common.replay.memory import Statistics
from common.reporting.csv_rows import read_rows

FLAGS = (
    "--environment=python:sides_task:make_long",
    "--num_actors=4",
    "--actor_processes=2",
    "--learner_threads=1",
    "--evaluation_episodes=1",
    "--evaluation_seconds=2",
    "--checkpoint_seconds=2",
    "--config.batch_size=16",
    "--config.min_replay_size=400",
    "--config.replay_capacity=3000",
    "--config.samples_per_insert=4",
    "--config.send_batch=20",
    "--config.actor_period=20",
    "--config.target_period=50",
    "--config.prefetch=4",
)
SECONDS = 300
"""Of patience with a busy machine; nothing takes so long on an idle one."""


@pytest.fixture
def start():
    """Starts launchers."""
    paths = os.pathsep.join([str(ROOT / "tests/learning"), os.environ.get("PYTHONPATH", "")])
    with launched() as program:
        yield lambda workdir, *flags, output=subprocess.PIPE: program(
            "-m",
            "binaries.apex_dqn",
            *FLAGS,
            f"--workdir={workdir}",
            *flags,
            env={**os.environ, "PYTHONPATH": paths},
            stdout=output,
            stderr=subprocess.STDOUT,
        )


def statistics(client):
    return Statistics.of(client.call("replay_statistics"))


@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
@pytest.mark.timeout(1800)
def test_transitions_add_up_through_kills_of_an_actor_a_shard_and_the_learner(tmp_path, start):
    run = WatchedRun(tmp_path / "run")
    said = tmp_path / "said.txt"
    with open(said, "w", encoding="utf-8") as file:
        launcher = start(run.workdir, "--replay_shards=2", output=file)
    checkpoint = run.workdir / "checkpoints" / "checkpoint"
    run.wait_for(
        lambda: (
            run.learner("learner_steps")
            and checkpoint.exists()
            and run.acting() is not None
            and set(run.acting()["actor"]) == {0, 1, 2, 3}
        ),
        SECONDS,
        "learning, an episode of each actor, a checkpoint",
    )
    assert {name for name in run.pids() if name[:5] in ("repla", "actor")} == {
        "replay-0",
        "replay-1",
        "actor-0",
        "actor-1",
    }
    first, second = (run.client_when_there("replay", SECONDS, shard) for shard in range(2))
    run.wait_for(
        lambda: statistics(first).sampled and statistics(second).sampled,
        SECONDS,
        "the learner draws from both shards",
    )

    # An actor process: another life of its two actors goes on.
    lives = set(run.acting()["incarnation"])
    run.kill("actor", 1)

    def new_lives():
        rows = run.acting()
        return set(rows["actor"][~rows["incarnation"].isin(lives)])

    run.wait_for(new_lives, SECONDS, "episodes of a new life")
    assert new_lives() <= {2, 3}

    # A shard: a new one, of which the learner draws as soon as it has something.
    kept = statistics(first)
    run.kill("replay", 1)
    second = run.client_when_there("replay", SECONDS, 1)
    run.wait_for(
        lambda: statistics(second).sampled, SECONDS, "the learner draws from the new shard"
    )
    assert statistics(first).inserted > kept.inserted > 0  # the other one went on
    saved_at = checkpoint.stat().st_mtime_ns
    run.wait_for(lambda: checkpoint.stat().st_mtime_ns > saved_at, SECONDS, "another checkpoint")

    # The learner: goes on from its checkpoint.
    steps = run.learner("learner_steps")
    run.kill("learner")
    run.wait_for(
        lambda: (
            run.learner("learner_steps") > steps and "resumed at learner step" in run.log("learner")
        ),
        SECONDS,
        "learning",
    )
    assert int(re.search(r"resumed at learner step (\d+)", run.log("learner"))[1]) > 0

    # The launcher's lines come seconds apart.
    names = ("actor 1", "replay 1", "learner 0")
    run.wait_for(
        lambda: all(f"{name} restarted 1x" in said.read_text() for name in names),
        SECONDS,
        "the launcher says who was restarted",
    )
    launcher.send_signal(signal.SIGTERM)
    launcher.wait(SECONDS)
    output = said.read_text()
    assert launcher.returncode == 0 and "Traceback" not in output, output
    assert "actor 0 restarted" not in output and "replay 0 restarted" not in output
    assert not run.pids()
    run.check_files()
    run.check_accounts(in_order=2)

    # It goes on to its end with the memory in the learner, which draws and decodes ahead there.
    limit = run.learner("learner_steps") + 300
    rows_before = len(read_rows(run.workdir / "learner.csv"))
    output = start(run.workdir, "--replay=learner", f"--max_learner_steps={limit}").communicate(
        timeout=SECONDS
    )[0]
    assert re.search(rf"^evaluator return .* {limit:,} learner steps$", output, re.M), output
    assert "waiting for the last evaluation" in run.log("learner")
    lags = read_rows(run.workdir / "learner.csv")["priority_lag_steps"]
    assert lags[rows_before:].max() > 1
    assert not run.pids()
    run.check_files()
    run.check_accounts(in_order=4)
