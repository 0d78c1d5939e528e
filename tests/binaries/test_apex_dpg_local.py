"""Ape-X DPG in its roles, with a replay of two shards, to the end of a short run."""

import pathlib
import re
import subprocess
import sys

from watched_run import WatchedRun

from common.reporting.csv_rows import last_row

ROOT = pathlib.Path(__file__).parents[2]
STEPS = 200
FLAGS = (
    "--environment=control:cartpole:swingup",
    "--num_actors=2",
    "--actor_processes=2",
    "--replay_shards=2",
    "--learner_threads=1",
    "--evaluation_episodes=1",
    "--evaluation_seconds=2",
    "--config.policy_sizes=(16,16)",
    "--config.critic_sizes=(16,16)",
    "--config.batch_size=32",
    "--config.min_replay_size=400",
    "--config.replay_capacity=800",
    "--config.samples_per_insert=4",
    "--config.updates_per_call=4",
    "--config.removal_period=20",
    f"--max_learner_steps={STEPS}",
)


def test_a_run_in_roles_ends_with_its_accounts_in_order(tmp_path):
    workdir = tmp_path / "run"
    done = subprocess.run(
        [sys.executable, "-m", "binaries.apex_dpg", *FLAGS, f"--workdir={workdir}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(rf"^evaluator return .* {STEPS:,} learner steps$", done.stdout, re.M)
    row = last_row(workdir / "learner.csv")
    assert row["learner_steps"] == STEPS
    # Removal by priority, every 20 steps, keeps what 400 + 200 * 32 / 4 transitions would exceed.
    assert row["actor_steps"] > 1_500 and 800 <= row["replay_size"] < 1_500
    run = WatchedRun(workdir)
    assert not run.pids()
    run.check_files()
    run.check_accounts(in_order=2)
