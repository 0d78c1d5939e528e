"""ReF-ER from its binary: one process acts beside its updates and keeps exactly F."""

import signal
import time

from by_hand import RunByHand
from launched import forked
import numpy as np
import pytest

from common.program.layouts import ONE_PROCESS
from common.reporting.csv_rows import last_row, read_rows
import reproductions

MIN_SIZE = 300
FLAGS = (
    "--environment=gym:InvertedPendulum-v4",
    "--learner_threads=1",
    "--evaluation_episodes=1",
    "--final_episodes=3",
    "--config.hidden_size=8",
    "--config.batch_size=16",
    f"--config.min_replay_size={MIN_SIZE}",
    "--config.replay_capacity=500",
)
SECONDS = 600
"""Patience with a busy machine."""
_OF_THE_CLOCK = ["wall_seconds", "incarnation", "parameter_version"]
"""Columns of times, or of numbers made from the time."""


def finished(start, workdir, *flags):
    """A run that has ended."""
    run = RunByHand(
        start, workdir, "binaries.refer", (*FLAGS, *flags), layout=ONE_PROCESS, learner=1
    )
    run.ends([run.start("learner")], SECONDS)
    return run


@pytest.mark.parametrize("f, actors", [(0.2, 1), (4, 1), (1, 3)])
def test_after_the_prefill_every_update_has_its_f_steps(f, actors, tmp_path):
    with forked() as start:
        run = finished(
            start,
            tmp_path / "run",
            f"--config.steps_per_update={f}",
            f"--num_actors={actors}",
            "--config.updates_per_call=1",
            "--evaluation_steps=50",
            "--max_learner_steps=200",
        )
    rows = read_rows(run.workdir / "evaluator.csv")
    assert rows["learner_steps"].tolist() == [0, 50, 100, 150, 200]
    rows = rows[1:]
    ahead = rows["actor_steps"] - MIN_SIZE - f * rows["learner_steps"]
    assert (0 <= ahead.round(6)).all() and (ahead < max(1, actors)).all()
    rows = read_rows(run.workdir / "acting.csv")
    assert set(rows["actor"]) == set(range(actors))
    # Actions have the newest parameters when their call begins, and calls of one update.
    assert rows["parameter_age_steps"].max() == 0
    assert (
        rows["episode_length"].sum() <= read_rows(run.workdir / "learner.csv")["actor_steps"].max()
    )


@pytest.mark.parametrize("setting", ["vracer_refer", "acer_lr0.0001"])
def test_equal_seeds_give_equal_files(setting, tmp_path):
    flags = ("--evaluation_steps=100", "--max_actor_steps=600", "--config.updates_per_call=4")
    flags = (f"--setting={setting}", *flags)
    with forked() as start:
        runs = [
            finished(start, tmp_path / str(number), *flags, f"--seed={seed}")
            for number, seed in enumerate((5, 5))
        ]
    for name in ("evaluator.csv", "acting.csv"):
        first, second = (
            read_rows(run.workdir / name).drop(columns=_OF_THE_CLOCK, errors="ignore")
            for run in runs
        )
        assert len(first) and first.equals(second)
    # When a row of learner.csv is due depends on the time, so its averages do; what they are of is
    # in the checkpoint: beta, the scales, the networks and their moments.
    first, second = (run.saved() for run in runs)
    names = [name for name in first if name.startswith("learner/")]
    assert "learner/beta" in names and set(first) == set(second)
    for name in names:
        np.testing.assert_array_equal(first[name], second[name], name)
    row = last_row(runs[0].workdir / "learner.csv")
    # The limit is noticed after a call, beside which the steps for the next one are executed.
    assert (row["actor_steps"], row["learner_steps"]) == (600, 300)


@pytest.mark.parametrize(
    "setting, metric", [("vracer_refer", "value_loss"), ("acer_lr1e-05", "critic_loss")]
)
def test_a_killed_run_without_its_replay_fills_it_again_and_goes_on(setting, metric, tmp_path):
    flags = (
        *(f"--setting={setting}", "--config.replay_capacity=2000"),
        *("--max_learner_steps=2400", "--config.updates_per_call=10"),
        *("--checkpoint_seconds=0.2", "--evaluation_steps=600", "--nocheckpoint_replay"),
    )
    with forked() as start:
        run = RunByHand(
            start,
            tmp_path / "run",
            "binaries.refer",
            (*FLAGS, *flags),
            layout=ONE_PROCESS,
            learner=1,
        )
        program = run.start("learner")
        run.wait_for(
            lambda: (last_row(run.workdir / "evaluator.csv") or {}).get("learner_steps", 0) >= 600,
            SECONDS,
            "an evaluation",
        )
        checkpoint, evaluated = run.workdir / "checkpoints" / "checkpoint", time.time()
        run.wait_for(
            lambda: checkpoint.exists() and checkpoint.stat().st_mtime > evaluated,
            SECONDS,
            "a save after it",
        )
        program.stop(signal.SIGKILL)
        program.wait(SECONDS)
        run.ends([run.start("learner")], SECONDS)
    rows = read_rows(run.workdir / "evaluator.csv")
    assert rows["learner_steps"].tolist() == [0, 600, 1200, 1800, 2400]
    log = "".join(path.read_text() for path in tmp_path.glob("learner-*.log"))
    assert f"the replay is empty: it is filled with {MIN_SIZE} items first" in log
    assert np.isfinite(run.updates()[["beta", "kl_divergence", metric]].iloc[-1]).all()
    policy = reproductions.load_policy(run.workdir)
    assert policy.learner_steps == 2400
    assert policy(np.zeros(4, np.float32)).shape == (1,)
