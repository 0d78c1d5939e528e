"""AQL's figures.toml: the paper's tasks and budgets, and what stands in for them."""

import ast
import pathlib

import pytest

from common import environments
from common.program.layouts import ONE_PROCESS_WITH_REPLAYS
import reproductions
from reproductions.aql.config import SETTINGS
from reproductions.aql.match import uniform_return

PAPER = reproductions.paper("aql")
LOW, MEDIUM, HIGH, ALL = (
    PAPER.experiment(f"figure {number}").environments for number in (6, 7, 8, 1)
)
ROOT = pathlib.Path(__file__).parents[3]


def sub_actions(name):
    return environments.make(name, 0).action_spec().shape[0]


def test_the_39_tasks_have_the_papers_numbers_of_sub_actions():
    """One environment of a domain, and of swimmers each, which differ in their joints."""
    for tasks, allowed in ((LOW, {1, 2}), (MEDIUM, {4, 5, 6}), (HIGH, {14, 21, 56})):
        one_each = {name.rpartition(":")[0]: name for name in tasks if "swimmer" not in name}
        names = [*one_each.values(), *(name for name in tasks if "swimmer" in name)]
        assert {sub_actions(name) for name in names} == allowed
    sizes = [len(tasks) for tasks in (LOW, MEDIUM, HIGH)]
    assert sizes == [17, 15, 7] and len(set(ALL)) == 39
    assert len({name.split(":")[1] for name in ALL}) == 16


def test_the_budgets_are_actor_steps():
    """200M environment steps of DeepMind Lab are 50M of the agent, which repeats actions."""
    steps = {experiment.name: experiment.budget.actor_steps for experiment in PAPER.experiments}
    assert steps.pop("figure 3") == 50_000_000
    figures = {steps[name] for name in steps if name.startswith("figure")}
    assert figures == {200_000_000}


def changed_by(scale):
    """The scale's values of hyperparameters, as text."""
    changes = PAPER.scale(scale).changes
    flags = (change.flag.partition("=") for change in changes)
    return {name.removeprefix("--config."): value for name, _, value in flags}


@pytest.mark.parametrize("name, rate", [("small", 5e-4), ("two_cores", 1e-3)])
def test_scales_raise_the_ratio_and_the_rate_together(name, rate):
    changed, config = changed_by(name), SETTINGS.configuration("aql")
    assert int(changed["replayed_unrolls"]) == 14 > config.replayed_unrolls
    assert float(changed["learning_rate"]) == rate > config.learning_rate


def test_the_scale_small_shrinks_what_an_environment_of_ours_leaves_as_in_the_paper():
    changed, config = changed_by("small"), SETTINGS.configuration("aql")
    sizes = ("batch_size", "state_size", "action_size", "joint_sizes", "proposal_sizes")
    for size in sizes:
        papers = getattr(config, size)
        ours = ast.literal_eval(changed[size])
        assert ours < papers and type(ours) is type(papers)
    for name in ("section match", "section rover"):
        for run in PAPER.experiment(name).at("small").runs:
            kept = {f"--config.{size}" for size in sizes}
            if run.setting == "impala":  # it replays nothing: small batches, for 417 updates
                kept ^= {"--config.batch_size", "--config.replayed_unrolls"}
            assert kept == set(run.fixed)
            assert "--config.learning_rate=0.001" in run.flags


@pytest.mark.parametrize("name", ["figure 6", "figure 11"])
def test_d3pg_keeps_the_papers_rate_at_every_scale(name):
    for scale in ("small", "two_cores"):
        for run in PAPER.experiment(name).at(scale).runs:
            assert ("--config.learning_rate" in run.choices) == ("d3pg" in run.setting)


def test_the_scale_small_evaluates_in_the_process_that_acts():
    changes = {change.name for change in PAPER.scale("small").changes}
    assert {"config.single_process", "evaluation_steps"} <= changes
    assert "evaluation_steps" in ONE_PROCESS_WITH_REPLAYS.flags


@pytest.mark.parametrize("number", [1, 2, 8, 11])
def test_every_method_is_evaluated_some_thirty_times_at_the_scale_small(number):
    """IMPALA replays nothing, so it has a fifteenth of the others' updates."""
    changed, steps = changed_by("small"), PAPER.scale("small").budget.actor_steps
    for run in PAPER.experiment(f"figure {number}").at("small").runs:
        flags = dict(flag.removeprefix("--").split("=") for flag in run.flags)
        replayed = int(changed["replayed_unrolls"])
        if "--config.replayed_unrolls" in run.fixed:
            replayed = SETTINGS.configuration(run.setting).replayed_unrolls
        unrolls = (1 + replayed) * steps / SETTINGS.configuration(run.setting).unroll_length
        period = int(flags.get("evaluation_steps", changed["--evaluation_steps"]))
        assert 30 <= unrolls / int(changed["batch_size"]) / period < 32, run.setting


def test_stand_ins_have_as_many_sub_actions_as_the_tasks_of_figure_8():
    assert min(map(sub_actions, PAPER.experiment("figure 8").at("small").environments)) >= 14
    match = PAPER.experiment("section match")
    assert [sub_actions(name) for name in match.environments] == [5, 21, 56]
    for name, ((level, _),) in match.levels.items():
        assert level == pytest.approx(uniform_return(sub_actions(name), 500), abs=1e-4)
    assert tuple(match.levels) == match.environments


def test_the_flag_file_for_two_cores_has_the_scales_values():
    lines = (ROOT / "reproductions/aql/two_cores.flags").read_text().splitlines()
    for change in PAPER.scale("two_cores").changes:
        assert change.flag in lines
    assert "--max_minutes=10" in lines
