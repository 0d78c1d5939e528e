"""Both PPOs from their binaries: one process, and actors of which one dies."""

import re
import signal

from launched import forked
import numpy as np
import pytest
from watched_run import RunByHand

from common.program.layouts import LEARNER_AND_ACTORS, ONE_PROCESS
from common.reporting.csv_rows import last_row, read_rows
import reproductions

SECONDS = 600
"""Patience with a busy machine."""
HORIZON = 128
ONE = (
    "--environment=gym:InvertedPendulum-v4",
    "--learner_threads=1",
    "--evaluation_episodes=1",
    "--final_episodes=3",
    "--evaluation_steps=8",
    "--config.hidden_size=8",
    f"--config.horizon={HORIZON}",
    "--config.num_epochs=2",
)
UNROLLS, STEPS = 8, 80
ROLES = (
    "--environment=gym:InvertedPendulum-v4",
    "--num_actors=4",
    "--actor_processes=2",
    "--learner_threads=1",
    "--evaluation_episodes=1",
    f"--config.num_unrolls={UNROLLS}",
    "--config.num_epochs=2",
    "--config.policy_sizes=8,8",
    "--config.critic_sizes=8,8",
)


def test_a_run_of_one_process_goes_on(tmp_path):
    with forked() as start:
        program = start, tmp_path / "run", "binaries.refer_ppo", ONE, ONE_PROCESS
        run = RunByHand(*program, learner=1)
        for limit in ("--max_learner_steps=16", "--max_learner_steps=32"):
            run.ends([run.start("learner", 0, limit)], SECONDS)
    rows = read_rows(run.workdir / "evaluator.csv")
    assert rows["learner_steps"].tolist() == [0, 8, 16, 24, 32]
    assert rows["episodes"].tolist() == [1, 1, 3, 1, 3]
    assert (read_rows(run.workdir / "acting.csv")["parameter_age_steps"] >= 0).all()
    row = last_row(run.workdir / "learner.csv")
    # Four updates of 64 steps a rollout.
    assert row["learner_steps"] == 32 and row["actor_steps"] == 8 * HORIZON
    assert "learner/reward_scale" in run.saved()
    policy = reproductions.load_policy(run.workdir)
    assert policy.learner_steps == 32
    assert policy(np.ones((3, 4), np.float32)).shape == (3, 1)


@pytest.mark.timeout(3600)
def test_a_killed_actor_or_learner_stalls_no_ppo(tmp_path):
    with forked() as start:
        program = start, tmp_path / "run", "binaries.d4pg_ppo", ROLES, LEARNER_AND_ACTORS
        run = RunByHand(*program, learner=1, actor=2)
        flags = f"--max_learner_steps={STEPS}", "--checkpoint_seconds=0.2"
        tasks = [("learner", 0), ("actor", 0), ("actor", 1), ("evaluator", 0)]
        programs = {task: run.start(*task, *flags) for task in tasks}
        run.wait_for(lambda: len(run.incarnations()) == 2, SECONDS, "both act")
        run.wait_for(lambda: (run.learner("learner_steps") or 0) >= 4, SECONDS, "it learns")
        checkpoint = run.workdir / "checkpoints" / "checkpoint"
        run.wait_for(checkpoint.exists, SECONDS, "a checkpoint")
        for task in (("actor", 1), ("learner", 0)):
            programs[task].stop(signal.SIGKILL)
            assert programs[task].wait(SECONDS) == -signal.SIGKILL
            programs[task] = run.start(*task, *flags)
        run.ends(programs.values(), SECONDS)
    resumed = re.search(r"resumed at learner step ([1-9]\d*)", programs["learner", 0].output)
    assert resumed
    run.check_files()
    row = last_row(run.workdir / "learner.csv")
    assert row["learner_steps"] == STEPS
    horizon = UNROLLS * 50
    # A rollout needs two updates, some were made twice. What was sent twice, or with another
    # version than the learner's, was dropped. Nobody repeats the counts of the killed actor, which
    # made half of the rollouts before, since the killed learner's last row.
    lost = int(resumed[1]) // 2 * horizon // 2
    assert (STEPS // 2 - 1) * horizon - lost <= row["actor_steps"] < STEPS // 2 * horizon * 1.25
    policy = reproductions.load_policy(run.workdir)
    assert policy(np.ones((3, 4), np.float32)).shape == (3, 1)
