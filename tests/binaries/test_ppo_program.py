"""Both PPOs from their binaries: flags, one process, and actors of which one dies."""

import re
import signal

from launched import forked
import numpy as np
import pytest
from refusals import check_refusal
from watched_run import RunByHand

from common.program.layouts import LEARNER_AND_ACTORS, ONE_PROCESS
from common.reporting.csv_rows import last_row, read_rows
import reproductions

CHEETAH = "--environment=gym:HalfCheetah-v4"
FLAT = "needs flat observations and continuous actions"


@pytest.mark.parametrize(
    "program, flags, words",
    [
        ("refer_ppo", ["--environment=atari:pong"], [FLAT]),
        ("d4pg_ppo", ["--environment=atari:pong"], [FLAT]),
        ("d4pg_ppo", [CHEETAH, "--replay=learner"], ["--replay", "a learner and actors"]),
        ("d4pg_ppo", [CHEETAH, "--config.n_step=5"], ["n_step"]),
        ("d4pg_ppo", [CHEETAH, "--config.terrain_sizes=8"], ["no heights of a terrain"]),
        ("d4pg_ppo", [CHEETAH, "--config.kl_factor=1"], ["--config.kl_factor", "above 1"]),
        (
            "d4pg_ppo",
            [CHEETAH, "--config.single_process", "--actor_processes=2"],
            ["--actor_processes", "one process"],
        ),
        ("refer_ppo", [CHEETAH, "--role=actor"], ["--role=actor", "one process"]),
        (
            "refer_ppo",
            [CHEETAH, "--config.horizon=1000"],
            ["--config.horizon must be a multiple of batch_size (64), is 1000"],
        ),
    ],
    ids=lambda value: value[-1] if isinstance(value, list) and value[0].startswith("-") else "",
)
def test_a_bad_flag(program, flags, words, tmp_path):
    check_refusal(f"binaries.{program}", flags, words, tmp_path)


SECONDS = 600
"""Patience with a busy machine."""
_OF_THE_CLOCK = ["wall_seconds", "incarnation", "parameter_version"]
"""Columns of times, or of numbers made from the time."""
HORIZON = 128
ONE = (
    "--environment=gym:InvertedPendulum-v4",
    "--learner_threads=1",
    "--evaluation_episodes=1",
    "--final_episodes=3",
    "--config.hidden_size=8",
    f"--config.horizon={HORIZON}",
    "--config.num_epochs=2",
)
UNROLLS = 8
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


def in_one_process(start, workdir, *flags):
    run = RunByHand(
        start, workdir, "binaries.refer_ppo", (*ONE, *flags), layout=ONE_PROCESS, learner=1
    )
    run.ends([run.start("learner")], SECONDS)
    return run


def test_equal_seeds_give_equal_files_and_a_cut_run_goes_on(tmp_path):
    flags = ("--evaluation_steps=8", "--seed=5")
    with forked() as start:
        runs = []
        for number in range(2):
            in_one_process(start, tmp_path / str(number), *flags, "--max_learner_steps=16")
            directory = tmp_path / str(number)
            runs.append(in_one_process(start, directory, *flags, "--max_learner_steps=32"))
    for name in ("evaluator.csv", "acting.csv"):
        first, second = (
            read_rows(run.workdir / name).drop(columns=_OF_THE_CLOCK, errors="ignore")
            for run in runs
        )
        assert len(first) and first.equals(second)
    assert (read_rows(runs[0].workdir / "acting.csv")["parameter_age_steps"] >= 0).all()
    first, second = (run.saved() for run in runs)
    names = [name for name in first if name.startswith("learner/")]
    assert "learner/reward_scale" in names and set(first) == set(second)
    for name in names:
        np.testing.assert_array_equal(first[name], second[name], name)
    row = last_row(runs[0].workdir / "learner.csv")
    # Four updates of 64 steps a rollout.
    assert row["learner_steps"] == 32 and row["actor_steps"] == 8 * HORIZON
    policy = reproductions.load_policy(runs[0].workdir)
    assert policy.learner_steps == 32
    assert policy(np.ones((3, 4), np.float32)).shape == (3, 1)


@pytest.mark.timeout(3600)
def test_a_killed_actor_or_learner_stalls_no_ppo(tmp_path):
    with forked() as start:
        run = RunByHand(
            start,
            tmp_path / "run",
            "binaries.d4pg_ppo",
            ROLES,
            layout=LEARNER_AND_ACTORS,
            learner=1,
            actor=2,
        )
        flags = "--max_learner_steps=400", "--checkpoint_seconds=0.2"
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
    assert row["learner_steps"] == 400
    horizon = UNROLLS * 50
    # A rollout needs two updates, some were made twice. What was sent twice, or with another
    # version than the learner's, was dropped. Nobody repeats the counts of the killed actor, which
    # made half of the rollouts before, since the killed learner's last row.
    lost = int(resumed[1]) // 2 * horizon // 2
    assert 199 * horizon - lost <= row["actor_steps"] < 250 * horizon
    policy = reproductions.load_policy(run.workdir)
    assert policy(np.ones((3, 4), np.float32)).shape == (3, 1)
