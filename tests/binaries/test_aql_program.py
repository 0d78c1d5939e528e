"""AQL from its binary: actors with replays and a learner, through the death of each."""

import re
import signal

from launched import forked
import numpy as np
import pytest
from watched_run import RunByHand

from common.program.layouts import ACTORS_WITH_REPLAY, ONE_PROCESS_WITH_REPLAYS
from common.reporting.csv_rows import last_row, read_rows
import reproductions

BATCH, LENGTH, REPLAYED = 4, 5, 2
EPISODE_STEPS = 100
SMALL = (
    "--environment=python:reproductions.aql.match:make_5",
    "--num_actors=4",
    "--evaluation_episodes=1",
    f"--config.batch_size={BATCH}",
    f"--config.unroll_length={LENGTH}",
    f"--config.replayed_unrolls={REPLAYED}",
    "--config.replay_capacity=200",
    "--config.queue_capacity=8",
    "--config.num_proposal_samples=5",
    "--config.num_uniform_samples=5",
    "--config.state_size=8",
    "--config.action_size=8",
    "--config.joint_sizes=8,8",
    "--config.proposal_sizes=8,8",
)
ROLES = (*SMALL, "--actor_processes=2", "--learner_threads=1", "--checkpoint_seconds=2")
SECONDS = 600
"""Patience with a busy machine."""
_OF_THE_CLOCK = ["wall_seconds", "incarnation", "parameter_version"]
"""Columns of times, or of numbers made from the time."""


def ratio(row):
    """Timesteps learnt from, of those that were accepted with what was replayed."""
    timesteps = row["actor_steps"] * (EPISODE_STEPS + 1) / EPISODE_STEPS
    return row["learner_steps"] * BATCH * LENGTH / ((1 + REPLAYED) * timesteps)


@pytest.mark.timeout(3600)
def test_the_ratio_holds_and_an_actor_and_the_learner_may_die(tmp_path):
    with forked() as start:
        run = RunByHand(
            *(start, tmp_path / "run", "binaries.aql", ROLES),
            **{"layout": ACTORS_WITH_REPLAY, "learner": 1, "actor": 2},
        )
        limit = "--max_learner_steps=800"
        tasks = [("learner", 0), ("actor", 0), ("actor", 1), ("evaluator", 0)]
        programs = {task: run.start(*task, limit) for task in tasks}

        def kill(*task):
            programs[task].stop(signal.SIGKILL)
            assert programs[task].wait(SECONDS) == -signal.SIGKILL

        run.wait_for(lambda: len(run.incarnations()) == 2, SECONDS, "both act")
        kill("actor", 1)
        programs["actor", 1] = run.start("actor", 1, limit)
        run.wait_for(lambda: len(run.incarnations()) == 3, SECONDS, "the actor acts anew")
        run.wait_for(lambda: run.learner("learner_steps") > 300, SECONDS, "updates")
        row = last_row(run.workdir / "learner.csv")
        assert ratio(row) == pytest.approx(1, abs=0.05)
        checkpoint = run.workdir / "checkpoints" / "checkpoint"
        run.wait_for(checkpoint.exists, SECONDS, "a checkpoint")

        # The actors wait, and go on with the replays that they have.
        kill("learner", 0)
        before = len(read_rows(run.workdir / "learner.csv"))
        programs["learner", 0] = run.start("learner", 0, limit)
        run.ends(programs.values(), SECONDS)
    assert " 800 learner steps" in programs["evaluator", 0].output
    run.check_files()
    rows = read_rows(run.workdir / "learner.csv")
    assert rows["learner_steps"][before] > 0  # from its checkpoint
    assert rows["learner_steps"].iloc[-1] == 800 and rows["actor_steps"].is_monotonic_increasing
    assert rows["samples_per_insert"].dropna().median() == pytest.approx(1 + REPLAYED, abs=0.3)
    assert len(read_rows(run.workdir / "lives.csv")) == 3  # no actor was started again
    for path in tmp_path.glob("actor-*.log"):
        (accepted,) = re.findall(r"(\d+) accepted", path.read_text())
        assert int(accepted) in run.accounts().values()
    acting = read_rows(run.workdir / "acting.csv")
    assert set(acting["actor"]) == set(range(4))
    metrics = ["value_loss", "proposal_loss", "entropy"]
    assert np.isfinite(run.updates()[metrics].iloc[-1]).all()
    policy = reproductions.load_policy(run.workdir)
    assert policy.learner_steps == 800
    assert policy(np.ones((3, 5), np.float32)).shape == (3, 5)


def test_equal_seeds_give_equal_files_in_one_process(tmp_path):
    flags = (
        *(*SMALL, "--config.single_process", "--learner_threads=1", "--evaluation_steps=40"),
        *("--final_episodes=2", "--max_learner_steps=120"),
    )
    with forked() as start:
        runs = []
        for name in ("first", "second"):
            program = start, tmp_path / name, "binaries.aql", flags, ONE_PROCESS_WITH_REPLAYS
            run = RunByHand(*program, learner=1)
            runs.append((run, run.start("learner")))
        for run, program in runs:
            run.ends([program], SECONDS)
    first, second = (
        [
            read_rows(run.workdir / name).drop(columns=_OF_THE_CLOCK, errors="ignore")
            for name in ("evaluator.csv", "acting.csv")
        ]
        for run, _ in runs
    )
    for table, again in zip(first, second):
        assert len(table) and table.equals(again)
    assert first[1]["episode_return"].nunique() > 5
    assert first[0]["learner_steps"].tolist() == [0, 40, 80, 120]
    assert first[0]["episodes"].tolist() == [1, 1, 1, 2]
    assert ratio(last_row(runs[0][0].workdir / "learner.csv")) == pytest.approx(1, abs=0.05)
