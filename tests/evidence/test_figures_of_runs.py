"""What a figure is made of: which runs, which seeds, whose episodes, what stands under it."""

import dataclasses
import pathlib
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pandas
from planted_curves import plant_run, planting
import pytest

from common.evidence import drawing, figures, panels, selection
from common.evidence.paper import RESULTS, OverTasks, Part, Returns
from common.evidence.reported import Reported
from common.evidence.runs import KeptRuns
from common.evidence.selection import caption, task_title
import reproductions

D4PG = reproductions.paper("d4pg")
FIGURE_2 = D4PG.experiment("figure 2")
CARTPOLE, FINGER = "control:cartpole:swingup", "control:finger:turn_hard"
FULL = "d4pg_prioritized_n5"


class Page(NamedTuple):
    """What is on a page, its parts or the bars by group, and what it is saved with."""

    shown: tuple | dict
    title: str
    words: str
    path: pathlib.Path


@pytest.fixture(name="draw")
def _draw(monkeypatch, tmp_path):
    """draw(paper, experiment, ...) -> the only page that is drawn, of the runs in `tmp_path`."""
    pages = []

    def page(shown, *_):
        return SimpleNamespace(save=lambda *saved: pages.append(Page(shown, *saved[:3])))

    monkeypatch.setattr(panels, "draw", page)
    monkeypatch.setattr(drawing, "bars", page)

    def draw(paper=D4PG, experiment=FIGURE_2, scale="two_cores", **options):
        if isinstance(experiment, str):
            experiment = paper.experiment(experiment)
        runs = runs_of(tmp_path, paper.name, scale)
        figures.draw(paper, experiment, scale, runs, tmp_path, **options)
        return pages.pop()

    return draw


def runs_of(root, paper="d4pg", scale="two_cores"):
    return KeptRuns(root).of(paper, scale)


def counts(page):
    """The number of curves in each panel of each part."""
    return [[len(panel.curves) for panel in part.panels] for part in page.shown]


def test_figure_2_is_a_panel_for_each_task_with_runs_and_means_over_seeds(tmp_path, draw):
    for seed, level in enumerate((100.0, 200.0, 300.0)):
        plant_run(tmp_path, FULL, CARTPOLE, seed, [level] * 5, seconds=300 + 15 * seed)
    plant_run(tmp_path, "ddpg", FINGER, 0, [50.0] * 5, seconds=600)
    page = draw()
    (part,) = page.shown
    cartpole, finger = part.panels
    assert (cartpole.title, finger.title) == ("cartpole swingup", "finger turn hard")
    (curve,) = cartpole.curves
    assert curve.label == "D4PG, Prioritized, N = 5"
    ends = {name: getattr(curve, name)[-1] for name in ("low", "middle", "high")}
    assert ends == {"low": 150.0, "middle": 200.0, "high": 250.0}
    assert curve.x[0] == 0 == curve.middle[0]  # an untrained agent's return
    assert curve.x[-1] == 300  # as long as both last
    assert cartpole.end == 300 and finger.curves[0].low is None
    assert part.x_limit == 600 and cartpole.y_limits == finger.y_limits == (0, 1000)
    assert page.title.startswith("D4PG, figure 2, scale two_cores. Control Suite: ")
    assert page.path.name == "d4pg_figure_2_two_cores.png"
    assert page.words == (
        "returns of: evaluations; seeds: 1 to 3; "
        "shaded: 25th to 75th percentile of seeds (the paper does not say); "
        "runs: 5 to 10 minutes; the paper's runs: 12 hours; curves not run: 8/10; "
        "tasks not run: 14/16; "
        "note: ddpg_lillicrap is a second reading of the paper's DDPG; cheetah walk is not in "
        "dm_control: we chose its target speed, 1 m/s"
    )


def test_seeds_that_were_evaluated_at_other_positions_share_a_curve(tmp_path, draw):
    for seed, number in enumerate((8, 30, 10)):
        line = np.linspace(1000 / number, 1000, number)
        plant_run(tmp_path, FULL, CARTPOLE, seed, line)
    (part,) = draw().shown
    (curve,) = part.panels[0].curves
    assert curve.x[0] == 0 and curve.x[-1] == 300
    for values in (curve.low, curve.middle, curve.high):
        assert values == pytest.approx(curve.x / 300 * 1000)


def test_a_panel_does_not_mix_runs_that_were_evaluated_by_two_rules(tmp_path, draw):
    for seed, number in enumerate((8, 30, 30)):
        plant_run(tmp_path, FULL, CARTPOLE, seed, [float(number)] * number, scale="small")
    plant_run(tmp_path, "ddpg", CARTPOLE, 0, [8.0] * 8, scale="small")
    for setting in (FULL, "ddpg"):
        plant_run(tmp_path, setting, "control:cheetah:walk", 0, [8.0] * 8, scale="small")
    page = draw(scale="small")
    # More of the curves have runs with few evaluations.
    for panel in page.shown[0].panels:
        assert [curve.middle[-1] for curve in panel.curves] == [8.0, 8.0]
    assert "left out: 2 runs, evaluated at other intervals;" in page.words
    assert "curves not run: 8/10;" in page.words
    # A curve without any other run is left out, which does not mean that it was not run.
    for setting, number in (("d3pg_uniform_n1", 8), ("d4pg_uniform_n5", 30)):
        plant_run(tmp_path, setting, CARTPOLE, 0, [float(number)] * number, scale="small")
    words = draw(scale="small").words
    assert "left out: 3 runs, evaluated at other intervals;" in words
    assert "curves not run: 6/10;" in words


def test_a_curve_is_smoothed_over_the_papers_points(tmp_path, draw):
    apex = reproductions.paper("apex")
    figure = apex.experiment("figure 5")
    assert figure.smoothed == 20 and figure.at("small").smoothed == 1
    episodes = [(seconds, 7, float(seconds)) for seconds in range(10, 310, 10)]
    run = {"paper": "apex", "scale": "paper", "agent_setting": "dqn", "episodes": episodes}
    curve = "dqn_256_actors_replay_2m"
    plant_run(tmp_path, curve, "atari:qbert", 0, [0.0] * 30, **run)
    page = draw(apex, figure, "paper")
    (curve,) = page.shown[0].panels[0].curves
    assert curve.middle[-1] == pytest.approx(np.arange(110, 310, 10).mean())
    assert "smoothed: over 20 points;" in page.words


def test_divergences_are_drawn_in_powers_of_ten(tmp_path, draw):
    refer = reproductions.paper("refer")
    run = {"paper": "refer", "scale": "workstation", "learner": {"kl_divergence": 3.0}}
    plant_run(tmp_path, "ddpg_er", "gym:Ant-v4", 0, [1.0] * 5, **run)
    (part,) = draw(refer, "figure 2", "workstation").shown
    assert part.is_log and part.y_label == "KL divergence"


def test_the_papers_axis_where_our_runs_cover_enough_of_it(tmp_path, draw):
    plant_run(tmp_path, FULL, CARTPOLE, 0, [1.0] * 5, seconds=600)
    plant_run(tmp_path, FULL, CARTPOLE, 0, [1.0] * 5, seconds=9 * 3600, scale="paper")
    pages = [draw(), draw(scale="paper")]
    assert [page.shown[0].x_limit for page in pages] == [600, 12 * 3600]
    assert pages[1].path.name == "d4pg_figure_2.png"


def test_everything_of_a_scale_has_a_panel_a_task(tmp_path, draw):
    plant_run(tmp_path, FULL, CARTPOLE, 0, [1.0] * 5)
    plant_run(tmp_path, f"{FULL}_beta0", CARTPOLE, 0, [1.0] * 5)
    plant_run(tmp_path, FULL, FINGER, 0, [1.0] * 5)
    runs = runs_of(tmp_path)
    page = draw(experiment=figures.all_runs(D4PG, "two_cores", runs))
    assert counts(page) == [[2, 1]] and page.shown[0].x_limit is None
    assert page.path.name == "d4pg_two_cores.png"
    assert names_drawn(D4PG, runs, "quickstart") == ["runs"]


def test_a_section_is_drawn_if_it_has_runs_that_are_in_no_figure(tmp_path):
    """Section 3 has figure 2's curves in addition to its own, without importance weights."""
    for setting in (FULL, "ddpg"):
        plant_run(tmp_path, setting, CARTPOLE, 0, [1.0] * 5)
    assert names_drawn(D4PG, runs_of(tmp_path)) == ["figure 2"]
    plant_run(tmp_path, f"{FULL}_beta0", CARTPOLE, 0, [1.0] * 5)
    assert names_drawn(D4PG, runs_of(tmp_path)) == ["figure 2", "section 3"]


def names_drawn(paper, runs, scale="two_cores"):
    return [figure.name for figure in figures.drawn(paper, scale, runs)]


def test_a_figure_is_drawn_if_it_compares(tmp_path):
    """Everything that was run is drawn as long as it has curves that no figure has."""
    plant_run(tmp_path, FULL, CARTPOLE, 0, [1.0] * 5)
    plant_run(tmp_path, "ddpg", FINGER, 0, [1.0] * 5)
    assert names_drawn(D4PG, runs_of(tmp_path)) == ["runs"]
    plant_run(tmp_path, "ddpg", CARTPOLE, 0, [1.0] * 5)
    assert names_drawn(D4PG, runs_of(tmp_path)) == ["figure 2"]
    plant_run(tmp_path, f"{FULL}_beta0", FINGER, 0, [1.0] * 5)
    assert names_drawn(D4PG, runs_of(tmp_path)) == ["runs", "figure 2"]


def test_every_kept_run_is_in_a_picture():
    kept = KeptRuns(RESULTS / "runs")
    for paper in reproductions.papers():
        for scale in selection.scales_of(paper, kept):
            runs = kept.of(paper.name, scale)
            shown = {
                curve
                for figure in figures.drawn(paper, scale, runs)
                for curve in figures._curves(figure, runs)
            }
            assert shown == {(run.setting, run.environment) for run in runs}


@pytest.mark.parametrize(
    "environment, words",
    [
        ("control:cartpole:swingup_sparse", "cartpole swingup sparse"),
        ("atari:ms_pacman", "ms pacman"),
        ("gym:Humanoid-v4", "Humanoid"),
        ("python:reproductions.aql.match:make_21", "match 21"),
        ("python:reproductions.aql.rover:make", "rover"),
        ("python:mine:make_it", "mine it"),
        ("", ""),
    ],
)
def test_a_task_in_words(environment, words):
    assert task_title(environment) == words


def test_known_levels_are_lines_in_their_panels(tmp_path, draw):
    aql = reproductions.paper("aql")
    section = aql.experiment("section match")
    for environment in section.environments[1:]:
        plant_run(tmp_path, "aql", environment, 0, [30.0] * 5, paper="aql", scale="small")
    page = draw(aql, section, "small")
    assert page.title.startswith("AQL, section match, scale small. Match, not in the paper: ")
    label, grid = "a perfect Q, 500 uniform samples", page.shown[0].panels
    lines = [[(round(value, 1), text) for value, text in panel.lines] for panel in grid]
    assert lines == [[(49.4, label)], [(37.4, label)]]


def test_everything_is_without_runs_made_to_measure_speed(tmp_path):
    for setting in ("dqn_two_cores_8_actors", "dqn_two_cores"):
        plant_run(tmp_path, setting, "atari:pong", 0, [1.0] * 5, paper="apex")
    runs, apex = runs_of(tmp_path, "apex"), reproductions.paper("apex")
    assert figures.all_runs(apex, "two_cores", runs).settings == ("dqn_two_cores",)
    speeds = [run for run in runs if run.setting == "dqn_two_cores_8_actors"]
    assert names_drawn(apex, speeds) == ["figure 13"]


@pytest.mark.parametrize(
    "returns, words, level",
    [
        (Returns.EVALUATOR, "evaluations", 7),
        (Returns.GREEDIEST_ACTOR, "the greediest actor in training", 100),
        (Returns.ALL_ACTORS, "all actors in training", 50),
    ],
)
def test_each_figure_uses_and_names_what_its_paper_used(tmp_path, draw, returns, words, level):
    episodes = [(30.0 * i, actor, 100.0 * actor) for i in range(1, 11) for actor in (0, 1)]
    plant_run(tmp_path, FULL, CARTPOLE, 0, [7.0] * 5, num_actors=2, episodes=episodes)
    page = draw(experiment=dataclasses.replace(FIGURE_2, returns=returns))
    assert page.shown[0].panels[0].curves[0].middle[-1] == level
    assert f"returns of: {words};" in page.words


def test_bands_are_the_papers_for_three_seeds_or_more():
    values = np.arange(5.0)[:, np.newaxis]

    def band(*tasks, over_tasks=OverTasks.MEAN, paper=D4PG):
        experiment = dataclasses.replace(FIGURE_2, over_tasks=over_tasks)
        found = figures._Part(paper, experiment, {}, Reported())._over_seeds(tasks)
        return [None if end is None else end.item() for end in found]

    assert band(values) == [2, 1, 3]
    refer, aql = reproductions.paper("refer"), reproductions.paper("aql")
    assert band(values, paper=refer) == pytest.approx([2, 0.8, 3.2])
    error = np.sqrt(2.5 / 5)  # of a task; of the mean of two it is less by the root of two
    assert band(values, paper=aql) == pytest.approx([2, 2 - error, 2 + error])
    of_two = error / np.sqrt(2)
    assert band(values, 10 + values, paper=aql) == pytest.approx([7, 7 - of_two, 7 + of_two])
    assert band(values[:2]) == [0.5, None, None]
    assert band(values, 10 + values) == [7, 6, 8]
    tasks = (values, 10 + values[:3], 20 + values)
    assert band(*tasks, over_tasks=OverTasks.MEDIAN_NORMALISED) == [11, 10.5, 11.5]
    assert band(values, values[:2]) == [1.25, None, None]


def test_means_over_tasks_are_of_those_that_all_have(tmp_path, draw):
    for setting, tasks in ((FULL, (CARTPOLE, FINGER)), ("ddpg", (CARTPOLE,))):
        for task in tasks:
            plant_run(tmp_path, setting, task, 0, [100.0 if task == CARTPOLE else 900.0] * 5)
    experiment = dataclasses.replace(FIGURE_2, over_tasks=OverTasks.MEAN)
    page = draw(experiment=experiment)
    (panel,) = page.shown[0].panels
    assert panel.title == "1 of 16 tasks"
    assert [curve.middle[-1] for curve in panel.curves] == [100.0, 100.0]
    assert "over tasks: mean over tasks; tasks: cartpole swingup;" in page.words
    runs = tuple(run for run in FIGURE_2.runs if run.environment in (CARTPOLE, FINGER))
    page = draw(experiment=dataclasses.replace(experiment, runs=runs))
    assert "curves not run: 8/10; tasks not run: finger turn hard;" in page.words


@pytest.mark.parametrize("x", ["wall_seconds", ""])
def test_more_seeds_on_one_task_do_not_leave_another_task_out(tmp_path, draw, x):
    """The mean over tasks is that of each task's mean over its own seeds."""
    for seed, level in enumerate((100.0, 200.0, 600.0)):
        plant_run(tmp_path, FULL, CARTPOLE, seed, [0.0] * 3 + [level] * 2)
    for seed, level in enumerate((500.0, 900.0)):
        plant_run(tmp_path, FULL, FINGER, seed, [0.0] * 3 + [level] * 2)
    experiment = dataclasses.replace(FIGURE_2, over_tasks=OverTasks.MEAN, x=x)
    shown = draw(experiment=experiment).shown
    if x:
        ((panel,),) = (part.panels for part in shown)
        title, end = panel.title, panel.curves[0].middle[-1]
    else:
        ((title, (bar,)),) = shown.items()
        end = bar.value
    assert (title, end) == ("2 of 16 tasks", 500)


def test_both_halves_of_a_figure_are_drawn_each_with_what_its_paper_used(tmp_path, draw):
    apex = reproductions.paper("apex")
    run = {"num_actors": 2, "episodes": [(100.0, 0, 1.0), (200.0, 1, 9.0)]}
    with planting(tmp_path, "apex", "paper") as plant:
        for game, score in (("pong", 14.6), ("breakout", 1.7), ("qbert", 163.9)):  # 100, 0, 0 %
            plant("dqn", f"atari:{game}", 0, [score] * 5, **run)
    page = draw(apex, "figure 2", "paper")
    axes, other_axes = page.shown
    left, right = axes.panels, other_axes.panels
    # The left half has points: our training time and median, then those of the paper's table 1.
    ours, reported, *_ = left[0].curves
    assert (ours.x.tolist(), ours.middle.tolist()) == ([300.0], [pytest.approx(0, abs=0.1)])
    assert (reported.x.tolist(), reported.middle.tolist()) == ([5 * 86_400.0], [434.0])
    assert reported.label == "Ape-X DQN, reported" and axes.x_limit == 10 * 86_400
    assert left[0].y_limits is None and not left[0].lines
    assert [panel.title for panel in right] == ["breakout", "qbert"]
    assert [len(panel.curves) for panel in right] == [1, 1]
    assert set(right[0].curves[0].middle) == {9.0}
    papers = (800.9, "Ape-X DQN, reported")
    assert right[0].lines == ((30.5, "a human"), (1.7, "random play"), papers)
    assert other_axes.y_label == "episode return" != axes.y_label
    assert "returns of: left evaluations, right the greediest actor in training; " in page.words


def test_a_scale_may_have_other_runs_in_an_experiments_place(tmp_path, draw):
    apex = reproductions.paper("apex")
    with planting(tmp_path, "apex", "small") as plant:
        for capacity, setting in (("250k", "dqn_replay_250k"), ("2m", "dqn")):
            name = f"dqn_128_actors_replay_{capacity}"
            plant(name, "minatar:breakout", 0, [1.0], agent_setting=setting)
    runs = runs_of(tmp_path, "apex", "small")
    assert names_drawn(apex, runs, "small") == ["figure 5"]
    assert names_drawn(apex, runs, "workstation") == ["runs"]
    kept = KeptRuns(tmp_path)
    assert selection.nearest_scale(apex, kept, apex.experiment("figure 5")) == "small"
    page = draw(apex, "figure 5", "small")
    assert counts(page) == [[2]]
    assert page.shown[0].x_column == "learner_steps"  # the substitute's, not the paper's hours
    assert "labels show the paper's capacities" in page.words


def test_a_part_that_would_repeat_curves_of_another_is_left_out(tmp_path, draw):
    suffix, numbers = "_lr5e-05_vmin-1_vmax10", []
    for setting in ("ppo", f"d4pg_prioritized_n5{suffix}", f"d4pg_prioritized_n1{suffix}"):
        plant_run(tmp_path, setting, "parkour:planar", 0, [0.0, 1.0], scale="small")
        numbers.append(counts(draw(experiment="figure 5", scale="small")))
    assert numbers[1:] == [[[2]] * 2, [[2]] * 4]  # time and steps of N = 1 and of N = 5
    titles = [part.titles for part in draw(experiment="figure 5", scale="small").shown]
    assert titles == [["planar, N = 1"], ["planar, N = 5"]] * 2


def test_a_task_with_only_the_curve_of_all_rows_is_left_out(tmp_path, draw):
    refer = reproductions.paper("refer")
    for setting, task in (
        ("vracer_refer", "gym:Walker2d-v4"),
        ("vracer_refer", "gym:HalfCheetah-v4"),
        ("vracer_refer_C8", "gym:HalfCheetah-v4"),
        ("vracer_refer_F4", "gym:HalfCheetah-v4"),
    ):
        plant_run(tmp_path, setting, task, 0, [0.0, 1.0], paper="refer", scale="small")
    titles = [part.titles for part in draw(refer, "figure 7", "small").shown]
    assert titles == [["HalfCheetah, C (default 4)"], ["HalfCheetah, F (default 1)"]]


def test_a_part_of_another_quantity_has_its_row_whatever_curves_it_lacks(tmp_path, draw):
    for setting in (FULL, "ddpg"):
        plant_run(tmp_path, setting, CARTPOLE, 0, [1.0] * 5)
    parts = (Part("returns"), Part("speed", (FULL,), overrides={"y": "actor_steps_per_second"}))
    assert counts(draw(experiment=dataclasses.replace(FIGURE_2, parts=parts))) == [[2], [1]]


def test_a_figure_without_axis_is_bars_of_final_values(tmp_path, draw):
    aql = reproductions.paper("aql")
    for seed, level in enumerate((100.0, 200.0)):
        returns = [0.0] * 13 + [level] * 7
        plant_run(tmp_path, "aql", "control:walker:run", seed, returns, paper="aql")
    ((name, (bar,)),) = draw(aql, "figure 7").shown.items()
    assert (name, bar.value, bar.low, bar.seeds) == ("walker run", 150, None, (100, 200))
    assert list(draw(aql, "figure 2").shown) == ["medium, 1 of 15 tasks"]


def test_a_speed_is_a_mean_over_time_not_over_rows():
    # A short row at the end, as a run leaves it when it stops.
    speeds = pandas.Series([10.0, 100.0, 100.0, 400.0], index=[30.0, 45.0, 58.0, 60.0])
    assert selection.final_of("actor_steps_per_second")[0](speeds) == pytest.approx(120)
    assert selection.final_of("episode_return_mean")[0](speeds) == 200


def test_captions_count_in_the_papers_quantity(tmp_path):
    aql = reproductions.paper("aql")
    plant_run(tmp_path, "aql", "control:walker:run", 0, [1.0] * 5, paper="aql", steps=20_000)
    runs = runs_of(tmp_path, "aql")
    words = caption(aql, aql.experiment("figure 10"), runs, ["aql"])
    assert "runs: 20,000 actor steps; the paper's runs: 200,000,000 actor steps;" in words
    assert "seeds: 1; the paper's seeds: 3;" in words


@pytest.mark.parametrize("x, name", [("wall_seconds", "shaded"), ("", "bars")])
def test_captions_tell_of_a_band_only_if_there_is_one(tmp_path, draw, x, name):
    """A mean over tasks has a band if each task has enough seeds; a task's own curve needs its."""
    mean = dataclasses.replace(FIGURE_2, over_tasks=OverTasks.MEAN, x=x)
    apart = dataclasses.replace(FIGURE_2, x=x)
    halves = (Part("left"), Part("right", overrides={"over_tasks": OverTasks.APART}))
    plant_run(tmp_path, FULL, FINGER, 0, [1.0] * 5)
    for seed in range(3):
        assert f"{name}: " not in draw(experiment=apart).words
        plant_run(tmp_path, FULL, CARTPOLE, seed, [1.0] * 5)
    assert f"{name}: 25th to 75th percentile" in draw(experiment=apart).words
    assert f"{name}: " in draw(experiment=dataclasses.replace(mean, parts=halves)).words
    for seed in (1, 2):
        assert f"{name}: " not in draw(experiment=mean).words
        plant_run(tmp_path, FULL, FINGER, seed, [1.0] * 5)
    assert f"{name}: " in draw(experiment=mean).words


def test_scales_are_ordered_by_how_near_they_are_to_the_papers(tmp_path):
    for scale in ("quickstart", "smoke", "two_cores"):
        plant_run(tmp_path, FULL, CARTPOLE, 0, [1.0], scale=scale)
    kept = KeptRuns(tmp_path)
    assert selection.scales_of(D4PG, kept) == ("two_cores", "smoke", "quickstart")
    assert selection.nearest_scale(D4PG, kept) == "two_cores"
    assert selection.nearest_scale(reproductions.paper("aql"), kept) is None
