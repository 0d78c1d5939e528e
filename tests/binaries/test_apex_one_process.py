"""Ape-X in one process: as many actors as the paper's processes, whose turns the ratio sets."""

import json

from by_hand import RunByHand
from launched import ROOT, forked
import pytest

from common.reporting.csv_rows import last_row, read_rows

ACTORS, BATCH, MIN_SIZE, STEPS, PERIOD = 4, 16, 100, 320, 40
SECONDS = 600
"""Patience with a busy machine."""
COMMON = (
    f"--num_actors={ACTORS}",
    f"--max_learner_steps={STEPS}",
    "--learner_threads=1",
    "--evaluation_steps=160",
    "--evaluation_episodes=1",
    "--final_episodes=2",
    "--config.single_process",
    f"--config.batch_size={BATCH}",
    f"--config.min_replay_size={MIN_SIZE}",
    f"--config.actor_period={PERIOD}",
    "--config.replay_capacity=200",
    "--config.removal_period=32",
)
PROGRAMS = {
    "binaries.apex_dqn": (
        "--environment=python:sides_task:Sides",
        "--config.torso=minatar",
        "--config.num_copies=2",
    ),
    "binaries.apex_dpg": (
        "--environment=python:reproductions.d4pg.own_environment:make",
        "--config.policy_sizes=(16,16)",
        "--config.critic_sizes=(16,16)",
    ),
}
PATHS = {"PYTHONPATH": str(ROOT / "tests/learning")}


@pytest.mark.parametrize("module", PROGRAMS)
def test_acts_learns_and_evaluates_in_turns(module, tmp_path):
    ratio = 8.0
    flags = (*COMMON, *PROGRAMS[module], f"--config.samples_per_insert={ratio}")
    with forked() as start:
        run = RunByHand(start, tmp_path / "run", module, flags, learner=1)
        run.ends([run.start("learner", **PATHS)], SECONDS)
    config = json.loads((run.workdir / "config.json").read_text())
    copies = config["config"].get("num_copies", 1)
    row = last_row(run.workdir / "learner.csv")
    assert row["learner_steps"] == STEPS and row["priority_lag_steps"] == 16
    # Either side is ahead by two calls of 16 updates at most.
    inserted = copies * row["actor_steps"]
    assert abs(STEPS * BATCH - ratio * (inserted - MIN_SIZE)) <= 2 * 16 * BATCH + ratio * 2 * ACTORS
    # The capacity is soft: what came in since the last removal exceeds it.
    assert 200 <= row["replay_size"] <= 200 + (32 + 16) * BATCH / ratio + 2 * ACTORS
    episodes = read_rows(run.workdir / "acting.csv")
    assert set(episodes["actor"]) == set(range(ACTORS))
    updates_a_step = ACTORS * copies * ratio / BATCH
    assert 0 < episodes["parameter_age_steps"].max() <= (PERIOD - 1) * updates_a_step + 32
    evaluations = read_rows(run.workdir / "evaluator.csv")
    assert evaluations["learner_steps"].tolist() == [0, 160, STEPS]
    assert evaluations["episodes"].tolist() == [1, 1, 2]
