"""ReF-ER with environments in other processes: the learner acts, --role=actor steps."""

import signal

from by_hand import RunByHand
from launched import forked

from common.program.layouts import CENTRAL, ONE_PROCESS
from common.reporting.csv_rows import last_row, read_rows

MIN_SIZE, ACTORS = 300, 3
FLAGS = (
    "--environment=gym:InvertedPendulum-v4",
    f"--num_actors={ACTORS}",
    "--learner_threads=1",
    "--evaluation_episodes=1",
    "--config.hidden_size=8",
    "--config.batch_size=16",
    f"--config.min_replay_size={MIN_SIZE}",
    "--config.replay_capacity=100000",
)
SECONDS = 600
"""Patience with a busy machine."""
_OF_THE_CLOCK = ["wall_seconds", "incarnation", "parameter_version"]


def test_two_workers_beside_none_and_equal_seeds_give_equal_runs(tmp_path):
    flags = (*FLAGS, "--evaluation_steps=100", "--max_actor_steps=600")
    flags += ("--config.updates_per_call=4", "--seed=5")
    with forked() as start:
        alone = RunByHand(
            start, tmp_path / "alone", "binaries.refer", flags, layout=ONE_PROCESS, learner=1
        )
        alone.ends([alone.start("learner")], SECONDS)
        central = RunByHand(
            *(start, tmp_path / "central", "binaries.refer", (*flags, "--actor_processes=2")),
            **{"layout": CENTRAL, "learner": 1, "actor": 2},
        )
        programs = [central.start("learner"), central.start("actor", 0), central.start("actor", 1)]
        central.ends(programs, SECONDS)
    for name in ("evaluator.csv", "acting.csv"):
        first, second = (
            read_rows(run.workdir / name).drop(columns=_OF_THE_CLOCK, errors="ignore")
            for run in (alone, central)
        )
        assert len(first) and first.equals(second)
    assert "2 workers have waited for the slowest in" in programs[0].output


def test_after_kill_9_of_a_worker_f_is_exact_and_no_part_of_an_episode_is_stored(tmp_path):
    flags = (*FLAGS, "--evaluation_steps=50", "--config.updates_per_call=1", "--actor_processes=2")
    with forked() as start:
        run = RunByHand(
            *(start, tmp_path / "run", "binaries.refer", flags),
            **{"layout": CENTRAL, "learner": 1, "actor": 2},
        )
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
        run.wait_for(lambda: steps() >= at + 100, SECONDS, "updates with one worker")
        assert episodes() == before  # of the first worker's only actor
        first = run.start("actor", 0)
        run.wait_for(lambda: episodes() > before, SECONDS, "an episode of the new worker")
        at = steps()
        run.wait_for(lambda: steps() >= at + 100, SECONDS, "updates with both")
        run.stops([learner, first, second], SECONDS)
    assert "environments of actors 0 to 0 at " in learner.output
    assert " are gone with their episodes: " in learner.output
    rows = read_rows(run.workdir / "evaluator.csv")[1:]
    ahead = rows["actor_steps"] - MIN_SIZE - rows["learner_steps"]
    assert (0 <= ahead).all() and (ahead < ACTORS).all()
    rows = read_rows(run.workdir / "acting.csv")
    assert set(rows["actor"]) == set(range(ACTORS))
    assert (rows["episode_return"] == rows["episode_length"]).all()
    # What is stored are the episodes that have ended, but for some of the last timestep.
    lacking = rows["episode_length"].sum() - last_row(run.workdir / "learner.csv")["replay_size"]
    assert 0 <= lacking <= rows["episode_length"][-ACTORS:].sum()
