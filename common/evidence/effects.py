"""Main effects of settings over tasks, with an interval and one of four outcomes.

All functions take a frame of `common.evidence.runs.frame`, or a part of it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
import dataclasses
import enum
import math

import numpy as np
import pandas
from scipy import stats

CONFIDENCE = 0.95
"""Confidence of the two-sided intervals that are shown."""
FIRST_LOOK, SECOND_LOOK = 5, 10
"""Seeds of each setting on each task at which runs are looked at, and again with twenty. From the
first look on, runs evaluated by the rule decide alone."""
POWER = 0.8
"""The chance to find an effect, by which open claims say how many seeds they need."""
SOUGHT = 0.1
"""The effect that this power is for, a part of the scale of a task."""
MARGIN = 0.05
"""Methods within this part of the scale are level."""
LATE = 2 / 3
"""The primary measure is of the evaluations after this part of a run."""
EVALUATIONS = 10
"""Evaluations in the last third; runs with fewer were made before this rule."""
_LEVELLED = 0.2
"""Runs that gain at most this part of their rise in the last third have levelled off. A straight
line gains 0.4 of it, an exponential approach of time constant 1/5 of the run 0.03."""
_FALL_STRETCHES = 8
"""A fall is between the ends of these parts of a run: the fewest evaluations that a run has."""
_RUN = ["setting", "task", "seed"]


class Outcome(enum.StrEnum):
    """The outcome of a comparison."""

    AHEAD = "ahead"
    LEVEL = "level"
    BEHIND = "behind"
    UNCLEAR = "unclear"


@dataclasses.dataclass(frozen=True)
class Effect:
    """A main effect: the weighted sum of settings, mean over tasks, in parts of the scale.

    Attributes:
      estimate: the effect.
      error: standard error, nan with one seed.
      freedom: Satterthwaite's degrees of freedom.
      seeds: the fewest of a setting on a task.
      tasks: their number.
      has_levelled: whether the methods learnt and levelled off, without which none are level.
      is_confirmed: whether all runs were evaluated by the rule for the primary measure.
    """

    estimate: float
    error: float
    freedom: float
    seeds: int
    tasks: int
    has_levelled: bool
    is_confirmed: bool

    def interval(self, confidence: float) -> tuple[float, float]:
        """Returns the ends of a two-sided interval, infinite with one seed."""
        if self.error == 0:
            return self.estimate, self.estimate
        if not math.isfinite(self.error):
            return -math.inf, math.inf
        reach = self.error * float(stats.t.ppf((1 + confidence) / 2, self.freedom))
        return self.estimate - reach, self.estimate + reach

    @property
    def low(self) -> float:
        """The lower end of the interval that is shown."""
        return self.interval(CONFIDENCE)[0]

    @property
    def high(self) -> float:
        """The upper end of the interval that is shown."""
        return self.interval(CONFIDENCE)[1]

    @property
    def confidence(self) -> float:
        """The confidence of a verdict; the errors of the three looks sum to 5 %."""
        return 0.99 if self.seeds < SECOND_LOOK else 0.98

    @property
    def outcome(self) -> Outcome:
        """Ahead or behind if the interval excludes 0, level if it lies within the margin."""
        low, high = self.interval(self.confidence)
        if low > 0:
            return Outcome.AHEAD
        if high < 0:
            return Outcome.BEHIND
        is_close = -MARGIN < low and high < MARGIN
        return Outcome.LEVEL if is_close and self.has_levelled else Outcome.UNCLEAR

    @property
    def seeds_needed(self) -> int | None:
        """Seeds with which an effect of `SOUGHT` is found with `POWER`; None without a spread."""
        if not math.isfinite(self.error):
            return None
        reach = stats.norm.ppf((1 + self.confidence) / 2) + stats.norm.ppf(POWER)
        return max(2, math.ceil(self.seeds * (reach * self.error / SOUGHT) ** 2))


Bounds = tuple[float, float]
"""Between which a number lies by the claim; an effect in parts of the scale of a task."""

AHEAD: Bounds = (0.0, math.inf)
NOT_BEHIND: Bounds = (-MARGIN, math.inf)
LEVEL: Bounds = (-MARGIN, MARGIN)


class Verdict(enum.StrEnum):
    """The verdict on a claim."""

    HOLDS = "holds"
    FAILS = "does not hold"
    OPEN = "not yet decided"


class Over(enum.StrEnum):
    """The tasks on which a part of a claim must hold."""

    MEAN = "mean"
    """In the mean over tasks."""
    UNIFORM = "uniform"
    """In the mean over tasks, and on no task surely not."""
    SOME = "some"
    """On one task or more."""


@dataclasses.dataclass(frozen=True)
class EffectPart:
    """An effect that a claim states.

    Attributes:
      name: short, for tables; "" if the claim has one part.
      weights: {setting: weight}, which sum to 0.
      bounds: between which the effect lies by the claim.
      over: the tasks on which it must.
    """

    name: str
    weights: Mapping[str, float]
    bounds: Bounds = AHEAD
    over: Over = Over.MEAN

    def verdict(self, effect: Effect, by_task: Sequence[Effect], num_parts: int = 1) -> Verdict:
        """Returns the verdict on the part.

        All parts of a claim must hold, for which the confidence of each is enough. A single part
        that does not is enough to fail, and a single task may be enough to hold or to fail, so
        there the risk is divided by the number of parts and tasks (Bonferroni).

        Args:
          effect: over all tasks.
          by_task: on each task; none if `over` is the mean.
          num_parts: of the claim.
        """
        risk, num_tasks = 1 - effect.confidence, max(1, len(by_task))
        if self.over is Over.SOME:
            if any(self._holds(on_task, 1 - risk / num_tasks) for on_task in by_task):
                return Verdict.HOLDS
            fails = all(self._fails(on_task, 1 - risk / num_parts) for on_task in by_task)
            return Verdict.FAILS if fails else Verdict.OPEN
        of_task_and_part = 1 - risk / num_parts / num_tasks
        if self.over is Over.UNIFORM and any(
            on_task.interval(of_task_and_part)[1] < self.bounds[0] for on_task in by_task
        ):
            return Verdict.FAILS
        if self._holds(effect, effect.confidence):
            return Verdict.HOLDS
        return Verdict.FAILS if self._fails(effect, 1 - risk / num_parts) else Verdict.OPEN

    def _holds(self, effect: Effect, confidence: float) -> bool:
        low, high = effect.interval(confidence)
        is_within = self.bounds[0] < low and high < self.bounds[1]
        # Methods that have not learnt are close, too.
        is_level_enough = self.bounds[0] >= 0 or low > 0 or effect.has_levelled
        return is_within and is_level_enough

    def _fails(self, effect: Effect, confidence: float) -> bool:
        low, high = effect.interval(confidence)
        is_level = effect.outcome is Outcome.LEVEL and self.bounds[0] >= 0
        return high < self.bounds[0] or low > self.bounds[1] or is_level


def late_mean(run: pandas.DataFrame) -> float:
    """Returns the primary measure: the mean of the evaluations in the last third of a run."""
    return float(run["value"][run["x"] > LATE * run["x"].max()].mean())


def early_mean(run: pandas.DataFrame) -> float:
    """Returns the mean of the evaluations in the first third of a run, after its first step."""
    is_early = (run["x"] > 0) & (run["x"] <= (1 - LATE) * run["x"].max())
    return float(run["value"][is_early].mean())


def whole_mean(run: pandas.DataFrame) -> float:
    """Returns the second measure, the mean of a whole run, larger the sooner the run is good.

    It is the area below the curve over its length, so that runs that are evaluated at other
    positions can be compared. The evaluation before the first step does not count, since not every
    run has it: the first one after it counts for the time before.
    """
    run = run[run["x"] > 0].sort_values("x")
    x, value = run["x"].to_numpy(), run["value"].to_numpy()
    return float((x[0] * value[0] + np.trapezoid(value, x)) / x[-1])


def largest_fall(run: pandas.DataFrame) -> float:
    """Returns how far a run falls at most below its best value before: its instability.

    It looks at the end of each eighth of the run, because a run that is evaluated more often falls
    further by chance.
    """
    run = run[run["x"] > 0].sort_values("x")
    stretch = np.ceil(_FALL_STRETCHES * run["x"] / run["x"].max() - 1e-9)
    values = run["value"].groupby(stretch).last()
    return float((values.cummax() - values).max())


def late_magnitude(run: pandas.DataFrame) -> float:
    """Returns the decimal logarithm of `late_mean`, for quantities that differ by factors."""
    return math.log10(late_mean(run))


def whole_magnitude(run: pandas.DataFrame) -> float:
    """Returns the decimal logarithm of `whole_mean`, for quantities that differ by factors."""
    return math.log10(whole_mean(run))


Measure = Callable[[pandas.DataFrame], float]
"""A function of a run: a frame with the columns x and value."""
MAGNITUDES = (late_magnitude, whole_magnitude)
MEASURES: dict[str, Measure] = {
    measure.__name__: measure
    for measure in (late_mean, whole_mean, early_mean, largest_fall, *MAGNITUDES)
}


def is_by_rule(x: Iterable[float]) -> bool:
    """Returns whether evaluations of a run at these positions are as many as the rule asks."""
    at = np.asarray(list(x), float)
    return bool(len(at)) and int((at > LATE * at.max()).sum()) >= EVALUATIONS


def deciding(
    frame: pandas.DataFrame, settings: Iterable[str], tasks: Iterable[str]
) -> pandas.DataFrame:
    """Returns the runs that decide a claim about settings on tasks.

    These are the runs evaluated by the rule, if each setting has `FIRST_LOOK` seeds of them on each
    task. Else they are all runs, and the claim's verdict is exploratory.
    """
    wanted = pandas.MultiIndex.from_product([list(settings), list(tasks)])
    frame = frame[frame["setting"].isin(wanted.levels[0]) & frame["task"].isin(wanted.levels[1])]
    counts = frame[frame["by_rule"]].groupby(["setting", "task"])["seed"].nunique()
    is_confirmed = (counts.reindex(wanted, fill_value=0) >= FIRST_LOOK).all()
    return frame[frame["by_rule"]] if is_confirmed else frame


def up_to_common_end(frame: pandas.DataFrame) -> pandas.DataFrame:
    """Returns the runs of each task up to where the shortest of them ends."""
    ends = frame.groupby(_RUN)["x"].max().groupby("task").min()
    return frame[frame["x"] <= frame["task"].map(ends)]


def by_run(frame: pandas.DataFrame, measure: Measure = late_mean) -> pandas.DataFrame:
    """Returns a row a run, by setting, task and seed.

    Returns:
      columns value, the measure; late, the primary measure; rise, by which this is above the first
      value; gain, the slope of the last third times its length, from the means of its halves; and
      by_rule.
    """
    grouped = frame.groupby(_RUN, sort=False)
    keys = [frame[name] for name in _RUN]
    part, value = frame["x"] / grouped["x"].transform("max"), frame["value"]
    late = part > LATE
    halves = [
        value[late & (is_second == (part > (1 + LATE) / 2))].groupby(keys).mean()
        for is_second in (False, True)
    ]
    means = value[late].groupby(keys).mean()
    return pandas.DataFrame(
        {
            "value": means if measure is late_mean else grouped[["x", "value"]].apply(measure),
            "late": means,
            "rise": means - grouped["value"].first(),
            "gain": 2 * (halves[1] - halves[0]),
            "by_rule": grouped["by_rule"].all(),
        }
    ).rename_axis(_RUN)


def main_effect(
    runs: pandas.DataFrame, weights: Mapping[str, float], scales: Mapping[str, float]
) -> Effect:
    """Returns the weighted sum over settings, as a mean over all tasks.

    The variances are those of each setting on each task (Welch), with Satterthwaite's degrees of
    freedom. Tasks are those of the claim, never drawn and never left out.

    Args:
      runs: of any settings and tasks, see `by_run`. They have each setting on each task.
      weights: {setting: weight}; they sum to 0.
      scales: {task: the return that counts as 1}.
    """
    setting, task = (runs.index.get_level_values(name) for name in ("setting", "task"))
    runs = runs[setting.isin(list(weights)) & task.isin(list(scales))]
    cells = _cells(runs["value"])
    wanted = pandas.MultiIndex.from_product([list(weights), list(scales)])
    factor = [weights[setting] / scales[task] / len(scales) for setting, task in wanted]
    estimate, error, freedom = _welch(cells.loc[wanted], np.array(factor))
    return Effect(
        *(estimate, error, freedom, int(cells["count"].min()), len(scales)),
        _has_levelled(runs, scales),
        bool(runs["by_rule"].all()),
    )


def _cells(values: pandas.Series) -> pandas.DataFrame:
    """Returns mean, variance and number of runs by setting and task."""
    return values.groupby(["setting", "task"]).agg(["mean", "var", "count"])


def _welch(cells: pandas.DataFrame, factor: np.ndarray) -> tuple[float, float, float]:
    """Returns the weighted sum of independent means, its standard error and degrees of freedom."""
    variances = factor**2 * cells["var"].to_numpy() / cells["count"].to_numpy()
    error, freedom = float(np.sqrt(variances.sum())), 1.0
    if math.isfinite(error) and error > 0:
        parts = variances**2 / (cells["count"].to_numpy() - 1)
        freedom = float(variances.sum() ** 2 / parts.sum())
    return float(factor @ cells["mean"]), error, freedom


def _has_levelled(runs: pandas.DataFrame, scales: Mapping[str, float]) -> bool:
    """Returns whether the settings learnt, and surely gained little more in their last third.

    What a run gains beyond the part that it may, in a mean over all settings and tasks, must surely
    lie below 0: this keeps the noise of checkpoints from looking as if a rise had ended. Of tasks,
    more than half need a setting that learnt.
    """
    scale = runs.index.get_level_values("task").map(scales)
    learnt = _cells(runs["rise"] / scale)["mean"].groupby("task").max() > MARGIN
    cells = _cells((runs["gain"] - _LEVELLED * runs["rise"]) / scale)
    if learnt.mean() <= 1 / 2 or cells.isna().to_numpy().any():
        return False
    excess, error, freedom = _welch(cells, np.full(len(cells), 1 / len(cells)))
    return excess + error * float(stats.t.ppf(CONFIDENCE, freedom)) <= 0
