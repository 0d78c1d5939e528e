"""Tests of common.experiments.plan, .status and .keep on planted run directories."""

import contextlib
import dataclasses
import json
import os
import pathlib
import re
import shutil

from planted import AGENT, EXPERIMENT, SETTINGS, SMALL, TASKS, contents, paper, path, plant
import pytest

from common.experiments import plan as plan_lib
from common.experiments import status
from common.experiments.keep import keep
from common.experiments.paper import Run, Substitute, UnknownError
from common.experiments.plan import make_plan
from common.experiments.runs import KeptRuns
from common.experiments.scales import PAPER, Scale, changes
from common.experiments.status import State
from common.reporting.budget import Budget
from common.reporting.run_directory import RunDirectory, RunDirectoryError


@pytest.fixture
def roots(tmp_path):
    return [tmp_path / "runs", tmp_path / "kept"]


def plan_of(roots, scale=SMALL, **selection):
    return make_plan(paper(EXPERIMENT), EXPERIMENT, scale, roots, **selection)


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
    states = [run.status.state for run in plan_of(roots).runs]
    assert states == [
        State.FINISHED,
        State.CUT,
        State.CUT,
        State.CUT,
        State.CUT,
        State.FINISHED,
        State.MISSING,
        State.MISSING,
    ]
    assert [run.seed for run in plan_of(roots).to_do] == [0, 0, 0, 1, 1, 1]


def test_a_run_of_a_smaller_budget_goes_on(roots):
    plant(path(roots[0], "good", TASKS[0], 0))
    larger = Scale("small", "", Budget(learner_steps=11), SMALL.changes)
    assert plan_of(roots).runs[0].status.state is State.FINISHED
    assert plan_of(roots, larger).runs[0].status.state is State.CUT


def test_a_run_that_was_kept_is_finished_and_a_cut_one_goes_on_in_the_first_root(roots):
    kept = path(roots[1], "good", TASKS[0], 0)
    plant(kept)
    assert plan_of(roots).runs[0].status.state is State.FINISHED
    assert plan_of(roots).runs[0].directory == kept
    plant(path(roots[0], "good", TASKS[0], 0), learner_steps=1, outcome=None)
    assert plan_of(roots).runs[0].directory == kept
    plant(path(roots[1], "better", TASKS[0], 0), learner_steps=1, outcome=None)
    assert plan_of(roots).runs[1].status.state is State.MISSING
    assert plan_of(roots).runs[1].directory == path(roots[0], "better", TASKS[0], 0)


def test_scales_do_not_mix(roots):
    plant(path(roots[0], "good", TASKS[0], 0, scale="paper"))
    assert plan_of(roots).runs[0].status.state is State.MISSING


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


@pytest.mark.parametrize(
    "name, text, words",
    [
        ("config.json", '{"seed": 0,\n "environment"', [":2: is not JSON"]),
        ("run.json", '{"starts": [', [":1: is not JSON"]),
        ("run.json", '{"starts": []}', ["not the record of a run"]),
        (
            "learner.csv",
            "wall_seconds,actor_steps,learner_steps\n1,2,many\n",
            ["in the last line: learner_steps is 'many'", "remove the line"],
        ),
    ],
)
def test_a_damaged_file_is_named_with_its_line(roots, name, text, words):
    run = plant(path(roots[0], "good", TASKS[0], 0))
    (run.path / name).write_text(text)
    seen = status_of(roots)
    assert seen.state is State.UNUSABLE and str(run.path / name) in seen.note
    assert all(word in seen.note for word in words), seen.note
    assert "\n" not in seen.note


def test_half_a_row_at_the_end_is_passed_over(roots):
    run = plant(path(roots[0], "good", TASKS[0], 0))
    with open(run.learner_csv, "a") as file:
        file.write("61.0,1")
    assert status_of(roots).state is State.FINISHED


def test_a_run_that_has_not_learnt_yet_is_cut(roots):
    RunDirectory(path(roots[0], "good", TASKS[0], 0)).open(
        {"environment": TASKS[0], "seed": 0, "num_actors": 2, "config": {"sizes": [4, 4]}}
    )
    assert status_of(roots) == status.Status(State.CUT)


def test_a_run_that_runs_is_left_alone(roots):
    run = plant(path(roots[0], "good", TASKS[0], 0), learner_steps=3, outcome=None)
    with run.hold():
        seen = status_of(roots)
    assert seen.state is State.RUNNING and "another run uses" in seen.note
    assert seen.progress.learner_steps == 3
    assert status_of(roots).state is State.CUT


def test_looking_changes_nothing(roots):
    plant(path(roots[0], "good", TASKS[0], 0))
    plant(path(roots[0], "better", TASKS[0], 0), learner_steps=3, outcome=None)
    before = contents(roots[0])
    plan_of(roots)
    assert contents(roots[0]) == before


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
    paper_run = plan_of(roots, PAPER).runs[0]
    assert paper_run.changes == () and "--max_minutes=60" in paper_run.command
    assert not any(flag.startswith("--scale_changes") for flag in paper_run.command)


def test_time_is_what_is_left_of_the_budgets(roots):
    start = plan_lib._START_MINUTES
    assert plan_of(roots, PAPER).minutes == 8 * (60 + start)
    plant(path(roots[0], "good", TASKS[0], 0, scale="paper"), learner_steps=100, outcome=None)
    assert plan_of(roots, PAPER).minutes == 7 * (60 + start) + 50 + start  # 600 s were done


def test_time_of_steps_needs_a_speed(roots):
    assert plan_of(roots).minutes is None
    # 10 steps a minute, also that of a run which is finished
    plant(path(roots[1], "good", TASKS[0], 0))
    start = plan_lib._START_MINUTES
    assert plan_of(roots).minutes == pytest.approx(7 * (1 + start))
    plant(path(roots[0], "better", TASKS[0], 0), learner_steps=5, outcome=None)
    assert plan_of(roots).minutes == pytest.approx(6 * (1 + start) + 0.5 + start)


def test_a_scale_may_have_other_runs_budget_and_seeds(roots):
    other = Run(AGENT, "other", TASKS[0], ("--setting=other", "--num_actors=1"))
    experiment = dataclasses.replace(
        EXPERIMENT,
        substitutes={"small": Substitute((other,), "fewer", Budget(learner_steps=3), seeds=1)},
    )
    plan = make_plan(paper(experiment), experiment, SMALL, roots)
    (run,) = plan.runs
    assert (run.run, run.seed, run.budget) == (other, 0, Budget(learner_steps=3))
    assert run.changes == ("3 learner steps instead of 1 hour", "config.sizes (4,4)")
    assert plan.experiment.note == "fewer" and "--scale=small" in run.command
    assert [
        one.seed for one in make_plan(paper(experiment), experiment, SMALL, roots, num_seeds=2).runs
    ] == [0, 1]
    assert len(make_plan(paper(experiment), experiment, PAPER, roots).runs) == 8


def test_keep_copies_rows_and_records_of_finished_runs_once(roots):
    run = plant(path(roots[0], "good", TASKS[0], 0))
    (run.checkpoints / "big").write_text("x")
    plant(path(roots[0], "better", TASKS[0], 0), learner_steps=1, outcome=None)
    target = path(roots[1], "good", TASKS[0], 0)
    assert keep(plan_of(roots), roots[1]) == [target]
    assert sorted(file.name for file in target.iterdir()) == [
        "acting.csv",
        "config.json",
        "evaluator.csv",
        "learner.csv",
        "run.json",
    ]
    assert (target / "run.json").read_bytes() == run.run_json.read_bytes()
    assert keep(plan_of(roots), roots[1]) == []
    assert plan_of(roots[1:]).runs[0].status.state is State.FINISHED
    plant(path(roots[0], "good", TASKS[0], 0), learner_steps=20)
    assert keep(plan_of(roots), roots[1]) == [target]
    assert len(json.loads((target / "run.json").read_text())["starts"]) == 2


@pytest.mark.parametrize("step", range(9))
def test_keeping_a_run_again_that_is_killed_leaves_no_mixture(roots, monkeypatch, step):
    """Five files, two renames, one removal; before each of them, and after the last."""
    source, target = path(roots[0], "good", TASKS[0], 0), path(roots[1], "good", TASKS[0], 0)
    plant(source)
    keep(plan_of(roots), roots[1])
    old = [file.read_bytes() for file in sorted(target.iterdir())]
    plant(source, learner_steps=20)
    steps = iter(range(9))

    def dies_before(function):
        def wrapped(*arguments, **options):
            if arguments[0].exists() and next(steps) == step:
                raise KeyboardInterrupt
            return function(*arguments, **options)

        return wrapped

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "copyfile", dies_before(shutil.copyfile))
        patch.setattr(shutil, "rmtree", dies_before(shutil.rmtree))
        patch.setattr(pathlib.Path, "rename", dies_before(pathlib.Path.rename))
        with pytest.raises(KeyboardInterrupt) if step < 8 else contextlib.nullcontext():
            keep(plan_of(roots), roots[1])
    there = [file.read_bytes() for file in sorted(target.glob("*"))]
    new = [(source / file).read_bytes() for file in sorted(os.listdir(source)) if "." in file]
    assert there == (old if step < 6 else [] if step == 6 else new)
    kept = KeptRuns(roots[1]).of("fake", "small")
    assert [run.reached("learner_steps") for run in kept] == [10 if step < 6 else 20] * bool(there)
    keep(plan_of(roots), roots[1])
    assert [file.read_bytes() for file in sorted(target.iterdir())] == new
    assert [one.name for one in target.parent.iterdir()] == ["seed_0"]


@pytest.mark.parametrize("lost", [False, True])
def test_a_run_that_lies_aside_after_a_keeping_was_killed_comes_back(roots, lost):
    target = path(roots[1], "good", TASKS[0], 0)
    plant(path(roots[0], "good", TASKS[0], 0))
    keep(plan_of(roots), roots[1])
    target.rename(target.with_name(".seed_0.old"))
    if lost:
        shutil.rmtree(path(roots[0], "good", TASKS[0], 0))
        other = plant(path(roots[0], "good", TASKS[0], 0))
        begin_later(other)
        with pytest.raises(RunDirectoryError, match="has another run of seed 0"):
            keep(plan_of(roots), roots[1])
    else:
        assert keep(plan_of(roots), roots[1]) == []
    assert [one.name for one in target.parent.iterdir()] == ["seed_0"]


def begin_later(run):
    """Makes it another run than one that was planted before."""
    record = json.loads(run.run_json.read_text())
    record["starts"][0]["start_time"] = "2031-02-03T04:05:06+00:00"
    run.run_json.write_text(json.dumps(record))


def test_another_run_of_a_kept_seed_is_refused_and_both_can_be_kept(roots, tmp_path):
    plant(path(roots[0], "good", TASKS[0], 0))
    keep(plan_of(roots), roots[1])
    others = [tmp_path / "again", roots[1]]
    begin_later(plant(path(others[0], "good", TASKS[0], 0), learner_steps=30))
    before = contents(roots[1])
    larger = dataclasses.replace(SMALL, budget=Budget(learner_steps=30))
    with pytest.raises(RunDirectoryError, match="has another run of seed 0, begun ") as error:
        keep(plan_of(others, larger), roots[1])
    assert contents(roots[1]) == before and "\n" not in str(error.value)
    pattern = r"first move (\S+) to a scale of its own, (\S+) in place of (\S+)$"
    source, earlier, scale = re.search(pattern, str(error.value)).groups()
    target = pathlib.Path(source.replace(f"/{scale}/", f"/{earlier}/"))
    target.parent.mkdir(parents=True)
    pathlib.Path(source).rename(target)
    assert keep(plan_of(others, larger), roots[1]) == [path(roots[1], "good", TASKS[0], 0)]
    kept = KeptRuns(roots[1])
    assert kept.scales("fake") == ("small", "small_earlier")
    steps = [kept.of("fake", scale)[0].reached("learner_steps") for scale in kept.scales("fake")]
    assert steps == [30, 10]


@pytest.mark.parametrize("text", ["(4, 4)", "(4,4)", "4,4", "4, 4"])
def test_a_list_has_several_spellings(roots, text):
    plant(path(roots[0], "good", TASKS[0], 0))
    flags = ("--num_actors=2", f"--config.sizes={text}")
    scale = Scale("small", "", SMALL.budget, changes(*flags))
    assert plan_of(roots, scale).runs[0].status.state is State.FINISHED
