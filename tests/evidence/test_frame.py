"""Tests of common.evidence.runs.frame."""

from planted_curves import plant_run

from common.evidence import runs
from common.reporting.budget import Budget

TASK = "control:cartpole:swingup"


def test_a_frame_has_a_row_for_each_evaluation_of_runs_that_ended(tmp_path):
    budget = Budget(learner_steps=400)
    plant_run(tmp_path, "ddpg", TASK, 0, [1.0, 3.0], steps=1600, budget=budget)
    plant_run(tmp_path, "ddpg", TASK, 1, [2.0, 4.0], steps=1600, budget=budget, outcome=None)
    plant_run(tmp_path, "d3pg", TASK, 0, [5.0], seconds=60.0)
    found = runs.frame("d4pg", "two_cores", tmp_path)
    names = ["setting", "task", "seed", "x", "value", "budget", "commit", "by_rule"]
    assert list(found) == names
    assert found[["setting", "task", "seed", "x", "value"]].to_numpy().tolist() == [
        ["d3pg", TASK, 0, 60.0, 5.0],
        ["ddpg", TASK, 0, 200.0, 1.0],
        ["ddpg", TASK, 0, 400.0, 3.0],
    ]
    assert set(found["budget"]) == {str(budget), str(Budget(minutes=1))}
    assert list(runs.frame("d4pg", "small", tmp_path)) == list(found)


def test_another_clock_and_another_quantity(tmp_path):
    budget = Budget(learner_steps=400)
    plant_run(tmp_path, "ddpg", TASK, 0, [1.0] * 30, steps=1600, budget=budget, speed=7.0)
    plant_run(tmp_path, "ddpg", TASK, 1, [1.0] * 8, steps=1600, budget=budget, speed=7.0)
    found = runs.frame("d4pg", "two_cores", tmp_path, "actor_steps_per_second", "actor_steps")
    assert found["x"].max() == 1600 and set(found["value"]) == {7.0}
    assert found.groupby("seed")["by_rule"].first().tolist() == [True, False]


def test_the_commits_of_compact_runs_are_read():
    kept = runs.frame("d4pg", "small")
    assert kept["commit"].str.len().min() >= 40
