"""DDPG from its binary: one process acts and learns in turns, another one evaluates."""

import os
import pathlib
import subprocess
import sys

import pytest

from common.cluster.topology import Topology
from common.reporting.csv_rows import last_row, read_rows

ROOT = pathlib.Path(__file__).parents[2]
BATCH, MIN_SIZE, STEPS = 16, 300, 1_000
FLAGS = (
    "--setting=ddpg",
    "--environment=control:cartpole:swingup",
    "--learner_threads=1",
    "--evaluation_episodes=1",
    "--evaluation_seconds=1",
    "--config.policy_sizes=(16,16)",
    "--config.critic_sizes=(16,16)",
    f"--config.batch_size={BATCH}",
    f"--config.samples_per_insert={BATCH}",
    f"--config.min_replay_size={MIN_SIZE}",
)


def run(workdir, *flags, **variables):
    return subprocess.run(
        [sys.executable, "-m", "binaries.d4pg", *FLAGS, f"--workdir={workdir}", *flags],
        cwd=ROOT,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )


def test_acts_and_learns_in_turns_and_goes_on(tmp_path):
    workdir = tmp_path / "run"
    done = run(workdir, f"--max_learner_steps={STEPS}")
    assert done.returncode == 0, done.stderr
    assert f"{STEPS:,} learner steps" in done.stdout
    assert {path.name for path in (workdir / "logs").iterdir()} == {
        "learner-0.log",
        "evaluator-0.log",
    }
    rows = read_rows(workdir / "learner.csv")
    # An update for each step beyond the minimum, ahead by two calls of one update at most.
    for inserted, learned in zip(rows["actor_steps"], rows["learner_steps"]):
        if learned:
            assert 0 <= learned - (inserted - MIN_SIZE) <= 2
    row = last_row(workdir / "learner.csv")
    assert row["learner_steps"] == STEPS and row["priority_lag_steps"] == 1
    assert row["actor_steps"] == row["replay_size"]
    episodes = read_rows(workdir / "acting.csv")
    assert set(episodes["actor"]) == {0} and set(episodes["episode_length"]) == {1_000}
    evaluation = last_row(workdir / "evaluator.csv")
    assert evaluation["setting"] == "ddpg" and evaluation["learner_steps"] == STEPS

    again = run(workdir, f"--max_learner_steps={STEPS + 100}")
    assert again.returncode == 0, again.stderr
    later = last_row(workdir / "learner.csv")
    assert later["learner_steps"] == STEPS + 100
    assert later["actor_steps"] - row["actor_steps"] == later["replay_size"] >= MIN_SIZE


@pytest.mark.parametrize("role", ["actor", "replay"])
def test_other_roles_are_refused(tmp_path, role):
    topology = Topology.local({"learner": 1, "replay": 1, "actor": 1})
    done = run(
        tmp_path / "run",
        f"--role={role}",
        TF_CONFIG=topology.to_tf_config(role, 0),
        REPLAY_RL_TOKEN="the token of this run",
    )
    assert done.returncode == 2
    assert "one process" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr and not (tmp_path / "run").exists()
