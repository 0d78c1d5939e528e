"""Aggregates of Agarwal et al. 2021 against their definitions, and planted runs."""

import itertools

import numpy as np
import pandas
from planted_curves import plant_run
import pytest
from scipy import stats

from common.evidence import aggregate_figure, aggregates, effects
from common.evidence.claims import Evidence
from common.evidence.paper import RESULTS
from common.evidence.reported import Reported
from common.evidence.runs import KeptRuns
from common.reporting.budget import Budget
import reproductions

FIRST = [np.array([0.1, 0.5, 0.9]), np.array([0.2, 0.2, 0.4, 0.8, 1.0])]
SECOND = [np.array([0.0, 0.5]), np.array([0.3, 0.9, 0.1])]


def test_the_interquartile_mean_is_of_the_middle_half_of_all_runs():
    # Of 0.1 0.2 0.2 0.4 0.5 0.8 0.9 1.0 the middle half is 0.2 0.4 0.5 0.8.
    assert aggregates.interquartile_mean(FIRST) == pytest.approx(1.9 / 4)


def test_a_profile_is_the_part_of_the_runs_above_each_score():
    above = np.array([0.0, 0.2, 0.5, 1.0])
    counts = np.array([[3, 2, 1, 0], [5, 3, 2, 0]])
    expected = (counts[0] / 3 + counts[1] / 5) / 2
    np.testing.assert_allclose(aggregates.performance_profile(FIRST, above), expected)


def test_the_probability_of_improvement_is_mann_whitneys_u_over_the_pairs():
    by_task = [
        stats.mannwhitneyu(x, y).statistic / (len(x) * len(y)) for x, y in zip(FIRST, SECOND)
    ]
    assert by_task[0] == (1 + 1.5 + 2) / 6  # 0.5 ties with 0.5
    found = aggregates.probability_of_improvement(FIRST, SECOND)
    assert found == pytest.approx(np.mean(by_task))
    assert aggregates.probability_of_improvement(SECOND, FIRST) == pytest.approx(1 - found)


def test_intervals_are_of_resamples_within_each_task():
    """Tasks that differ and runs that do not leave nothing to chance; more runs narrow it."""
    alike = [np.full(5, 0.1), np.full(5, 0.9)]
    assert set(aggregates.estimate(aggregates.interquartile_mean, alike)) == {0.5}
    normal = np.random.default_rng(0).normal(size=160)

    def reach(number):
        found = aggregates.estimate(aggregates.interquartile_mean, [normal[:number]])
        assert found.low < found.value < found.high
        return found.high - found.low

    assert reach(160) == pytest.approx(reach(10) / 4, rel=0.5)
    # The percentiles are those of the resampled aggregates: the mean of a normal sample.
    found = aggregates.estimate(lambda scores: scores[0].mean(axis=-1), [normal])
    assert found.high - found.low == pytest.approx(2 * 1.96 * stats.sem(normal), rel=0.1)


def test_an_effect_of_two_means_has_a_probability_of_improvement():
    names = ["setting", "task", "seed"]
    rows = [(s, t, n, v) for s, v0 in (("a", 1.0), ("b", 0.0), ("c", 0.0)) for t in ("x", "y")
            for n, v in enumerate((v0, v0 + 0.1))]  # fmt: skip
    runs = pandas.DataFrame(rows, columns=[*names, "value"]).set_index(names)

    def found(weights, tasks=("x", "y")):
        return aggregates.improvement_of(runs, weights, tasks)

    assert found({"a": 1, "b": -1}) == found({"a": 1, "b": -0.5, "c": -0.5}) == (1, 1, 1)
    assert found({"b": 1, "c": -1}).value == 0.5
    assert found({"a": 1.5, "b": -1, "c": -0.5}) is None  # a trend
    single = runs[runs.index.get_level_values("seed") == 0]
    assert aggregates.improvement_of(single, {"a": 1, "b": -1}, ["x"]) is None


def test_the_figure_has_the_methods_with_runs_on_the_same_tasks(tmp_path):
    paper = reproductions.paper("d4pg")
    tasks = ("control:cartpole:swingup", "control:cheetah:walk")
    run = {"scale": "small", "budget": Budget(learner_steps=60_000)}
    for setting, level in (("ddpg", 100.0), ("d4pg_prioritized_n5", 500.0), ("d3pg_uniform_n1", 9)):
        for task in tasks if level > 9 else tasks[:1]:
            for seed in range(3):
                plant_run(tmp_path, setting, task, seed, [level + 10.0 * seed] * 30, **run)
    evidence = Evidence(KeptRuns(tmp_path), None, Reported(), RESULTS / "benchmarks")
    grid = max(aggregate_figure._grids(paper, evidence), key=lambda found: found.num_runs)
    assert grid.where == "figure 2, scale small" and grid.num_runs == 9
    np.testing.assert_allclose(grid.methods["ddpg"][0], [0.1, 0.11, 0.12])
    (file,) = aggregate_figure.draw(paper, evidence, tmp_path, (".png",))
    assert file.name == "d4pg_aggregates.png" and file.stat().st_size > 10_000
    assert aggregate_figure.draw(reproductions.paper("aql"), evidence, tmp_path, ()) == ()


def test_tasks_without_a_scale_have_no_aggregates(tmp_path):
    run = {"scale": "two_cores", "paper": "refer", "budget": Budget(actor_steps=200_000)}
    task = "gym:HumanoidStandup-v4"
    for setting, seed in itertools.product(("ddpg_refer", "ddpg_er"), range(2)):
        plant_run(tmp_path, setting, task, seed, [1.0] * 30, **run)
    evidence = Evidence(KeptRuns(tmp_path), None, Reported(), RESULTS / "benchmarks")
    found = evidence.frame(reproductions.paper("refer"), "two_cores")
    assert evidence.reported.without_scale([task]) == [task] and set(found["task"]) == {task}
    assert list(aggregate_figure._grids(reproductions.paper("refer"), evidence)) == []


def test_of_a_tally_so_many_tasks_must_hold():
    def effect(estimate):
        return effects.Effect(estimate, 0.01, 8, 5, 1, True, True, 0)

    def verdict(*estimates):
        part = effects.EffectPart("", {}, effects.NOT_BEHIND, effects.Over.TALLY, 7 / 9)
        by_task = {f"task {number}": effect(value) for number, value in enumerate(estimates)}
        return part.verdict(effect(float(np.mean(estimates))), by_task)

    assert verdict(*[0.5] * 7, -0.5, -0.5) is effects.Verdict.HOLDS
    assert verdict(*[0.5] * 6, -0.5, -0.5, -0.5) is effects.Verdict.FAILS
    assert verdict(*[0.5] * 6, -0.05, -0.5, -0.5) is effects.Verdict.OPEN
    assert verdict(0.5, 0.5, 0.5, 0.5, -0.5) is effects.Verdict.HOLDS  # four of five games
    assert verdict(0.5, 0.5, 0.5, -0.5, -0.5) is effects.Verdict.FAILS
