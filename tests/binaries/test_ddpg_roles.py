"""DDPG from its binary: one process acts and learns in turns, another one evaluates."""

from by_hand import RunByHand
from forked import forked

from common.reporting.csv_rows import last_row, read_rows

BATCH, MIN_SIZE, STEPS = 16, 300, 300
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
SECONDS = 150
"""Patience with a busy machine."""


def test_acts_and_learns_in_turns_and_goes_on(tmp_path):
    with forked() as start:
        run = RunByHand(start, tmp_path / "run", "binaries.d4pg", FLAGS, learner=1)
        limit = f"--max_learner_steps={STEPS}"
        programs = [run.start(role, 0, limit) for role in ("learner", "evaluator")]
        run.ends(programs, SECONDS)
        check(run.workdir)
        row = last_row(run.workdir / "learner.csv")
        run.ends([run.start("learner", 0, f"--max_learner_steps={STEPS + 100}")], SECONDS)
    later = last_row(run.workdir / "learner.csv")
    assert later["learner_steps"] == STEPS + 100
    assert later["actor_steps"] - row["actor_steps"] == later["replay_size"] >= MIN_SIZE


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
