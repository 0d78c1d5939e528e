"""Tests of the papers' experiments, and of common.evidence.paper."""

import functools
import itertools

from absl import flags
import pytest

from common import environments
from common.evidence.claims import planned_budget
from common.evidence.figures import styles
from common.evidence.paper import (
    DEFAULT_SCALE,
    PAPER_SCALE,
    RESULTS,
    Change,
    Scale,
    flag_name,
    same_value,
)
from common.evidence.plan import make_plan
from common.evidence.reported import Reported
from common.program.flags import define_config
from common.reporting.budget import Budget
import reproductions
from reproductions.apex.dqn import config as dqn_settings
from reproductions.apex.dqn.config import AGENT as APEX_DQN
from reproductions.d4pg.config import AGENT as D4PG

PAPERS = reproductions.papers()
EXPERIMENTS = [(paper, experiment) for paper in PAPERS for experiment in paper.experiments]


def test_all_five_papers_are_there_with_their_figures_and_tables():
    assert reproductions.PAPERS == ("apex", "aql", "d4pg", "reactor", "refer")
    for paper, (figures, tables) in zip(PAPERS, ((14, 2), (11, 0), (10, 2), (7, 5), (8, 0))):
        for kind, count in (("figure", figures), ("table", tables)):
            names = [experiment.name for experiment in paper.of_kind(kind)]
            assert names == [f"{kind} {n}" for n in range(1, count + 1)]


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.name)
def test_a_setting_means_the_same_in_every_experiment(paper):
    assert len({experiment.name for experiment in paper.experiments}) == len(paper.experiments)
    for scale in paper.scales:
        meaning = {}
        for run in (
            run for experiment in paper.experiments for run in experiment.at(scale.name).runs
        ):
            assert meaning.setdefault((run.setting, run.environment), run) == run
        by_flags = {}
        for run in meaning.values():  # and no two names mean the same, apart from budgets
            key = (run.flags, run.environment, run.budget)
            assert by_flags.setdefault(key, run.setting) == run.setting


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.name)
def test_the_runs_of_a_curve_have_one_budget_at_the_scale_small(paper):
    """They share a place among the kept runs, where one of a smaller budget is in another's way."""
    budgets = {}
    for experiment in paper.experiments:
        there, budget = experiment.at("small"), planned_budget(paper, experiment, "small")
        for run in there.runs if not there.unavailable else ():
            known = budgets.setdefault(run.curve, (experiment.name, budget))
            assert known[1] == budget, (run.curve, known, experiment.name)


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.name)
def test_each_curve_has_a_configuration_of_its_own_at_every_scale(paper, monkeypatch):
    @functools.cache
    def configured(agent, arguments):
        """What the agent's program makes of them; it refuses values that contradict each other."""
        others = dict(argument.removeprefix("--").split("=") for argument in arguments)
        of_config = [
            argument for argument in arguments if argument.startswith(("--setting=", "--config."))
        ]
        monkeypatch.setattr("sys.argv", ["program", *of_config])
        values = flags.FlagValues()
        config = define_config(agent.settings, values)
        values(["program", *of_config])
        config.value.validate()
        actors = agent.num_actors(config.value, others["setting"])
        return (
            agent,
            str(config.value),
            others.get("num_actors") or others.get("num_workers", actors),
        )

    for scale in paper.scales:
        for experiment in (each.at(scale.name) for each in paper.experiments):
            is_figure = experiment.name.startswith("figure")
            seen = {}
            for run in experiment.runs if not experiment.unavailable else ():
                changes = [change.flag for change in scale.changes_of(run.agent, run.choices)]
                key = configured(run.agent, (*run.flags, *changes)), run.environment, run.budget
                same = seen.setdefault(key, run.setting) if is_figure else run.setting
                assert same == run.setting, (scale.name, experiment.name, run.setting, same)


@pytest.mark.parametrize("paper, experiment", EXPERIMENTS, ids=lambda value: value.name)
def test_an_experiment_is_whole(paper, experiment):
    assert len({(run.setting, run.environment) for run in experiment.runs}) == len(experiment.runs)
    assert bool(experiment.runs) or experiment.unavailable
    for part in experiment.parts:
        assert set(part.settings) <= set(experiment.settings)
        assert set(part.environments) <= set(experiment.environments)
    for scale in experiment.substitutes:
        there = experiment.at(scale)
        assert paper.scale(scale) and (there.runs or there.unavailable)
    for run in experiment.every_run:
        assert experiment.budget_of(run).flags, "it would never end"
        assert run.agent in paper.agents
        assert run.flags[0].startswith("--setting=")
        assert run.setting in paper.looks
        for flag in ("seed", "environment", "workdir", "max_minutes"):
            assert flag not in map(flag_name, run.flags)


def test_tasks_of_the_control_suite_exist():
    named = {run.environment for _, experiment in EXPERIMENTS for run in experiment.every_run}
    wanted = {name for name in named if name.startswith("control:")}
    assert len(wanted) > 39 and wanted <= set(environments.names())


@pytest.mark.parametrize("paper, figure", EXPERIMENTS, ids=lambda value: value.name)
def test_curves_of_an_experiment_look_different(paper, figure):
    shown = [figure, *(figure.at(scale) for scale in figure.substitutes)]
    for part in (part for there in shown for part in there.divided()):
        if len(part.settings) <= 12:
            found = styles(part.settings, paper.looks)
            assert len(set(found.values())) == len(found)


@pytest.mark.parametrize("paper", [paper for paper in PAPERS if paper.name != "refer"])
def test_a_method_has_one_colour_beside_all_others_of_the_figures_or_of_a_section(paper):
    groups = [paper.of_kind("figure"), *([section] for section in paper.of_kind("section"))]
    for scale, group in itertools.product(paper.scales, groups):
        shown = [experiment.at(scale.name) for experiment in group]
        names = {name for figure in shown if not figure.unavailable for name in figure.settings}
        # A method is one name beyond the Control Suite and another on it, with one look.
        looks = {paper.looks[name]: name for name in sorted(names, reverse=True)}
        assert len({paper.label(name) for name in looks.values()}) == len(looks)
        names = set(looks.values())
        found = styles(sorted(names), paper.looks)
        for name, style in found.items():
            assert style.color == paper.looks[name].style.color, (scale.name, name)
        assert len({(style.color, style.line) for style in found.values()}) == len(found)


def test_apexs_scale_two_cores_is_its_setting_for_two_cores():
    apex = reproductions.paper("apex")
    scale = apex.scale("two_cores")
    changes = [change.flag for change in scale.changes_of(APEX_DQN, [])]
    for name, value in dqn_settings.TWO_CORES["dqn_two_cores"].items():
        assert f"--config.{name}={value}" in changes


def test_what_can_be_run_can_be_run_without_a_scale():
    for paper, experiment in EXPERIMENTS:
        if not experiment.unavailable:
            assert not experiment.at(DEFAULT_SCALE).unavailable, (paper.name, experiment.name)


def test_the_numbers_of_reference_lines_are_reported():
    lines = [
        (paper.name, line) for paper, experiment in EXPERIMENTS for line in experiment.references
    ]
    assert len(lines) > 10
    for paper, line in lines:
        assert Reported().number(paper, line.source, line.row, line.column) > 0


@pytest.mark.parametrize(
    "value, text, is_same",
    [
        ([0.001, 0.5], "(1e-3,0.5)", True),
        ([128, 128], "128, 128", True),
        ([128], "(128,)", True),
        ([], "()", True),
        ([128, 64], "128", False),
        ([0.001, 0.5], "0.001,0.4", False),
        (True, "true", True),
        (0.001, "1e-3", True),
    ],
)
def test_the_value_of_a_flags_text(value, text, is_same):
    assert same_value(value, text) is is_same


def test_a_runs_own_flags_win_over_its_scales():
    scale = Scale(
        "s",
        "",
        Budget(minutes=1),
        (Change("--num_actors=2"), Change("--x=1"), Change("--y=1", APEX_DQN)),
    )
    assert [change.flag for change in scale.changes_of(D4PG, ["--num_actors=1"])] == ["--x=1"]
    assert scale.differences(Budget(minutes=60), APEX_DQN, ["--num_actors=1"]) == [
        "1 minute instead of 1 hour",
        "x 1",
        "y 1",
    ]
    assert PAPER_SCALE.differences(Budget(minutes=60), D4PG, []) == []
    (words, *_) = scale.differences(Budget(minutes=60), D4PG, [], is_stated=False)
    assert words == "1 minute instead of 1 hour (not in the paper)"


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.name)
def test_the_papers_own_scale_changes_nothing(paper):
    own = paper.scale("paper")
    assert own is paper.scales[0] and own.changes == () and own.budget is None


@pytest.mark.parametrize("name, table", [("apex", "table 2"), ("reactor", "table 5")])
def test_scores_are_means_of_the_papers_episodes_or_fewer_at_a_smaller_scale(tmp_path, name, table):
    paper = reproductions.paper(name)
    for scale, episodes in (("paper", 200), ("workstation", 200), ("two_cores", 20)):
        plan = make_plan(paper, paper.experiment(table), paper.scale(scale), tmp_path, num_seeds=1)
        assert all(run.has_final_evaluation for run in plan.runs)
        assert all(f"--final_episodes={episodes}" in run.command for run in plan.runs)


def test_d4pgs_quickstart_has_the_sizes_of_the_scale_small():
    path = RESULTS.parent / "reproductions/d4pg/quickstart.flags"
    flags = {line for line in path.read_text().splitlines() if line.startswith("--")}
    scale = reproductions.paper("d4pg").scale("small")
    changed = {change.flag for change in scale.changes_of(D4PG, [])}
    of_one_process = ("config.single_process", "evaluation_steps", "evaluation_episodes")
    assert {flag for flag in changed if flag_name(flag) not in of_one_process} <= flags


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.name)
def test_each_curve_of_a_figure_has_a_label_of_its_own(paper):
    for experiment in paper.experiments:
        for scale in ("paper", *(scale.name for scale in paper.scales)):
            labels = [paper.label(setting) for setting in experiment.at(scale).settings]
            assert len(labels) == len(set(labels)), (experiment.name, scale, labels)
