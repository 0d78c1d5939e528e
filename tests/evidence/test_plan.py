"""Tests of common.evidence.plan on planted run directories."""

import dataclasses
import re

from planted import (
    AGENT,
    EXPERIMENT,
    SETTINGS,
    SMALL,
    TASKS,
    paper,
    path,
    plan_figure,
    plant,
    plant_kept,
)
import pytest

from common.evidence import plan as plan_lib
from common.evidence.paper import PAPER_SCALE, Change, Run, Scale, Substitute, UnknownError
from common.evidence.plan import State, make_plan
from common.reporting.budget import Budget


def minutes_of(plan):
    """The time of the runs to do."""
    return sum(run.minutes for run in plan.to_do)


def status_of(roots, **selection):
    """Of the first run of the plan."""
    return plan_figure(roots, **selection).runs[0].status


def test_all_is_missing_where_nothing_is_and_planning_makes_nothing(roots, tmp_path):
    plan = plan_figure(roots)
    assert len(plan.runs) == len(plan.to_do) == 2 * 2 * 2
    assert plan.of(State.MISSING) == plan.runs
    assert list(tmp_path.iterdir()) == []


def test_order_is_seed_by_seed_and_task_by_task(roots):
    order = [(run.seed, run.run.environment, run.run.setting) for run in plan_figure(roots).runs]
    assert order == [
        (seed, task, setting) for seed in (0, 1) for task in TASKS for setting in SETTINGS
    ]


def test_selection(roots):
    plan = plan_figure(roots, tasks=["a:easy", TASKS[0]], settings=["better"], num_seeds=3)
    chosen = {(run.run.environment, run.run.setting) for run in plan.runs}
    assert chosen == {(TASKS[0], "better")}
    assert [run.seed for run in plan.runs] == [0, 1, 2]
    with pytest.raises(UnknownError, match='no task "c": there are a:easy, b:hard'):
        plan_figure(roots, tasks=["c"])
    with pytest.raises(UnknownError, match='no setting "best": there are good, better'):
        plan_figure(roots, settings=["best"])


def test_finished_cut_and_missing(roots):
    plant(path(roots[0], "good", TASKS[0], 0))
    plant(path(roots[0], "better", TASKS[0], 0), learner_steps=4, outcome="stopped")
    plant(path(roots[0], "good", TASKS[1], 0), learner_steps=4, outcome=None)
    plant(path(roots[0], "better", TASKS[1], 0), learner_steps=4, outcome="failed")
    plant(path(roots[0], "good", TASKS[0], 1), learner_steps=10, outcome=None)
    plant(path(roots[0], "better", TASKS[0], 1), learner_steps=12, outcome="stopped")
    plant(path(roots[0], "good", TASKS[1], 1), learner_steps=4)  # finished with a smaller budget
    states = [run.status.state for run in plan_figure(roots).runs]
    assert states == [
        State.FINISHED,
        State.CUT,
        State.CUT,
        State.CUT,
        State.CUT,
        State.FINISHED,
        State.CUT,
        State.MISSING,
    ]
    assert [run.seed for run in plan_figure(roots).to_do] == [0, 0, 0, 1, 1, 1]


def test_a_run_that_was_kept_is_finished_whatever_is_in_its_directory(roots):
    plant_kept(roots[1], "good")
    plant_kept(roots[1], "better", learner_steps=1)
    good, better, *_ = plan_figure(roots).runs
    assert good.status.is_kept and good.status.state is State.FINISHED
    assert better.status.state is State.UNUSABLE  # another one could not be kept
    assert "has not reached 10 learner steps: set it aside" in better.status.note
    plant(better.directory, learner_steps=4, outcome="stopped")
    assert better.read_status().state is State.CUT
    plant(good.directory, learner_steps=1, outcome=None)
    assert good.read_status() == good.status
    plant(good.directory)
    assert good.read_status().state is State.FINISHED and not good.read_status().is_kept


def test_a_kept_run_of_another_config_is_unusable(roots):
    plant_kept(roots[1], "good")
    other = Scale("small", "", SMALL.budget, (Change("--num_actors=3"),))
    run = plan_figure(roots, other).runs[0]
    assert run.status.state is State.UNUSABLE
    assert (
        "small.runs.jsonl:1 belongs to another run, whose num_actors is 2, not 3" in run.status.note
    )
    (roots[1] / "fake" / "small.runs.jsonl").write_text("{}\n")
    assert run.read_status().state is State.UNUSABLE and ":1 is not" in run.read_status().note


def test_a_kept_run_with_another_value_of_what_may_change_is_finished(roots):
    plant_kept(roots[1], "good", prefetch=7)
    other = Scale("small", "", SMALL.budget, (*SMALL.changes, Change("--config.prefetch=2")))
    assert plan_figure(roots, other).runs[0].status.state is State.FINISHED


@pytest.mark.parametrize(
    "planted, words",
    [
        ({"sizes": (4, 8)}, r'another config \(config.sizes \[4, 8\] -> "\(4,4\)"\): set the'),
        ({"num_actors": 3}, r'another config \(num_actors 3 -> "2"\)'),
        ({"single_process": True}, "config.single_process true -> "),
        ({"removed": 1}, "config.removed 1 -> .absent."),
        ({"prefetch": 7}, ""),
    ],
)
def test_a_run_that_could_not_be_kept_next_to_other_seeds_is_unusable(planted, words, roots):
    plant_kept(roots[1], "good", **planted)
    first, _, _, _, second, *_ = plan_figure(roots).runs
    assert (first.key[:2], second.key) == (second.key[:2], ("good", TASKS[0], 1))
    assert second.status.state is (State.UNUSABLE if words else State.MISSING)
    assert re.search(words, second.status.note)


@pytest.mark.parametrize(
    "config, words",
    [
        ({"num_actors": 3}, "num_actors is 3, not 2"),
        ({"seed": 7}, "seed is 7, not 0"),
        ({"environment": "suite:c"}, "environment is 'suite:c', not suite:a:easy"),
        ({"config": {"sizes": [4, 8]}}, r"config.sizes is \[4, 8\], not \(4,4\)"),
        ({"config": {}}, r"config.sizes is \(8, 8\), not"),
    ],
)
def test_a_run_of_another_config_is_unusable_and_the_rest_still_works(roots, config, words):
    run = plant(path(roots[0], "good", TASKS[0], 0), **config)
    plant(path(roots[0], "better", TASKS[0], 0))
    plan = plan_figure(roots)
    (unusable,) = plan.of(State.UNUSABLE)
    assert str(run.config_json) in unusable.status.note
    assert re.search(words, unusable.status.note)
    assert len(plan.of(State.FINISHED)) == 1 and len(plan.to_do) == 6
    assert unusable not in plan.to_do


def test_a_run_that_runs_is_left_alone(roots):
    run = plant(path(roots[0], "good", TASKS[0], 0), learner_steps=3, outcome=None)
    with run.hold():
        seen = status_of(roots)
    assert seen.state is State.RUNNING and "another run uses" in seen.note
    assert seen.progress.learner_steps == 3
    assert status_of(roots).state is State.CUT


def test_command(roots):
    run = plan_figure(roots, num_seeds=2).runs[-1]
    assert run.command[1:] == [
        "-m",
        "fake_program",
        "--environment=suite:b:hard",
        "--seed=1",
        "--setting=better",
        "--num_actors=2",
        "--config.sizes=(4,4)",
        "--max_learner_steps=10",
        "--scale=small",
        "--scale_changes=10 learner steps instead of 1 hour; num_actors 2 instead of 32; "
        "config.sizes (4,4) instead of (8, 8)",
        f"--workdir={path(roots[0], 'better', TASKS[1], 1)}",
    ]
    paper_run = plan_figure(roots, PAPER_SCALE).runs[0]
    assert paper_run.changes == () and "--max_minutes=60" in paper_run.command
    assert not any(flag.startswith("--scale_changes") for flag in paper_run.command)


def test_time_is_what_is_left_of_the_budgets(roots):
    start = plan_lib._START_MINUTES
    assert minutes_of(plan_figure(roots, PAPER_SCALE)) == 8 * (60 + start)
    plant(path(roots[0], "good", TASKS[0], 0, scale="paper"), learner_steps=100, outcome=None)
    assert (
        minutes_of(plan_figure(roots, PAPER_SCALE)) == 7 * (60 + start) + 50 + start
    )  # 600 s were done


def test_time_of_steps_needs_a_speed(roots):
    assert all(run.minutes is None for run in plan_figure(roots).runs)
    # 10 steps a minute, also that of a run which is finished
    plant_kept(roots[1], "good")
    start = plan_lib._START_MINUTES
    assert minutes_of(plan_figure(roots)) == pytest.approx(7 * (1 + start))
    plant(path(roots[0], "better", TASKS[0], 0), learner_steps=5, outcome=None)
    assert minutes_of(plan_figure(roots)) == pytest.approx(6 * (1 + start) + 0.5 + start)


def test_a_scale_may_have_other_runs_budget_and_seeds(roots):
    other = Run(AGENT, "other", TASKS[0], ("--setting=other", "--num_actors=1"))
    experiment = dataclasses.replace(
        EXPERIMENT,
        substitutes={"small": Substitute((other,), "fewer", Budget(learner_steps=3), seeds=1)},
    )
    plan = make_plan(paper(experiment), experiment, SMALL, roots[0])
    (run,) = plan.runs
    assert (run.run, run.seed, run.budget) == (other, 0, Budget(learner_steps=3))
    assert run.changes == (
        "3 learner steps instead of 1 hour",
        "config.sizes (4,4) instead of (8, 8)",
    )
    assert plan.experiment.note == "fewer" and "--scale=small" in run.command
    assert [
        planned.seed
        for planned in make_plan(paper(experiment), experiment, SMALL, roots[0], num_seeds=2).runs
    ] == [0, 1]
    assert len(make_plan(paper(experiment), experiment, PAPER_SCALE, roots[0]).runs) == 8
