"""Tests of common.experiments.effects on planted runs, whose true effects are known."""

import numpy as np
import pandas
import pytest
from scipy import stats

from common.experiments import effects
from common.experiments.effects import Outcome, main_effect

TASKS = ("a", "b", "c", "d")
SCALES = dict.fromkeys(TASKS, 1000.0)
WEIGHTS = {"first": 1.0, "second": -1.0}
LEVELLED = 1 - np.exp(-6 * np.linspace(0, 1, 31))
RISING = np.linspace(0, 1, 31)
BETWEEN_RUNS, BETWEEN_CHECKPOINTS = 60.0, 120.0
"""Standard deviations like those of D4PG's kept runs."""
WORLDS = 60


def planted(random, seeds, final, shares, curve=LEVELLED, spread=1.0):
    """A frame in which `first` is ahead by shares[task] of `final`."""
    x = np.linspace(0, 3000, len(curve))
    rows = []
    for setting in WEIGHTS:
        for task, share in zip(TASKS, shares):
            ahead = 1 + share * (setting == "first")
            for seed in range(seeds):
                level = final * ahead + spread * random.normal(0, BETWEEN_RUNS)
                noise = spread * random.normal(0, BETWEEN_CHECKPOINTS, len(curve))
                value = curve * (level + noise)
                rows.append(
                    pandas.DataFrame({"x": x, "value": value}).assign(
                        setting=setting, task=task, seed=seed
                    )
                )
    return pandas.concat(rows, ignore_index=True)


def outcomes(seeds, final, shares, **kwargs):
    """The parts of the worlds with each outcome."""
    random = np.random.default_rng(seeds)
    found = [
        main_effect(planted(random, seeds, final, shares, **kwargs), WEIGHTS, SCALES).outcome
        for _ in range(WORLDS)
    ]
    return {one: found.count(one) / WORLDS for one in Outcome}


# A part of 60 worlds is uncertain: a true rate of 5 % gives more than 11.7 % in 1 of 100.
ALLOWED = stats.binom.ppf(0.99, WORLDS, 0.05) / WORLDS


@pytest.mark.parametrize("seeds", [5, 20])
@pytest.mark.parametrize(
    "final, shares, curve, wrong",
    [
        (600, [0, 0, 0, 0], LEVELLED, [Outcome.AHEAD, Outcome.BEHIND]),
        (600, [0.05] * 4, LEVELLED, [Outcome.BEHIND]),
        (600, [0.2] * 4, LEVELLED, [Outcome.BEHIND, Outcome.LEVEL]),
        (600, [0.2, 0.2, 0, -0.2], LEVELLED, [Outcome.BEHIND]),
        (600, [0.2, -0.2, 0.2, -0.2], LEVELLED, [Outcome.AHEAD, Outcome.BEHIND]),
        (120, [0, 0, 0, 0], RISING, [Outcome.AHEAD, Outcome.BEHIND, Outcome.LEVEL]),
    ],
    ids=["equal", "5 %", "20 %", "mixed", "cancelling", "equal while learning"],
)
def test_wrong_verdicts_are_rare(seeds, final, shares, curve, wrong):
    spread = 0.2 if curve is RISING else 1.0
    found = outcomes(seeds, final, shares, curve=curve, spread=spread)
    assert sum(found[one] for one in wrong) <= ALLOWED


def test_an_effect_of_a_fifth_is_found_with_five_seeds():
    assert outcomes(5, 600, [0.2] * 4)[Outcome.AHEAD] >= 0.8


def test_equal_methods_are_level_with_twenty_seeds():
    assert outcomes(20, 600, [0] * 4)[Outcome.LEVEL] >= 0.8


def test_the_interval_is_welchs():
    random = np.random.default_rng(0)
    frame = planted(random, 7, 600, [0.1, 0, 0, 0])
    one = frame[frame["task"] == "a"]
    found = main_effect(one, WEIGHTS, {"a": 1000.0})
    late = one[one["x"] > 2000].groupby(["setting", "seed"])["value"].mean() / 1000
    test = stats.ttest_ind(late["first"], late["second"], equal_var=False)
    interval = test.confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx(tuple(interval))
    assert found.p == pytest.approx(test.pvalue)
    assert found.estimate == pytest.approx(late["first"].mean() - late["second"].mean())
    assert (found.seeds, found.tasks, found.is_confirmed) == (7, 1, True)


def test_no_task_is_left_out():
    frame = planted(np.random.default_rng(0), 5, 600, [0.2] * 4)
    flat = frame.assign(value=frame["value"].where(frame["task"] == "a", 0.0))
    assert main_effect(flat, WEIGHTS, SCALES).estimate == pytest.approx(
        main_effect(frame, WEIGHTS, {"a": 1000.0}).estimate / 4
    )
    lacking = frame[(frame["task"] != "d") | (frame["setting"] != "first")]
    assert main_effect(lacking, WEIGHTS, SCALES) is None


def test_a_seed_decides_nothing():
    frame = planted(np.random.default_rng(0), 1, 600, [0.5] * 4)
    found = main_effect(frame, WEIGHTS, SCALES)
    assert found.outcome is Outcome.UNCLEAR and found.seeds_needed is None


def test_seeds_needed_are_those_of_the_normal_power():
    frame = planted(np.random.default_rng(0), 5, 600, [0.0] * 4)
    found = main_effect(frame, WEIGHTS, SCALES)
    error = found.error * np.sqrt(5 / found.seeds_needed)
    assert stats.norm.sf(stats.norm.ppf(0.975) - effects.SOUGHT / error) >= effects.POWER


def test_few_evaluations_are_exploratory_and_the_first_one_does_not_count():
    frame = planted(np.random.default_rng(0), 3, 600, [0.0] * 4)
    few = frame[frame["x"] % 400 == 0]
    assert not main_effect(few, WEIGHTS, SCALES).is_confirmed
    run = frame[(frame["task"] == "a") & (frame["seed"] == 0) & (frame["setting"] == "first")]
    assert effects.whole_mean(run) == effects.whole_mean(run[run["x"] > 0])
