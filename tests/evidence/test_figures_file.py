"""Tests of common.evidence.figures_file: what a figures.toml says, and what it may not say."""

import pytest

from common.evidence import figures_file
from common.evidence.figures_file import FileMistakeError, names
from common.evidence.paper import OverTasks, Returns, Style
from common.reporting.budget import Budget
from common.reporting.curves import COLOR_NAMES
from reproductions.d4pg.config import AGENT
from reproductions.d4pg.ppo.config import AGENT as PPO

HEAD = """
title = "D4PG"
citation = "Barth-Maron et al. 2018"
agents = ["d4pg", "d4pg_ppo"]
[tasks]
two = ["control:cartpole:{swingup,balance}"]
three = ["two", "control:finger:spin"]
[flags]
fast = ["--config.learning_rate=0.01"]
[curves]
ddpg = { flags = ["--num_actors=1"], fixed = ["--config.actor_period"] }
"{setting}_of_{actors}" = { flags = ["--num_actors={actors}"], minutes = 5 }
"{setting}_faster" = { flags = ["fast"] }
[looks]
"d{3,4}pg_uniform_n1" = { label = "D{}PG", color = "blue", line = "--" }
ddpg = { label = "DDPG" }
[scales.small]
title = "small"
learner_steps = 100
changes = ["--num_actors=8", { agent = "d4pg", flags = ["--config.batch_size=16"] }]
figures = { x = "learner_steps", seeds = 4 }
curves.ddpg = { flags = ["--num_actors=2"] }
"""


def read(tmp_path, text):
    file = tmp_path / "fake" / "figures.toml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(HEAD + text)
    return figures_file.read(file, {"d4pg": AGENT, "d4pg_ppo": PPO}.__getitem__)


def figure_of(tmp_path, text):
    return read(tmp_path, f'[figure.2]\ntitle = "a title"\n{text}').experiment("figure 2")


def test_braces_are_those_of_a_shell():
    assert names("d{3,4}pg_n{1,5}") == ("d3pg_n1", "d3pg_n5", "d4pg_n1", "d4pg_n5")
    assert names(["a{,_b}", "c"]) == ("a", "a_b", "c")
    assert names("a_{word}") == ("a_{word}",)


def test_curves_run_on_tasks_by_the_patterns_of_their_names(tmp_path):
    figure = figure_of(
        tmp_path,
        'curves = ["ddpg", "d4pg_uniform_n1_of_4", "ppo"]\ntasks = ["three"]\nflags = ["fast"]',
    )
    assert len(figure.runs) == 9 and figure.settings == ("ddpg", "d4pg_uniform_n1_of_4", "ppo")
    assert figure.environments == (
        "control:cartpole:swingup",
        "control:cartpole:balance",
        "control:finger:spin",
    )
    ddpg, uniform, ppo = figure.runs[::3]
    fast = "--config.learning_rate=0.01"
    assert ddpg.flags == ("--setting=ddpg", "--num_actors=1", fast) and ddpg.agent is AGENT
    assert ddpg.fixed == ("--config.actor_period",) and ddpg.budget is None
    assert uniform.flags == ("--setting=d4pg_uniform_n1", "--num_actors=4", fast)
    assert uniform.budget == Budget(minutes=5)
    assert ppo.agent is PPO and ppo.flags == ("--setting=ppo", fast)


def test_a_pattern_adds_flags_to_those_of_another_curve(tmp_path):
    curves = '["d4pg_uniform_n1_of_4_faster", "ddpg_faster"]'
    figure = figure_of(tmp_path, f'curves = {curves}\ntasks = "two"\nsmall = {{}}')
    uniform, ddpg = figure.runs[::2]
    fast = "--config.learning_rate=0.01"
    assert uniform.flags == ("--setting=d4pg_uniform_n1", "--num_actors=4", fast)
    assert uniform.budget == Budget(minutes=5)
    assert ddpg.flags == ("--setting=ddpg", "--num_actors=1", fast)
    assert ddpg.fixed == ("--config.actor_period",)
    assert figure.at("small").runs[2].flags == ("--setting=ddpg", "--num_actors=2", fast)


def test_flags_of_an_experiment_win_over_those_of_a_curve(tmp_path):
    runs = """
    runs = [
      { curves = "ddpg", flags = ["--num_actors=3"] },
      { curves = "ppo", tasks = "control:finger:spin" },
    ]
    tasks = "two"
    """
    figure = figure_of(tmp_path, runs)
    assert [run.flags[1:] for run in figure.runs] == [("--num_actors=3",)] * 2 + [()]
    assert figure.runs[2].environment == "control:finger:spin"


def test_a_scale_replaces_what_it_names(tmp_path):
    text = 'curves = "ddpg"\ntasks = "two"\nhours = 2\nover_tasks = "mean"\nnote = "n"\n'
    figure = figure_of(tmp_path, text)
    assert figure.substitutes == {} and figure.at("small") == figure
    assert figure.budget == Budget(minutes=120) and figure.over_tasks is OverTasks.MEAN
    figure = figure_of(tmp_path, f'{text}small = {{ returns = "all_actors", note = "m" }}')
    small = figure.at("small")
    assert [run.flags[1] for run in small.runs] == ["--num_actors=2"] * 2
    assert small.environments == figure.environments and small.note == "n; m"
    assert (small.x, small.returns) == ("learner_steps", Returns.ALL_ACTORS)
    assert figure.seeds_at("small") == 4 and figure.scaled is not None
    none = figure_of(tmp_path, f'{text}small.unavailable = "too long"').at("small")
    assert none.unavailable == "too long" and not none.runs


def test_a_scale_may_need_a_module(tmp_path):
    text = 'curves = "ddpg"\ntasks = "two"\n[figure.2.paper]\nunavailable = "none"\nneeds = '
    there, missing = (figure_of(tmp_path, f'{text}"{name}"').at("paper") for name in ("re", "_no"))
    assert there.unavailable == "" and missing.unavailable == "none"
    assert there.runs == missing.runs != ()


def test_defaults_are_those_of_what_has_runs_and_a_budget_replaces_theirs(tmp_path):
    paper = read(
        tmp_path,
        '[defaults]\nhours = 2\nseeds = 7\n[figure.1]\ntitle = "a"\nunavailable = "a drawing"\n'
        '[figure.2]\ntitle = "b"\ncurves = "ppo"\ntasks = "two"\nactor_steps = 9\n',
    )
    drawing, figure = paper.experiments
    assert drawing.seeds is None and drawing.budget == Budget()
    assert figure.seeds == 7 and figure.budget == Budget(actor_steps=9)


def test_looks_and_scales(tmp_path):
    paper = read(
        tmp_path, '[figure.2]\ntitle = "a"\ncurves = "d4pg_uniform_n1_of_4"\ntasks = "two"\n'
    )
    look = paper.looks["d3pg_uniform_n1"]
    assert look.label == "D3PG" and look.style == Style(COLOR_NAMES["blue"], "--")
    assert paper.label("d4pg_uniform_n1_of_4") == "D4PG"  # that of its setting
    assert paper.looks["ddpg"].style is None
    assert [scale.name for scale in paper.scales] == ["paper", "small"]
    changes = [(change.flag, change.agent) for change in paper.scale("small").changes]
    assert changes == [("--num_actors=8", None), ("--config.batch_size=16", AGENT)]
    assert paper.scale("small").budget == Budget(learner_steps=100)


@pytest.mark.parametrize(
    "text, words",
    [
        ('curves = "d5pg"\ntasks = "two"', "figure 2: d5pg is not a setting"),
        ('curves = "ddpg"\ntasks = "two"\nflags = ["slow"]', "figure 2: 'slow'"),
        ('curves = "ddpg"', "figure 2: 'tasks'"),
        ('color = "red"', "figure 2: .* unexpected keyword argument 'color'"),
        ('returns = "none"', "figure 2: 'NONE'"),
    ],
)
def test_mistakes_are_named(tmp_path, text, words):
    with pytest.raises(FileMistakeError, match=words) as caught:
        figure_of(tmp_path, text)
    assert "fake/figures.toml" in str(caught.value)
