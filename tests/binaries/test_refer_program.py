"""ReF-ER from its binary: one process, and environments in other processes."""

import signal
import time

from launched import forked
import numpy as np
import pytest
from watched_run import RunByHand

from common.program.layouts import CENTRAL, ONE_PROCESS
from common.reporting.csv_rows import last_row, read_rows
import reproductions
from reproductions.refer.config import SETTINGS


@pytest.mark.parametrize(
    "setting, values, words",
    [
        ("vracer_refer", {"penalty_c": 0.0}, "penalty_c must be above 0"),
        ("vracer_refer", {"penalty_d": 1.0}, "penalty_d must be in .0, 1., is 1"),
        ("vracer_refer", {"min_replay_size": 100}, "batch_size must be at most min_replay_size"),
        ("vracer_refer", {"min_replay_size": 300_000}, "must be at most replay_capacity .262144"),
        ("vracer_refer", {"recurrent": True, "history": 300_000}, "history must be at most replay"),
        ("acer_lr1e-05", {"sampling": "rank"}, "sampling must be uniform for ACER, is rank"),
        ("naf_refer", {"advantage": "quadratic"}, "advantage must be none with the agent naf"),
        ("ddpg_refer", {"advantage": "gaussian"}, "advantage must be none with the agent ddpg"),
        ("vracer_refer", {"agent": "acer"}, "clipping must be False for ACER.*is True"),
    ],
)
def test_values_that_contradict_each_other(setting, values, words):
    with pytest.raises(ValueError, match=f"--config.*{words}"):
        SETTINGS.config_class(**SETTINGS.overrides[setting] | values)


# One process acts beside its updates and keeps exactly F.

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


def run_of(start, workdir, *flags, layout=ONE_PROCESS, **counts):
    flags = (*FLAGS, *flags)
    return RunByHand(start, workdir, "binaries.refer", flags, layout, learner=1, **counts)


@pytest.mark.parametrize("f, actors", [(0.2, 1), (4, 3)])
def test_after_the_prefill_every_update_has_its_f_steps(f, actors, tmp_path):
    flags = (f"--config.steps_per_update={f}", f"--num_actors={actors}", "--evaluation_steps=50")
    flags += ("--config.updates_per_call=1", "--max_learner_steps=200")
    with forked() as start:
        run = run_of(start, tmp_path / "run", *flags)
        run.ends([run.start("learner")], SECONDS)
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


def test_a_killed_run_without_its_replay_fills_it_again_and_goes_on(tmp_path):
    flags = ("--config.replay_capacity=2000", "--max_learner_steps=1200", "--nocheckpoint_replay")
    flags += ("--config.updates_per_call=10", "--checkpoint_seconds=0.2", "--evaluation_steps=300")
    with forked() as start:
        run = run_of(start, tmp_path / "run", *flags)
        program = run.start("learner")
        run.wait_for(
            lambda: (last_row(run.workdir / "evaluator.csv") or {}).get("learner_steps", 0) >= 300,
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
    assert rows["learner_steps"].tolist() == [0, 300, 600, 900, 1200]
    log = "".join(path.read_text() for path in tmp_path.glob("learner-*.log"))
    assert f"the replay is empty: learning waits until it has {MIN_SIZE} items" in log
    assert np.isfinite(run.updates()[["beta", "kl_divergence", "value_loss"]].iloc[-1]).all()
    policy = reproductions.load_policy(run.workdir)
    assert policy.learner_steps == 1200
    assert policy(np.zeros(4, np.float32)).shape == (1,)


# The learner acts, --role=actor steps environments.

ACTORS = 3
CENTRAL_FLAGS = (f"--num_actors={ACTORS}", "--config.replay_capacity=100000")


def test_two_workers_beside_none_and_equal_seeds_give_equal_runs(tmp_path):
    flags = (*CENTRAL_FLAGS, "--evaluation_steps=100", "--max_actor_steps=600")
    flags += ("--config.updates_per_call=4", "--seed=5")
    with forked() as start:
        alone = run_of(start, tmp_path / "alone", *flags)
        alone.ends([alone.start("learner")], SECONDS)
        flags += ("--actor_processes=2",)
        central = run_of(start, tmp_path / "central", *flags, layout=CENTRAL, actor=2)
        tasks = (("learner",), ("actor", 0), ("actor", 1))
        central.ends([central.start(*task) for task in tasks], SECONDS)
    for name in ("evaluator.csv", "acting.csv"):
        first, second = (
            read_rows(run.workdir / name).drop(columns=_OF_THE_CLOCK, errors="ignore")
            for run in (alone, central)
        )
        assert len(first) and first.equals(second)
    # When a row of learner.csv is due depends on the time, so its averages do; what they are of is
    # in the checkpoint: beta, the scales, the networks and their moments.
    first, second = alone.saved(), central.saved()
    names = [name for name in first if name.startswith("learner/")]
    assert "learner/beta" in names
    for name in names:
        np.testing.assert_array_equal(first[name], second[name], name)


def test_after_kill_9_of_a_worker_f_is_exact_and_no_part_of_an_episode_is_stored(tmp_path):
    flags = (*CENTRAL_FLAGS, "--evaluation_steps=50", "--config.updates_per_call=1")
    with forked() as start:
        flags += ("--actor_processes=2",)
        run = run_of(start, tmp_path / "run", *flags, layout=CENTRAL, actor=2)
        learner, first, second = (
            run.start(*task) for task in (("learner",), ("actor", 0), ("actor", 1))
        )

        def steps():
            return (last_row(run.workdir / "evaluator.csv") or {}).get("learner_steps", 0)

        def episodes():
            return int((read_rows(run.workdir / "acting.csv")["actor"] == 0).sum())

        run.wait_for(lambda: steps() >= 100, SECONDS, "updates")
        first.stop(signal.SIGKILL)
        first.wait(SECONDS)
        before, at = episodes(), steps()
        run.wait_for(lambda: steps() >= at + 50, SECONDS, "updates with one worker")
        assert episodes() == before  # of the first worker's only actor
        first = run.start("actor", 0)
        run.wait_for(lambda: episodes() > before, SECONDS, "an episode of the new worker")
        at = steps()
        run.wait_for(lambda: steps() >= at + 50, SECONDS, "updates with both")
        run.stops([learner, first, second], SECONDS)
    assert "lost the environments of actors 0 to 0 at " in learner.output
    assert " and their episodes: " in learner.output
    rows = read_rows(run.workdir / "evaluator.csv")[1:]
    ahead = rows["actor_steps"] - MIN_SIZE - rows["learner_steps"]
    assert (0 <= ahead).all() and (ahead < ACTORS).all()
    rows = read_rows(run.workdir / "acting.csv")
    assert set(rows["actor"]) == set(range(ACTORS))
    assert (rows["episode_return"] == rows["episode_length"]).all()
    # What is stored are the episodes that have ended, but for some of the last timestep.
    lacking = rows["episode_length"].sum() - last_row(run.workdir / "learner.csv")["replay_size"]
    assert 0 <= lacking <= rows["episode_length"][-ACTORS:].sum()
