"""Kept runs are read strictly: what is wrong is said with its file and line."""

import dataclasses

from planted_curves import plant_run
import pytest

from common.evidence.keep import TableWriter
from common.evidence.paper import Experiment, Returns, Run
from common.evidence.runs import KeptRuns, frame
from common.evidence.selection import check_scale, runs_of
from common.reporting.budget import Budget
from common.reporting.run_directory import RunDirectoryError
from common.user_error import UserError
from reproductions.d4pg.config import AGENT as D4PG

SETTING, TASK = "d4pg_prioritized_n5", "control:cartpole:swingup"


def read(root, paper="d4pg"):
    return KeptRuns(root).of(paper, "two_cores")


def returns(run):
    return run.points("wall_seconds", "episode_return_mean", Returns.EVALUATOR)


def test_runs_are_found_with_their_points(tmp_path):
    for seed in (0, 10, 2):
        plant_run(tmp_path, SETTING, TASK, seed, [seed, seed + 1.0], seconds=60)
    runs = read(tmp_path)
    assert [run.seed for run in runs] == [0, 2, 10]
    assert returns(runs[1]).to_numpy().tolist() == [[30, 2], [60, 3]]
    assert (runs[0].progress.wall_seconds, runs[0].cores, runs[0].has_ended) == (60, 2, True)
    assert KeptRuns(tmp_path).scales("d4pg") == ("two_cores",)
    assert not read(tmp_path, "apex") and KeptRuns(tmp_path).scales("apex") == ()


def test_a_root_that_is_no_directory_is_an_error(tmp_path):
    with pytest.raises(RunDirectoryError, match="there are no runs: .*/none is not a directory"):
        check_scale([], KeptRuns(tmp_path / "none"), None)


@pytest.mark.parametrize(
    "name, old, new, complaint",
    [
        ("evaluations.csv", "2.0,1.0", "two,1.0", "s.csv:3: episode_return_mean is 'two', not a n"),
        ("evaluations.csv", "environment", "task", "evaluations.csv: is not a table of kept runs"),
        ("runs.jsonl", '"seed": 0', '"seed": ', "runs.jsonl:1:1: is not JSON"),
        ("runs.jsonl", '"rows"', '"row"', "runs.jsonl:1: is not a record of a run"),
        (
            "runs.jsonl",
            '"minutes"',
            '"hours"',
            "runs.jsonl:1: a budget has an unknown limit, 'hours'",
        ),
        ("configs.jsonl", '"id": "', '"id": "other', "/two_cores.configs.jsonl lacks the config"),
    ],
)
def test_a_damaged_file_is_named(tmp_path, name, old, new, complaint):
    plant_run(tmp_path, SETTING, TASK, 0, [1.0, 2.0, 3.0])
    file = tmp_path / "d4pg" / f"two_cores.{name}"
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))
    with pytest.raises(UserError) as error:
        for run in read(tmp_path):
            assert returns(run) is None or run.budget
    assert complaint in str(error.value) and "\n" not in str(error.value)
    assert str(file.parent) in str(error.value)


def test_lines_may_stand_in_any_order_and_twice(tmp_path):
    """As git's union merge leaves them."""
    for seed in (0, 1):
        plant_run(tmp_path, SETTING, TASK, seed, [1.0 + seed, 2.0, 3.0])
    plant_run(tmp_path, "ddpg", TASK, 0, [5.0])
    before = [(run.key, run.starts, returns(run).to_numpy().tolist()) for run in read(tmp_path)]
    for file in (tmp_path / "d4pg").iterdir():
        first, *rest = file.read_text().splitlines(keepends=True)
        lines = [first, *rest] if file.suffix == ".jsonl" else rest
        header = [] if file.suffix == ".jsonl" else [first]
        file.write_text("".join([*header, *lines[::-1], *lines[:2]]))
    runs = KeptRuns(tmp_path).of("d4pg", "two_cores")
    assert [(run.key, run.starts, returns(run).to_numpy().tolist()) for run in runs] == before
    TableWriter(tmp_path, "d4pg", "two_cores").write()  # which checks the rows of each run


def test_two_different_lines_of_a_run_are_an_error(tmp_path):
    plant_run(tmp_path, SETTING, TASK, 0, [1.0])
    file = tmp_path / "d4pg" / "two_cores.runs.jsonl"
    file.write_text(file.read_text() + file.read_text().replace("finished", "stopped"))
    with pytest.raises(
        RunDirectoryError, match="runs.jsonl:2: .*runs.jsonl:1 has the same setting"
    ):
        read(tmp_path)


def test_a_run_of_another_setting_is_an_error(tmp_path):
    plant_run(tmp_path, "curve", TASK, 0, [1.0], agent_setting=SETTING)

    def curve(setting):
        run = Run(D4PG, "curve", TASK, (f"--setting={setting}", "--num_actors=8"))
        return runs_of(Experiment("figure 1", "", (run,)), read(tmp_path))

    assert len(curve(SETTING)) == 1  # a curve may have another name than its setting
    with pytest.raises(RunDirectoryError, match=f"its config has the setting {SETTING}, not ddpg"):
        curve("ddpg")


def test_frames_are_steps_times_the_action_repeat(tmp_path):
    plant_run(tmp_path, "dqn", "atari:pong", 0, [1.0, 2.0], paper="apex", steps=100)
    (run,) = read(tmp_path, "apex")
    frame = run.points("environment_frames", "learner_steps", Returns.EVALUATOR)
    assert frame["environment_frames"].tolist() == [200, 400, 400]  # the last is its end


@pytest.mark.parametrize(
    "kwargs, budget",
    [
        ({"budget": Budget(minutes=5)}, Budget(minutes=5)),
        ({"budget": Budget(minutes=5, learner_steps=20)}, Budget(minutes=5, learner_steps=20)),
        ({"budget": Budget(minutes=20), "outcome": "stopped", "seconds": 984}, Budget(minutes=16)),
        ({"seconds": 300.3}, Budget(minutes=5)),
    ],
)
def test_the_budget_is_the_recorded_one_or_the_time_that_it_took(tmp_path, kwargs, budget):
    plant_run(tmp_path, SETTING, TASK, 0, [1.0, 2.0], **kwargs)
    assert read(tmp_path)[0].budget == budget


@pytest.mark.parametrize(
    "task, columns, expected",
    [
        ("control:walker:walk", {"mean_q": 101.0}, True),  # 1 / (1 - 0.99) at most
        ("control:walker:walk", {"mean_q": 99.0}, False),
        ("control:walker:walk", {"mean_q": 11.0, "reward_scale": 10.0}, True),
        ("control:walker:walk", {"mean_q": 9.0, "reward_scale": 10.0}, False),
        ("control:walker:walk", {}, None),
        ("gym:Walker2d-v4", {"mean_q": 1e9}, None),  # whose rewards have no known bound
    ],
)
def test_a_critic_that_overestimates_is_known(task, columns, expected, tmp_path):
    plant_run(tmp_path, "d3pg", task, 0, [1.0], learner=columns, discount=0.99)
    (run,) = read(tmp_path)
    assert run.overestimates is expected


def test_a_frame_has_a_row_for_each_evaluation_of_runs_that_ended(tmp_path):
    budget = Budget(learner_steps=400)
    plant_run(tmp_path, "ddpg", TASK, 0, [1.0, 3.0], steps=1600, budget=budget)
    plant_run(tmp_path, "ddpg", TASK, 1, [2.0, 4.0], steps=1600, budget=budget, outcome=None)
    plant_run(tmp_path, "d3pg", TASK, 0, [5.0], seconds=60.0)
    found = frame("d4pg", "two_cores", KeptRuns(tmp_path))
    names = ["setting", "task", "seed", "x", "value", "budget", "commit"]
    names += ["started", "by_rule"]
    assert list(found) == names
    assert found[["setting", "task", "seed", "x", "value"]].to_numpy().tolist() == [
        ["d3pg", TASK, 0, 60.0, 5.0],
        ["ddpg", TASK, 0, 200.0, 1.0],
        ["ddpg", TASK, 0, 400.0, 3.0],
    ]
    assert set(found["budget"]) == {str(budget), str(Budget(minutes=1))}
    assert list(frame("d4pg", "small", KeptRuns(tmp_path))) == list(found)


def test_another_clock_and_another_quantity(tmp_path):
    budget = Budget(learner_steps=400)
    plant_run(tmp_path, "ddpg", TASK, 0, [1.0] * 30, steps=1600, budget=budget, speed=7.0)
    plant_run(tmp_path, "ddpg", TASK, 1, [1.0] * 8, steps=1600, budget=budget, speed=7.0)
    found = frame("d4pg", "two_cores", KeptRuns(tmp_path), "actor_steps_per_second", "actor_steps")
    assert found["x"].max() == 1600 and set(found["value"]) == {7.0}
    assert found.groupby("seed")["by_rule"].first().tolist() == [True, False]


def test_evaluations_of_few_episodes_are_not_by_the_rule(tmp_path):
    plant_run(tmp_path, "ddpg", TASK, 0, [1.0] * 40, budget=Budget(learner_steps=400))
    (run,) = read(tmp_path)
    few = dataclasses.replace(run, evaluations=run.evaluations.assign(episodes=4))
    assert run.is_by_rule and not few.is_by_rule


def test_the_commits_of_compact_runs_are_read():
    kept = frame("d4pg", "small")
    assert kept["commit"].str.len().min() >= 40
