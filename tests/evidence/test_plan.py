"""Tests of common.evidence.plan, .status and .keep on planted run directories."""

import contextlib
import dataclasses
import json
import re

from planted import (
    AGENT,
    EXPERIMENT,
    SETTINGS,
    SMALL,
    TASKS,
    contents,
    paper,
    path,
    plant,
    plant_kept,
)
import pytest

from common.evidence import keep as keep_lib
from common.evidence import plan as plan_lib
from common.evidence.keep import TableWriter, keep, set_aside
from common.evidence.paper import PAPER_SCALE, Change, Run, Scale, Substitute, UnknownError
from common.evidence.plan import State, make_plan
from common.evidence.runs import KeptRuns
from common.reporting.budget import Budget
from common.reporting.run_directory import RunDirectoryError


@pytest.fixture
def roots(tmp_path):
    return [tmp_path / "runs", tmp_path / "kept"]


def plan_of(roots, scale=SMALL, **selection):
    return make_plan(
        paper(EXPERIMENT), EXPERIMENT, scale, roots[0], KeptRuns(roots[1]), **selection
    )


def minutes_of(plan):
    """The time of the runs to do."""
    return sum(run.minutes for run in plan.to_do)


def kept_runs(roots):
    """The learner steps of the kept runs of the scale small."""
    return [run.progress.learner_steps for run in KeptRuns(roots[1]).of("fake", "small")]


def status_of(roots, **selection):
    """Of the first run of the plan."""
    return plan_of(roots, **selection).runs[0].status


def test_all_is_missing_where_nothing_is_and_planning_makes_nothing(roots, tmp_path):
    plan = plan_of(roots)
    assert len(plan.runs) == len(plan.to_do) == 2 * 2 * 2
    assert plan.of(State.MISSING) == plan.runs
    assert list(tmp_path.iterdir()) == []


def test_order_is_seed_by_seed_and_task_by_task(roots):
    order = [(run.seed, run.run.environment, run.run.setting) for run in plan_of(roots).runs]
    assert order == [
        (seed, task, setting) for seed in (0, 1) for task in TASKS for setting in SETTINGS
    ]


def test_selection(roots):
    plan = plan_of(roots, tasks=["a:easy", TASKS[0]], settings=["better"], num_seeds=3)
    chosen = {(run.run.environment, run.run.setting) for run in plan.runs}
    assert chosen == {(TASKS[0], "better")}
    assert [run.seed for run in plan.runs] == [0, 1, 2]
    with pytest.raises(UnknownError, match='no task "c": there are a:easy, b:hard'):
        plan_of(roots, tasks=["c"])
    with pytest.raises(UnknownError, match='no setting "best": there are good, better'):
        plan_of(roots, settings=["best"])


def test_finished_cut_and_missing(roots):
    plant(path(roots[0], "good", TASKS[0], 0))
    plant(path(roots[0], "better", TASKS[0], 0), learner_steps=4, outcome="stopped")
    plant(path(roots[0], "good", TASKS[1], 0), learner_steps=4, outcome=None)
    plant(path(roots[0], "better", TASKS[1], 0), learner_steps=4, outcome="failed")
    plant(path(roots[0], "good", TASKS[0], 1), learner_steps=10, outcome=None)
    plant(path(roots[0], "better", TASKS[0], 1), learner_steps=12, outcome="stopped")
    plant(path(roots[0], "good", TASKS[1], 1), learner_steps=4)  # finished with a smaller budget
    states = [run.status.state for run in plan_of(roots).runs]
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
    assert [run.seed for run in plan_of(roots).to_do] == [0, 0, 0, 1, 1, 1]


def test_a_run_that_was_kept_is_finished_whatever_is_in_its_directory(roots):
    plant_kept(roots[1], "good")
    plant_kept(roots[1], "better", learner_steps=1)
    good, better, *_ = plan_of(roots).runs
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
    run = plan_of(roots, other).runs[0]
    assert run.status.state is State.UNUSABLE
    assert "small.runs.jsonl:1 is of another run, num_actors is 2, not 3" in run.status.note
    (roots[1] / "fake" / "small.runs.jsonl").write_text("{}\n")
    assert run.read_status().state is State.UNUSABLE and ":1 is not" in run.read_status().note


@pytest.mark.parametrize(
    "config, words",
    [
        ({"num_actors": 3}, "num_actors is 3, not 2"),
        ({"seed": 7}, "seed is 7, not 0"),
        ({"environment": "suite:c"}, "environment is 'suite:c', not suite:a:easy"),
        ({"config": {"sizes": [4, 8]}}, r"config.sizes is \[4, 8\], not \(4,4\)"),
        ({"config": {}}, "config.sizes is None"),
    ],
)
def test_a_run_of_another_config_is_unusable_and_the_rest_still_works(roots, config, words):
    run = plant(path(roots[0], "good", TASKS[0], 0), **config)
    plant(path(roots[0], "better", TASKS[0], 0))
    plan = plan_of(roots)
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
    run = plan_of(roots, num_seeds=2).runs[-1]
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
        "config.sizes (4,4)",
        f"--workdir={path(roots[0], 'better', TASKS[1], 1)}",
    ]
    paper_run = plan_of(roots, PAPER_SCALE).runs[0]
    assert paper_run.changes == () and "--max_minutes=60" in paper_run.command
    assert not any(flag.startswith("--scale_changes") for flag in paper_run.command)


def test_time_is_what_is_left_of_the_budgets(roots):
    start = plan_lib._START_MINUTES
    assert minutes_of(plan_of(roots, PAPER_SCALE)) == 8 * (60 + start)
    plant(path(roots[0], "good", TASKS[0], 0, scale="paper"), learner_steps=100, outcome=None)
    assert (
        minutes_of(plan_of(roots, PAPER_SCALE)) == 7 * (60 + start) + 50 + start
    )  # 600 s were done


def test_time_of_steps_needs_a_speed(roots):
    assert all(run.minutes is None for run in plan_of(roots).runs)
    # 10 steps a minute, also that of a run which is finished
    plant_kept(roots[1], "good")
    start = plan_lib._START_MINUTES
    assert minutes_of(plan_of(roots)) == pytest.approx(7 * (1 + start))
    plant(path(roots[0], "better", TASKS[0], 0), learner_steps=5, outcome=None)
    assert minutes_of(plan_of(roots)) == pytest.approx(6 * (1 + start) + 0.5 + start)


def test_a_scale_may_have_other_runs_budget_and_seeds(roots):
    other = Run(AGENT, "other", TASKS[0], ("--setting=other", "--num_actors=1"))
    experiment = dataclasses.replace(
        EXPERIMENT,
        substitutes={"small": Substitute((other,), "fewer", Budget(learner_steps=3), seeds=1)},
    )
    plan = make_plan(paper(experiment), experiment, SMALL, roots[0])
    (run,) = plan.runs
    assert (run.run, run.seed, run.budget) == (other, 0, Budget(learner_steps=3))
    assert run.changes == ("3 learner steps instead of 1 hour", "config.sizes (4,4)")
    assert plan.experiment.note == "fewer" and "--scale=small" in run.command
    assert [
        planned.seed
        for planned in make_plan(paper(experiment), experiment, SMALL, roots[0], num_seeds=2).runs
    ] == [0, 1]
    assert len(make_plan(paper(experiment), experiment, PAPER_SCALE, roots[0]).runs) == 8


@contextlib.contextmanager
def killed_before_file(step, most, monkeypatch):
    """Kills what replaces at most `most` files before the file of the number `step`."""
    steps, real = iter(range(most)), keep_lib.replace_file

    def dies_before(*arguments):
        if next(steps) == step:
            raise KeyboardInterrupt
        real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(keep_lib, "replace_file", dies_before)
        yield


@pytest.mark.parametrize("step", range(6))
def test_keeping_a_run_again_that_is_killed_leaves_no_mixture(roots, monkeypatch, step):
    """The lines without the run, three files, all lines; before each, and after the last."""
    source = path(roots[0], "good", TASKS[0], 0)
    plant(source)
    plant_kept(roots[1], "better")
    keep(plan_of(roots), roots[1])
    plant(source, learner_steps=20)
    with killed_before_file(step, 6, monkeypatch):
        with pytest.raises(KeyboardInterrupt) if step < 5 else contextlib.nullcontext():
            keep(plan_of(roots), roots[1])
    assert kept_runs(roots) == [10, *([10] if step == 0 else [20] if step == 5 else [])]
    keep(plan_of(roots), roots[1])
    assert kept_runs(roots) == [10, 20]
    TableWriter(roots[1], "fake", "small")  # which checks the rows of each run


@pytest.mark.parametrize("step", range(9))
def test_a_run_that_is_set_aside_is_in_one_of_the_scales_whatever_stops_that(
    roots, monkeypatch, step
):
    """Four files of the scale with the run, five of the one that loses it."""
    for setting in SETTINGS:
        plant_kept(roots[1], setting)
    plan = plan_of(roots, settings=["good"])
    with killed_before_file(step, 9, monkeypatch), pytest.raises(KeyboardInterrupt):
        set_aside(plan, roots[1])

    def kept(scale):
        return [run.setting for run in KeptRuns(roots[1]).of("fake", scale)]

    assert "good" in kept("small") + kept("small_earlier") and "better" in kept("small")
    set_aside(plan, roots[1])
    assert (kept("small"), kept("small_earlier")) == (["better"], ["good"])


def begin_later(run, year=2031):
    """Makes it another run than one that was planted before."""
    record = json.loads(run.run_json.read_text())
    record["starts"][0]["start_time"] = f"{year}-02-03T04:05:06+00:00"
    run.run_json.write_text(json.dumps(record))


def test_another_run_of_a_kept_seed_is_refused_until_the_kept_one_is_set_aside(roots, tmp_path):
    plant(path(roots[0], "good", TASKS[0], 0))
    keep(plan_of(roots), roots[1])
    others = [tmp_path / "again", roots[1]]
    begin_later(plant(path(others[0], "good", TASKS[0], 0), learner_steps=30))
    before = contents(roots[1])
    larger = dataclasses.replace(SMALL, budget=Budget(learner_steps=30))
    words = "has another run of good on suite:a:easy, seed 0, begun 2.*, begun 2031.*set .* aside$"
    with pytest.raises(RunDirectoryError, match=words) as error:
        keep(plan_of(others, larger), roots[1])
    assert contents(roots[1]) == before and "\n" not in str(error.value)
    assert len(set_aside(plan_of(others, larger), roots[1])) == 1
    assert not (roots[1] / "fake" / "small.runs.jsonl").exists()
    assert len(keep(plan_of(others, larger), roots[1])) == 1
    kept = KeptRuns(roots[1])
    assert kept.scales("fake") == ("small", "small_earlier")
    steps = [kept.of("fake", scale)[0].progress.learner_steps for scale in kept.scales("fake")]
    assert steps == [30, 10] and set_aside(plan_of(others, PAPER_SCALE), roots[1]) == {}
    (moved,) = set_aside(plan_of(others, larger), roots[1]).values()  # the second of the seed
    assert moved == "small_earlier_earlier" and kept.scales("fake") == ("small_earlier", moved)
    assert KeptRuns(roots[1]).of("fake", moved)[0].progress.learner_steps == 30


def test_a_run_that_cannot_be_kept_does_not_keep_the_others_from_it(roots):
    plant(path(roots[0], "good", TASKS[0], 0))
    keep(plan_of(roots), roots[1])
    again = [roots[0] / "again", roots[1]]
    begin_later(plant(path(again[0], "good", TASKS[0], 0)))
    plant(path(again[0], "better", TASKS[1], 0))
    with pytest.raises(RunDirectoryError, match="has another run of good") as error:
        keep(plan_of(again), roots[1])
    assert "\n" not in str(error.value) and len(kept_runs(roots)) == 2


def test_tables_that_others_changed_are_refused(roots):
    plant(path(roots[0], "good", TASKS[0], 0))
    plant_kept(roots[1], "better")
    for name, old, new in (
        ("small.configs.jsonl", '"num_actors": 2', '"num_actors": 3'),
        ("small.runs.jsonl", '"rows": "', '"rows": "0'),
    ):
        file = roots[1] / "fake" / name
        text = file.read_text()
        file.write_text(text.replace(old, new))
        with pytest.raises(RunDirectoryError, match="its rows or its config are not those"):
            keep(plan_of(roots), roots[1])
        file.write_text(text)
    assert len(keep(plan_of(roots), roots[1])) == 1
