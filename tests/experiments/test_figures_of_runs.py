"""What a figure is made of: which runs, which seeds, whose episodes, what stands under it."""

import dataclasses

import numpy as np
import pytest

from common.experiments import figures, registry, selection
from common.experiments.captions import caption
from common.experiments.registry import Band, OverTasks, Returns
from common.experiments.runs import KeptRuns
from common.reporting import bars, panels
from planted_curves import plant_run

D4PG = registry.paper("d4pg")
FIGURE_2 = D4PG.experiment("figure 2")
CARTPOLE, FINGER = "control:cartpole:swingup", "control:finger:turn_hard"
FULL = "d4pg_prioritized_n5"


@pytest.fixture(name="drawn")
def _drawn(monkeypatch):
    """What is drawn, instead of pictures."""
    calls = []
    monkeypatch.setattr(panels, "draw", lambda *arguments: calls.append(arguments))
    monkeypatch.setattr(bars, "draw", lambda *arguments: calls.append(arguments))
    return calls


def runs_of(root, paper="d4pg", scale="two_cores"):
    return KeptRuns(root, pytest.fail).of(paper, scale)


def test_figure_2_is_sixteen_panels_and_means_over_seeds(tmp_path, drawn):
    for seed, level in enumerate((100.0, 300.0)):
        plant_run(tmp_path, FULL, CARTPOLE, seed, [level] * 5, seconds=300 + 30 * seed)
    plant_run(tmp_path, "ddpg", FINGER, 0, [50.0] * 5, seconds=600)
    figures.draw(D4PG, FIGURE_2, "two_cores", runs_of(tmp_path), tmp_path)
    ((grid, axes, title, words, path),) = drawn
    assert [panel.title for panel in grid][:4] == [
        "acrobot swingup", "acrobot swingup sparse", "cartpole swingup", "cartpole swingup sparse"]
    assert len(grid) == 16 and [len(panel.curves) for panel in grid] == [
        0, 0, 1, 0, 0, 0, 1] + 9 * [0]
    (curve,) = grid[2].curves
    assert curve.label == "D4PG, Prioritized, N = 5"
    assert set(curve.middle) == {200.0} and set(curve.low) == {100.0} and set(curve.high) == {300.0}
    assert curve.x[-1] == 300  # as long as both last
    assert grid[2].end == 330 and grid[6].curves[0].low is None
    assert (axes.x_limit, axes.y_limits) == (600, (0, 1000))
    assert title.startswith("D4PG, figure 2") and path.name == "d4pg_figure_2_two_cores"
    assert "without exploration" in words and "1 to 2 seeds" in words
    assert "8 actors instead of 32" in words and "the paper: 12 hours" in words
    assert "Not run: D3PG, Non-Prioritized, N = 1" in words


def test_the_papers_axis_where_our_runs_cover_enough_of_it(tmp_path, drawn):
    plant_run(tmp_path, FULL, CARTPOLE, 0, [1.0] * 5, seconds=600)
    plant_run(tmp_path, FULL, CARTPOLE, 0, [1.0] * 5, seconds=9 * 3600, scale="paper")
    figures.draw(D4PG, FIGURE_2, "two_cores", runs_of(tmp_path), tmp_path)
    figures.draw(D4PG, FIGURE_2, "two_cores", runs_of(tmp_path), tmp_path, whole_axis=True)
    figures.draw(D4PG, FIGURE_2, "paper", runs_of(tmp_path, scale="paper"), tmp_path)
    assert [call[1].x_limit for call in drawn] == [600, 12 * 3600, 12 * 3600]
    assert drawn[2][4].name == "d4pg_figure_2"


def test_everything_of_a_scale_has_a_panel_a_task(tmp_path, drawn):
    plant_run(tmp_path, FULL, CARTPOLE, 0, [1.0] * 5)
    plant_run(tmp_path, f"{FULL}_beta0", CARTPOLE, 0, [1.0] * 5)
    plant_run(tmp_path, FULL, FINGER, 0, [1.0] * 5)
    runs = runs_of(tmp_path)
    figures.draw(D4PG, figures.all_runs(D4PG, "two_cores", runs), "two_cores", runs, tmp_path)
    ((grid, axes, _, _, path),) = drawn
    assert [len(panel.curves) for panel in grid] == [2, 1] and axes.x_limit is None
    assert path.name == "d4pg_two_cores"
    assert [one.name for one in figures.drawn(D4PG, "two_cores", runs)] == ["runs", "figure 2"]
    assert [one.name for one in figures.drawn(D4PG, "quickstart", runs)] == ["runs"]


@pytest.mark.parametrize("returns, words, level", [
    (Returns.EVALUATOR, "evaluations without exploration", 7),
    (Returns.GREEDIEST_ACTOR, "training episodes of the greediest actor", 100),
    (Returns.ALL_ACTORS, "training episodes of all actors", 50),
])
def test_each_figure_uses_and_names_what_its_paper_used(tmp_path, drawn, returns, words, level):
    episodes = [(30.0 * i, actor, 100.0 * actor) for i in range(1, 11) for actor in (0, 1)]
    plant_run(tmp_path, FULL, CARTPOLE, 0, [7.0] * 5, num_actors=2, episodes=episodes)
    experiment = dataclasses.replace(FIGURE_2, returns=returns)
    figures.draw(D4PG, experiment, "two_cores", runs_of(tmp_path), tmp_path)
    ((grid, _, _, under, _),) = drawn
    assert set(grid[2].curves[0].middle) == {level} and f"Returns of {words}." in under


def test_the_registry_says_whose_returns_as_the_papers_do():
    def returns(paper, name):
        return registry.paper(paper).experiment(name).returns

    assert returns("d4pg", "figure 2") is Returns.EVALUATOR
    assert returns("apex", "figure 4") is returns("apex", "figure 11") is Returns.GREEDIEST_ACTOR
    assert returns("refer", "figure 1") is Returns.ALL_ACTORS


def test_bands_are_the_papers():
    values = np.arange(5.0)[:, np.newaxis]
    assert figures._band(values, Band.UNSTATED) == (0, 4)
    assert np.allclose(figures._band(values, Band.PERCENTILES_20_80), [[0.8], [3.2]])
    error = np.std(np.arange(5), ddof=1) / np.sqrt(5)
    assert np.allclose(figures._band(values, Band.STANDARD_ERROR), [[2 - error], [2 + error]])
    assert figures._band(values[:1], Band.UNSTATED) == (None, None)


def test_means_over_tasks_are_of_those_that_all_have(tmp_path, drawn):
    for setting, tasks in ((FULL, (CARTPOLE, FINGER)), ("ddpg", (CARTPOLE,))):
        for task in tasks:
            plant_run(tmp_path, setting, task, 0, [100.0 if task == CARTPOLE else 900.0] * 5)
    experiment = dataclasses.replace(FIGURE_2, over_tasks=OverTasks.MEAN)
    figures.draw(D4PG, experiment, "two_cores", runs_of(tmp_path), tmp_path)
    ((grid, *_),) = drawn
    assert [panel.title for panel in grid] == ["1 of 16 tasks"]
    assert [set(curve.middle) for curve in grid[0].curves] == [{100.0}, {100.0}]


def test_medians_over_games_are_in_percent_of_a_human_beside_what_is_reported(tmp_path, drawn):
    apex = registry.paper("apex")
    for game, score in (("pong", 14.6), ("boxing", 0.1), ("freeway", 14.8)):  # 100, 0 and 50 %
        plant_run(tmp_path, "dqn", f"atari:{game}", 0, [score] * 5, paper="apex", scale="paper",
                  frames_per_step=4)
    figures.draw(apex, apex.experiment("figure 2"), "paper", runs_of(tmp_path, "apex", "paper"),
                 tmp_path)
    ((grid, axes, *_),) = drawn
    assert np.allclose(grid[0].curves[0].middle, 50, atol=0.1)
    assert grid[0].lines[0] == (434.0, "Ape-X DQN, reported: 434") and axes.y_limits is None


def test_a_figure_without_axis_is_bars_of_final_values(tmp_path, drawn):
    aql = registry.paper("aql")
    for seed, level in enumerate((100.0, 200.0)):
        plant_run(tmp_path, "aql", "control:walker:run", seed, [0.0] * 18 + [level] * 2,
                  paper="aql")
    figures.draw(aql, aql.experiment("figure 7"), "two_cores", runs_of(tmp_path, "aql"), tmp_path)
    ((groups, *_),) = drawn
    ((name, (bar,)),) = groups.items()
    assert (name, bar.value, bar.low, bar.high) == ("walker run", 150, 100, 200)


def test_nothing_to_draw_is_an_error(tmp_path):
    (plant_run(tmp_path, FULL, CARTPOLE, 0, [1.0]) / "evaluator.csv").unlink()
    with pytest.raises(ValueError, match="no run of figure 2 at the scale two_cores"):
        figures.draw(D4PG, FIGURE_2, "two_cores", runs_of(tmp_path), tmp_path)


def test_captions_count_in_the_papers_quantity(tmp_path):
    aql = registry.paper("aql")
    plant_run(tmp_path, "aql", "control:walker:run", 0, [1.0] * 5, paper="aql", steps=20_000)
    runs = runs_of(tmp_path, "aql")
    words = caption(aql, aql.experiment("figure 10"), "two_cores", runs, ["aql"])
    assert "runs of 20,000 actor steps (the paper: 200,000,000 actor steps)" in words
    assert "One seed each (the paper: 3)." in words


def test_scales_are_ordered_by_how_near_they_are_to_the_papers(tmp_path):
    for scale in ("quickstart", "smoke", "two_cores"):
        plant_run(tmp_path, FULL, CARTPOLE, 0, [1.0], scale=scale)
    kept = KeptRuns(tmp_path, pytest.fail)
    assert selection.scales_of(D4PG, kept) == ("two_cores", "smoke", "quickstart")
    assert selection.nearest_scale(D4PG, kept, bool) == "two_cores"
    assert selection.nearest_scale(D4PG, kept, lambda runs: False) is None
