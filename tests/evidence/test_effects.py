"""Tests of common.evidence.effects on planted runs, whose true effects are known."""

import functools

import numpy as np
import pandas
import pytest
from scipy import stats

from common.evidence import effects
from common.evidence.effects import (
    AHEAD,
    LEVEL,
    NOT_BEHIND,
    Effect,
    EffectPart,
    Outcome,
    Over,
    Verdict,
    by_run,
    main_effect,
)

TASKS = ("a", "b", "c", "d")
WEIGHTS = {"first": 1.0, "second": -1.0}
LEVELLED = tuple(1 - np.exp(-6 * np.linspace(0, 1, 31)))
RISING = tuple(np.linspace(0, 1, 31))
BETWEEN_RUNS, BETWEEN_CHECKPOINTS = 0.06, 0.12
"""Standard deviations like those of D4PG's kept runs, in parts of the scale."""
WORLDS = 60


def planted(random, seeds, final, shares, curve=LEVELLED, collapsing=(0.0, 0.0)):
    """A frame in which `first` is ahead by shares[task] of `final`, in thousandths of the scale.

    A run of each setting loses all with a probability, after a third of its length.
    """
    shape = (len(WEIGHTS), len(TASKS), seeds, len(curve))
    level = np.full(shape, final / 1000)
    level[0] *= 1 + np.array(shares)[:, np.newaxis, np.newaxis]
    level += random.normal(0, BETWEEN_RUNS, (*shape[:3], 1))
    value = curve * (level + random.normal(0, BETWEEN_CHECKPOINTS, shape))
    collapses = random.random(shape[:3]) < np.reshape(collapsing, (-1, 1, 1))
    value[collapses, len(curve) // 3 :] = 0.0
    names = {"setting": list(WEIGHTS), "task": TASKS, "seed": range(seeds)}
    x = np.linspace(0, 3000, len(curve))
    index = pandas.MultiIndex.from_product([*names.values(), x], names=[*names, "x"])
    return pandas.DataFrame({"value": value.ravel(), "by_rule": True}, index).reset_index()


def effect_in(frame, tasks=TASKS):
    """The effect of `WEIGHTS` on some of the tasks."""
    return main_effect(by_run(frame), WEIGHTS, tasks)


def verdict_of(runs, over=Over.MEAN):
    """The verdict on `first` being ahead."""
    by_task = {task: main_effect(runs, WEIGHTS, [task]) for task in TASKS}
    return EffectPart("", WEIGHTS, AHEAD, over).verdict(main_effect(runs, WEIGHTS, TASKS), by_task)


def verdict_in(frame, over=Over.MEAN):
    return verdict_of(by_run(frame), over)


def runs_of_worlds(frames, measure=effects.late_mean):
    """The runs of each frame; all are measured at once, which takes a fifth of the time."""
    numbered = (
        frame.assign(seed=frame["seed"] + 100 * world) for world, frame in enumerate(frames)
    )
    runs = by_run(pandas.concat(numbered, ignore_index=True), measure)
    worlds = runs.index.get_level_values("seed") // 100
    return [runs[worlds == world] for world in range(len(frames))]


@functools.cache
def outcomes(seeds, final, shares, curve):
    """The parts of the worlds with each outcome."""
    random = np.random.default_rng(seeds)
    frames = [planted(random, seeds, final, shares, curve) for _ in range(WORLDS)]
    found = [main_effect(runs, WEIGHTS, TASKS).outcome for runs in runs_of_worlds(frames)]
    return {outcome: found.count(outcome) / WORLDS for outcome in Outcome}


def allowed(worlds):
    """The number of worlds that a true rate of 5 % exceeds in 1 of 100 tests."""
    return stats.binom.ppf(0.99, worlds, 0.05)


@pytest.mark.parametrize("seeds", [5, 20])
@pytest.mark.parametrize(
    "final, shares, curve, wrong",
    [
        (600, (0.0,) * 4, LEVELLED, [Outcome.AHEAD, Outcome.BEHIND]),
        (600, (0.05,) * 4, LEVELLED, [Outcome.BEHIND]),
        (600, (0.2,) * 4, LEVELLED, [Outcome.BEHIND, Outcome.LEVEL]),
        (600, (0.2, -0.2, 0.2, -0.2), LEVELLED, [Outcome.AHEAD, Outcome.BEHIND]),
        (120, (0.0,) * 4, RISING, [Outcome.AHEAD, Outcome.BEHIND, Outcome.LEVEL]),
    ],
    ids=["equal", "5 %", "20 %", "cancelling", "equal while learning"],
)
def test_wrong_verdicts_are_rare(seeds, final, shares, curve, wrong):
    found = outcomes(seeds, final, shares, curve)
    assert WORLDS * sum(found[outcome] for outcome in wrong) <= allowed(WORLDS)


def test_an_effect_of_a_fifth_is_found_with_five_seeds_and_levelness_with_twenty():
    assert outcomes(5, 600, (0.2,) * 4, LEVELLED)[Outcome.AHEAD] >= 0.8
    assert outcomes(20, 600, (0.0,) * 4, LEVELLED)[Outcome.LEVEL] >= 0.8


def test_three_looks_together_are_rarely_wrong():
    randoms = map(np.random.default_rng, range(2 * WORLDS))
    frames, wrong = [planted(random, 20, 600, [0.0] * 4) for random in randoms], 0
    for runs in runs_of_worlds(frames):
        seed = runs.index.get_level_values("seed") % 100
        looks = (main_effect(runs[seed < seeds], WEIGHTS, TASKS) for seeds in (5, 10, 20))
        wrong += any(look.outcome in (Outcome.AHEAD, Outcome.BEHIND) for look in looks)
    assert wrong <= allowed(2 * WORLDS)


@pytest.mark.parametrize(
    "shares, verdict",
    [
        ([0.3, 0.3, 0.3, 0.3], Verdict.HOLDS),
        ([0.5, 0.5, 0.5, -0.4], Verdict.MIXED),
        ([-0.5, -0.5, -0.5, 0.4], Verdict.MIXED),
        ([0.4, -0.4, 0.4, -0.4], Verdict.MIXED),
        ([0, 0, 0, -0.4], Verdict.FAILS),
    ],
)
def test_a_mean_over_opposed_tasks_is_mixed(shares, verdict):
    frame = planted(np.random.default_rng(0), 10, 600, shares)
    assert verdict_in(frame) is verdict


def test_on_every_task():
    frame = planted(np.random.default_rng(0), 10, 600, [0.4, 0.4, 0.4, 0.0])
    assert verdict_in(frame) is Verdict.HOLDS
    assert verdict_in(frame, Over.EVERY) is Verdict.OPEN
    frame = planted(np.random.default_rng(0), 10, 600, [0.4] * 4)
    assert verdict_in(frame, Over.EVERY) is Verdict.HOLDS
    frame = planted(np.random.default_rng(0), 10, 600, [0.4, 0.4, 0.4, -0.4])
    assert verdict_in(frame, Over.EVERY) is Verdict.FAILS


@pytest.mark.parametrize("collapsing", [(0.1, 0.1), (0.1, 0.0)])
def test_wrong_verdicts_are_rare_where_runs_collapse(collapsing):
    """The means of both settings are equal: one that collapses more is better where it does not."""
    shares = [(1 - collapsing[1]) / (1 - collapsing[0]) - 1] * len(TASKS)
    randoms = (np.random.default_rng([20, world]) for world in range(WORLDS))
    frames = [planted(random, 20, 800, shares, collapsing=collapsing) for random in randoms]
    found = [verdict_of(runs) for runs in runs_of_worlds(frames)]
    assert sum(verdict is not Verdict.OPEN for verdict in found) <= allowed(WORLDS)


def test_a_claim_with_a_collapse_wants_twenty_seeds():
    frame = planted(np.random.default_rng(1), 10, 800, [0.3] * 4, collapsing=(0.1, 0.1))
    found = effect_in(frame)
    assert found.collapses and found.is_too_early and found.seeds_needed >= 20
    assert verdict_in(frame) is Verdict.OPEN
    frame = planted(np.random.default_rng(1), 20, 800, [0.3] * 4, collapsing=(0.1, 0.1))
    assert effect_in(frame).collapses and verdict_in(frame) is Verdict.HOLDS
    # A quantity that is no return does not collapse.
    assert np.isnan(by_run(frame, is_return=False)["peak"]).all()


def test_opposed_tasks_with_a_collapse_want_twenty_seeds_too():
    shares = [0.5, 0.5, 0.5, -0.5]
    frame = planted(np.random.default_rng(2), 10, 800, shares, collapsing=(0.05, 0.05))
    assert effect_in(frame).is_too_early and verdict_in(frame) is Verdict.OPEN


def test_failing_by_being_level_divides_the_risk_as_well():
    """One of eight parts is enough to fail, at 99.75 %, where the interval exceeds the margin."""
    effect = Effect(0.0, 0.018, 18, 10, 1, True, True, 0)
    part = EffectPart("", WEIGHTS, AHEAD)
    assert effect.interval(0.98)[1] < effects.MARGIN < effect.interval(1 - 0.02 / 8)[1]
    assert part.verdict(effect, {"a": effect}) is Verdict.FAILS
    assert part.verdict(effect, {"a": effect}, 8) is Verdict.OPEN


@pytest.mark.parametrize("estimate", [-0.02, 0.0, 0.02])
@pytest.mark.parametrize("has_levelled", [True, False])
def test_the_same_and_not_worse_take_runs_that_have_levelled_off(estimate, has_levelled):
    """Methods that have learnt little are close. That one is ahead suffices for not worse."""
    effect = Effect(estimate, 0.004, 18, 10, 1, has_levelled, True, 0)
    expected = [has_levelled, has_levelled or estimate > 0]
    verdicts = [
        EffectPart("", WEIGHTS, of).verdict(effect, {"a": effect}) for of in (LEVEL, NOT_BEHIND)
    ]
    assert [verdict is Verdict.HOLDS for verdict in verdicts] == expected


@pytest.mark.parametrize(
    "seeds, decide", [(3, 3), (5, 5), (9, 5), (10, 10), (19, 10), (20, 20), (22, 20)]
)
def test_runs_are_looked_at_with_five_ten_and_twenty_seeds(seeds, decide):
    frame = planted(np.random.default_rng(0), seeds, 600, [0.0] * 4)
    frame = frame[(frame["task"] != "a") | (frame["seed"] > 0)].assign(seed=frame["seed"] + 7)
    seen = effects.deciding(frame, WEIGHTS, TASKS).groupby(["setting", "task"])["seed"].unique()
    assert seen["first", "b"].tolist() == list(range(7, 7 + decide))
    assert seen["first", "a"][0] == 8 and len(seen["first", "a"]) in (5, 10, 20, seeds - 1)


def test_the_interval_is_welchs():
    random = np.random.default_rng(0)
    frame = planted(random, 7, 600, [0.1, 0, 0, 0])
    of_task = frame[frame["task"] == "a"]
    found = effect_in(of_task, ["a"])
    late = of_task[of_task["x"] > 2000].groupby(["setting", "seed"])["value"].mean()
    test = stats.ttest_ind(late["first"], late["second"], equal_var=False)
    interval = test.confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx(tuple(interval))
    assert found.estimate == pytest.approx(late["first"].mean() - late["second"].mean())
    assert (found.seeds, found.tasks, found.is_confirmed) == (7, 1, True)


def test_no_task_is_left_out():
    frame = planted(np.random.default_rng(0), 5, 600, [0.2] * 4)
    flat = frame.assign(value=frame["value"].where(frame["task"] == "a", 0.0))
    assert effect_in(flat).estimate == pytest.approx(effect_in(frame, ["a"]).estimate / 4)


def test_a_seed_decides_nothing():
    found = effect_in(planted(np.random.default_rng(0), 1, 600, [0.5] * 4))
    assert found.outcome is Outcome.UNCLEAR and found.seeds_needed is None


def test_seeds_needed_are_those_of_the_normal_power():
    found = effect_in(planted(np.random.default_rng(0), 5, 600, [0.0] * 4))
    error = found.error * np.sqrt(5 / found.seeds_needed)
    assert stats.norm.sf(stats.norm.ppf(0.995) - effects.SOUGHT / error) >= effects.POWER


def sparse(frame):
    """The runs evaluated 7 times instead of 30, as those of before the rule."""
    return frame[frame["x"] % 400 == 0].assign(by_rule=False)


def test_runs_by_the_rule_alone_decide_once_each_setting_has_five_on_each_task():
    frame = planted(np.random.default_rng(0), 8, 600, [0.0] * 4)
    assert effects.is_by_rule(frame["x"][:31]) and not effects.is_by_rule(sparse(frame)["x"][:8])
    assert effects.is_by_rule([]) is False
    is_new = frame["seed"] >= 3
    mixed = pandas.concat([sparse(frame[~is_new]), frame[is_new]])
    decides = effects.deciding(mixed, WEIGHTS, TASKS)
    assert set(decides["seed"]) == {3, 4, 5, 6, 7} and effect_in(decides).is_confirmed
    lacks = mixed[(mixed["task"] != "b") | (mixed["setting"] != "first") | (mixed["seed"] != 7)]
    decides = effects.deciding(lacks, WEIGHTS, TASKS)
    assert set(decides["seed"]) == set(range(5)) and not effect_in(decides).is_confirmed
    without_b = effects.deciding(lacks, WEIGHTS, ["a", "c", "d"])
    assert set(without_b["seed"]) == {3, 4, 5, 6, 7} and set(without_b["task"]) == {"a", "c", "d"}


@pytest.mark.parametrize(
    "measure, worlds",
    [(effects.late_mean, WORLDS), (effects.whole_mean, WORLDS), (effects.largest_fall, 20)],
)
def test_the_positions_of_evaluations_do_not_matter(measure, worlds):
    """Equal methods, of which one has older runs with fewer evaluations, are rarely apart."""
    frames = []
    for world in range(worlds):
        frame = planted(np.random.default_rng(world), 5, 600, [0.0] * 4)
        is_old = frame["setting"] == "second"
        frames.append(pandas.concat([frame[~is_old], sparse(frame[is_old])]))
    found = [main_effect(runs, WEIGHTS, TASKS) for runs in runs_of_worlds(frames, measure)]
    wrong = (Outcome.AHEAD, Outcome.BEHIND)
    assert sum(effect.outcome in wrong for effect in found) <= allowed(worlds)


def test_measures_of_a_run():
    run = pandas.DataFrame({"x": np.arange(0, 31) * 10.0, "value": np.arange(31.0)})
    assert effects.late_mean(run) == 25.5 and effects.early_mean(run) == 5.5
    assert effects.whole_mean(run) == effects.whole_mean(run[run["x"] > 0])
    assert effects.whole_mean(run) == pytest.approx(15.0, abs=0.05)
    assert effects.whole_mean(run[run["x"] % 50 == 0]) == pytest.approx(15.0, abs=0.5)
    assert effects.late_magnitude(run.assign(value=100.0)) == 2
    assert effects.whole_magnitude(run.assign(value=0.01)) == pytest.approx(-2)
    assert effects.largest_fall(run) == 0
    falls = run.assign(value=run["value"].where(run["x"] < 300, 13.0))
    assert effects.largest_fall(falls) == 0.5
    assert effects.largest_fall(falls.assign(value=falls["value"] / 26)) == 0.5
    # A run that does not rise by half of the scale has nothing to lose.
    assert effects.largest_fall(falls.assign(value=falls["value"] / 60)) == 0


@pytest.mark.parametrize("length", [3000, 60_000, 96_000])
def test_the_gain_is_between_the_halves_of_the_last_third(length):
    """Each has five of thirty evaluations, also the one that is exactly between them."""
    frame = planted(np.random.default_rng(0), 1, 600, [0.0] * 4)
    frame = frame.assign(x=frame["x"] * (length // 3000))
    for (setting, task, _), run in frame.groupby(["setting", "task", "seed"]):
        last = run["value"].to_numpy()[-10:]
        gain = by_run(frame)["gain"][setting, task, 0]
        assert gain == pytest.approx(2 * (last[5:].mean() - last[:5].mean()))


def test_up_to_the_end_of_the_shortest_run_of_a_task():
    frame = planted(np.random.default_rng(0), 2, 600, [0.0] * 4)
    short = (frame["task"] == "a") & (frame["seed"] == 0)
    ends = effects.up_to_common_end(frame[~short | (frame["x"] <= 1500)]).groupby("task")["x"].max()
    assert ends.to_dict() == {"a": 1500, "b": 3000, "c": 3000, "d": 3000}
