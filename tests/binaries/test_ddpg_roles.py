"""DDPG from its binary: one process acts and learns in turns; it or another one evaluates."""

import signal

from by_hand import RunByHand
from launched import forked

from common.reporting.csv_rows import last_row, read_rows

BATCH, MIN_SIZE, STEPS, END = 16, 300, 300, 400
FLAGS = (
    "--setting=ddpg",
    "--environment=python:reproductions.d4pg.own_environment:make",
    "--learner_threads=1",
    "--evaluation_episodes=1",
    "--evaluation_seconds=1",
    "--config.policy_sizes=(16,16)",
    "--config.critic_sizes=(16,16)",
    f"--config.batch_size={BATCH}",
    f"--config.samples_per_insert={BATCH}",
    f"--config.min_replay_size={MIN_SIZE}",
)
SECONDS = 600
"""Patience with a busy machine."""


def test_acts_and_learns_in_turns_and_goes_on(tmp_path):
    with forked() as start:
        run = RunByHand(start, tmp_path / "run", "binaries.d4pg", FLAGS, learner=1)
        limit = f"--max_learner_steps={STEPS}"
        programs = [run.start(role, 0, limit) for role in ("learner", "evaluator")]
        run.ends(programs, SECONDS)
        check(run.workdir)
        row = last_row(run.workdir / "learner.csv")
        in_turns = ("--evaluation_steps=40", "--final_episodes=3")
        run.ends([run.start("learner", 0, f"--max_learner_steps={END}", *in_turns)], SECONDS)
    later = last_row(run.workdir / "learner.csv")
    assert later["learner_steps"] == END
    assert later["actor_steps"] - row["actor_steps"] == later["replay_size"] >= MIN_SIZE
    rows = read_rows(run.workdir / "evaluator.csv")
    rows = rows[rows["learner_steps"] > STEPS]
    assert rows["learner_steps"].tolist() == [320, 360, END]
    assert rows["episodes"].tolist() == [1, 1, 3]
    # One update a step: nothing here depends on the clock.
    assert set(rows["learner_steps"].diff().dropna()) == set(rows["actor_steps"].diff().dropna())


def test_a_run_that_is_killed_twice_ends_with_the_same_steps(tmp_path):
    flags = (
        *("--max_learner_steps=2400", "--checkpoint_seconds=3"),
        *("--evaluation_steps=600", "--final_episodes=2"),
    )
    with forked() as start:
        run = RunByHand(start, tmp_path / "run", "binaries.d4pg", FLAGS, learner=1)
        for steps in (600, 1200):
            program = run.start("learner", 0, *flags)
            run.wait_for(
                lambda reached=steps: evaluated(run) >= reached, SECONDS, f"{steps} learner steps"
            )
            program.stop(signal.SIGKILL)
            program.wait(SECONDS)
        run.ends([run.start("learner", 0, *flags)], SECONDS)
    rows = read_rows(run.workdir / "evaluator.csv")
    assert rows["learner_steps"].tolist() == [0, 600, 1200, 1800, 2400]
    assert rows["episodes"].tolist() == [1, 1, 1, 1, 2]
    assert last_row(run.workdir / "learner.csv")["learner_steps"] == 2400


def evaluated(run):
    """Returns the learner step of the newest evaluation, 0 before the first."""
    return (last_row(run.workdir / "evaluator.csv") or {}).get("learner_steps") or 0


def check(workdir):
    """Checks the files of the run at its first limit."""
    rows = read_rows(workdir / "learner.csv")
    # An update for each step beyond the minimum, ahead by two calls of one update at most.
    for inserted, learned in zip(rows["actor_steps"], rows["learner_steps"], strict=True):
        if learned:
            assert 0 <= learned - (inserted - MIN_SIZE) <= 2
    row = last_row(workdir / "learner.csv")
    assert row["learner_steps"] == STEPS and row["priority_lag_steps"] == 1
    assert row["actor_steps"] == row["replay_size"]
    episodes = read_rows(workdir / "acting.csv")
    assert set(episodes["actor"]) == {0} and set(episodes["episode_length"]) == {100}
    evaluation = last_row(workdir / "evaluator.csv")
    assert evaluation["learner_steps"] == STEPS and evaluation["setting"].startswith("ddpg")
