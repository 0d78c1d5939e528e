"""Tests of the papers' experiments and of common.experiments.registry and .scales."""

from common.experiments.registry import Run, UnknownError
import pytest

from common import environments
from common.environments.spec import EnvironmentSpec
from common.experiments import registry, scales
from common.experiments.scales import Change, Scale
from common.reporting import reported
from common.reporting.budget import Budget
from reproductions.apex.dqn import settings as dqn_settings
from reproductions.d4pg import config as d4pg_config
from reproductions.d4pg import experiments as d4pg
from reproductions.d4pg import settings as d4pg_settings
from reproductions.d4pg import sizes as d4pg_sizes

PAPERS = [registry.paper(name) for name in registry.paper_names()]
EXPERIMENTS = [one for paper in PAPERS for one in paper.experiments]


def names(paper, kind):
    return [one.name for one in registry.paper(paper).experiments if one.name.startswith(kind)]


def test_all_five_papers_are_there_with_their_figures_and_tables():
    assert registry.paper_names() == ("apex", "aql", "d4pg", "reactor", "refer")
    for paper, figures, tables in (
        ("apex", 14, 2),
        ("aql", 11, 0),
        ("d4pg", 10, 2),
        ("reactor", 7, 5),
        ("refer", 8, 0),
    ):
        assert names(paper, "figure") == [f"figure {n}" for n in range(1, figures + 1)]
        assert names(paper, "table") == [f"table {n}" for n in range(1, tables + 1)]


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.name)
def test_a_setting_means_the_same_in_every_experiment(paper):
    assert len({one.name for one in paper.experiments}) == len(paper.experiments)
    meaning = {}
    for run in (run for one in paper.experiments for run in one.every_run):
        assert meaning.setdefault((run.setting, run.environment), run) == run
    by_flags = {}
    for run in meaning.values():  # and no two names mean the same, apart from budgets
        key = (run.flags, run.environment, run.budget)
        assert by_flags.setdefault(key, run.setting) == run.setting


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda one: f"{one.paper} {one.name}")
def test_an_experiment_is_whole(experiment):
    paper = registry.paper(experiment.paper)
    assert len({(run.setting, run.environment) for run in experiment.runs}) == len(experiment.runs)
    assert bool(experiment.runs) or experiment.unavailable
    for part in experiment.parts:
        assert set(part.settings) <= set(experiment.settings)
        assert set(part.environments) <= set(experiment.environments)
    for scale in experiment.substitutes:
        assert paper.scale(scale) and experiment.at(scale).runs
    for run in experiment.every_run:
        assert experiment.budget_of(run).flags, "it would never end"
        assert run.program in paper.programs
        assert run.flags[0].startswith("--setting=")
        assert run.setting in paper.labels
        for flag in ("seed", "environment", "workdir", "max_minutes"):
            assert flag not in map(scales.flag_name, run.flags)


def test_numbers_of_runs():
    def size(paper, name):
        experiment = registry.paper(paper).experiment(name)
        return len(experiment.settings), len(experiment.environments), len(experiment.runs)

    assert size("d4pg", "figure 2") == (9, 16, 144)
    assert size("d4pg", "figure 8") == (3, 8, 24)
    assert size("apex", "table 2") == (1, 57, 57)
    assert size("apex", "figure 4") == (6, 6, 36)
    assert size("reactor", "table 5") == (3, 57, 171)
    assert size("aql", "figure 1") == (6, 39, 234)
    assert size("refer", "figure 1") == (5, 10, 50)


def test_tasks_of_the_control_suite_exist():
    named = {run.environment for one in EXPERIMENTS for run in one.every_run}
    wanted = {name for name in named if name.startswith("control:")}
    assert len(wanted) > 39 and wanted <= set(environments.names())


def test_settings_without_a_label_have_a_readable_one():
    def label(setting, paper="d4pg"):
        return registry.paper(paper).label(setting)

    assert label("d4pg_prioritized_n5") == "D4PG, Prioritized, N = 5"
    assert label("d4pg_prioritized_n5_beta0") == "D4PG, Prioritized, N = 5, beta = 0"
    assert label("d4pg_uniform_n5_beta0.4_lr1e-05") == (
        "D4PG, Non-Prioritized, N = 5, beta = 0.4, lr = 1e-05"
    )
    assert label("ddpg_remove_by_fifo") == "DDPG, remove by fifo"
    assert label("ddpgs") == "ddpgs"
    assert label("dqn_two_cores_n5", "apex") == "Ape-X DQN on two cores, n = 5"


def test_a_substitute_stands_in_at_its_scale_only():
    figure = registry.paper("apex").experiment("figure 13")
    assert figure.at("paper").runs == figure.runs and figure.at("paper").note == figure.note
    small = figure.at("two_cores")
    assert [run.flags[1] for run in small.runs] == [
        f"--num_actors={actors}" for actors in (2, 4, 8, 16, 32)
    ]
    assert "on two cores" in small.note and small.every_run == small.runs
    assert set(figure.every_run) == {*figure.runs, *small.runs}


def test_figure_14s_other_learning_rates_are_run_too():
    experiment = registry.paper("apex").experiment("section E")
    flags = {run.flags for run in experiment.runs if run.environment == "atari:pong"}
    assert ("--setting=dqn_replay_1m_lr0.00025", "--num_actors=256") in flags
    assert ("--setting=dqn_uniform_replay_1m_lr6.25e-05", "--num_actors=8") in flags
    tried = {run.flags[0].removeprefix("--setting=") for run in experiment.runs}
    assert {*dqn_settings.FIGURE_14_TRIED, *dqn_settings.APPENDIX_E} <= tried


def test_apexs_scale_two_cores_is_its_setting_for_two_cores():
    apex = registry.paper("apex")
    scale, module = apex.scale("two_cores"), "binaries.apex_dqn"
    changes = [change.flag for change in scale.changes_of(module, [])]
    for name, value in dqn_settings.TWO_CORES["dqn_two_cores"].items():
        assert f"--config.{name}={value}" in changes
    own = apex.experiment("figure 14").at("two_cores").runs[0]
    assert own.flags == ("--setting=dqn_two_cores",)
    assert [one.flag for one in scale.changes_of(module, own.choices)] == [
        "--num_actors=8",
        "--learner_threads=2",
        "--evaluation_seconds=120",
        "--evaluation_episodes=5",
    ]
    words = scale.differences(Budget(minutes=60), module, [])
    assert "samples per insert 8 instead of no limit" in words
    assert "replay capacity 200,000 instead of 2,000,000" in words
    assert "learning rate 0.0001 instead of 6.25e-05" in words


def test_what_cannot_be_run_says_why():
    paper = registry.paper("d4pg")
    assert paper.obstacle(paper.experiment("figure 2")) == ""
    assert "not public" in paper.obstacle(paper.experiment("figure 3"))
    reactor = registry.paper("reactor")
    assert reactor.obstacle(reactor.experiment("figure 3")) == "not yet implemented: Reactor"
    assert all(
        "not yet implemented: Reactor" in reactor.obstacle(one) for one in reactor.experiments
    )


def test_an_unknown_name_lists_those_there_are():
    with pytest.raises(UnknownError, match='"ape": there are apex, aql'):
        registry.paper("ape")
    with pytest.raises(UnknownError, match="D4PG has no figure 11: there are figure 1, "):
        registry.paper("d4pg").experiment("figure 11")
    with pytest.raises(UnknownError, match="no scale huge: there are paper, workstation"):
        registry.paper("d4pg").scale("huge")


def test_the_numbers_of_reference_lines_are_reported():
    lines = [(one.paper, line) for one in EXPERIMENTS for line in one.references]
    assert len(lines) > 10
    for paper, line in lines:
        assert reported.number(paper, line.source, line.row, line.column) > 0


def test_run_path():
    path = registry.run_path("d4pg", "smoke", "ddpg", "control:cartpole:swingup", 2)
    assert str(path) == "d4pg/smoke/ddpg/control-cartpole-swingup/seed_2"
    assert (registry.RESULTS / "runs").is_dir()


def test_a_runs_own_flags_win_over_its_scales():
    scale = Scale(
        "s",
        "",
        Budget(minutes=1),
        (
            Change("--num_actors=2", "2 actors instead of 8"),
            Change("--x=1", "x is 1"),
            Change("--y=1", "y is 1", program="binaries.other"),
        ),
    )
    assert [change.flag for change in scale.changes_of("binaries.one", ["--num_actors=1"])] == [
        "--x=1"
    ]
    assert scale.differences(Budget(minutes=60), "binaries.other", ["--num_actors=1"]) == [
        "1 minute instead of 1 hour",
        "x is 1",
        "y is 1",
    ]
    assert scales.PAPER.differences(Budget(minutes=60), "binaries.one", []) == []
    (words, *_) = scale.differences(Budget(minutes=60), "binaries.one", [], is_stated=False)
    assert words == "1 minute instead of 1 hour (not in the paper)"


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.name)
def test_the_papers_own_scale_changes_nothing(paper):
    own = paper.scale("paper")
    assert own is paper.scales[0] and own.changes == () and own.budget is None


def test_d4pgs_settings_and_size_are_those_of_its_agent():
    for name in ("figure 2", "figure 8", "section 4"):
        for run in registry.paper("d4pg").experiment(name).runs:
            setting = run.flags[0].removeprefix("--setting=")
            config = d4pg_settings.SETTINGS.configuration(setting)
            if "--config.noise=ou" in run.flags:
                config.noise = "ou"
            assert d4pg_settings.SETTINGS.name_of(setting, config) == run.setting
    humanoid = d4pg_sizes.sizes(d4pg_config.D4PGConfig(), EnvironmentSpec(67, 21))
    assert d4pg.PROGRAM.parameters == humanoid.parameters


def test_d4pgs_quickstart_is_the_scale_two_cores(monkeypatch):
    path = registry.RESULTS.parent / "reproductions/d4pg/quickstart.flags"
    flags = {line for line in path.read_text().splitlines() if line.startswith("--")}
    scale = registry.paper("d4pg").scale("two_cores")
    run = registry.paper("d4pg").experiment("figure 2").runs[-2]
    assert isinstance(run, Run)
    changed = {*scale.budget.flags, *(change.flag for change in scale.changes)}
    assert changed == {flag for flag in flags if not flag.startswith(("--env", "--workdir"))}
