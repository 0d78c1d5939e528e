"""Main effects of settings over tasks, with an interval and one of four outcomes.

Frames are those of `common.evidence.runs.frame`, or parts of them. Returns are in units of their
task's scale: 0 is an untrained agent, and 1 a constant of the task (`normalised`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
import dataclasses
import enum
import math

import numpy as np
import pandas
from scipy import stats

CONFIDENCE = 0.95
"""Confidence of the displayed two-sided intervals."""
FIRST_LOOK, SECOND_LOOK, LAST_LOOK = 5, 10, 20
"""Numbers of seeds of each setting on each task at which runs are judged. From the first look on,
only runs that follow the rule decide."""
POWER = 0.8
"""The probability of finding an effect with the seeds that an open claim is said to need."""
SOUGHT = 0.1
"""The effect that is found with this power, in units of a task's scale."""
MARGIN = 0.05
"""The largest difference between methods that are level, in units of a task's scale."""
LATE = 2 / 3
"""The fraction of a run after which evaluations count for the primary measure."""
EVALUATIONS = 10
"""Minimum number of evaluations in the last third of a run. Runs older than the rule have fewer."""
EPISODES = 5
"""Minimum number of episodes in such an evaluation."""
_LEVELLED = 0.2
"""The largest gain in the last third of a run that has levelled off, as a fraction of its rise. A
straight line gains 0.4, an exponential approach with a time constant of 1/5 of the run 0.03."""
_STRETCHES = 8
"""The number of parts whose ends are compared for falls: the fewest evaluations that a run has."""
_LEARNT = 0.5
"""The rise from which on a run can fall, in units of a task's scale. The run has collapsed if it
ends with less than half of its best stretch."""
_RUN = ["setting", "task", "seed"]


def interval(
    mean: float, error: float, freedom: float, confidence: float = CONFIDENCE
) -> tuple[float, float]:
    """Returns the ends of Student's two-sided interval of a mean; nan if the error is nan."""
    if error == 0:
        return mean, mean
    low, high = stats.t.interval(confidence, freedom, mean, error)
    return float(low), float(high)


def signed(number: float, digits: int = 1) -> str:
    """Returns "+12.3", or "-1.2e+07" for a large number, which only a diverging method has."""
    return f"{number:+.{digits}f}" if abs(number) < 10_000 else f"{number:+.1e}"


class Outcome(enum.StrEnum):
    """The outcome of a comparison."""

    AHEAD = "ahead"
    LEVEL = "level"
    BEHIND = "behind"
    UNCLEAR = "unclear"


@dataclasses.dataclass(frozen=True)
class Effect:
    """A main effect: a weighted sum over settings, averaged over tasks, in units of their scales.

    Attributes:
      estimate: the effect.
      error: standard error, nan with one seed.
      freedom: Satterthwaite's degrees of freedom.
      seeds: the smallest number of seeds of a setting on a task.
      tasks: the number of tasks.
      has_levelled: whether the methods learnt and levelled off; otherwise they are never level.
      is_confirmed: whether only runs that follow the rule decide, see `deciding`.
      collapses: the number of runs that learnt the task and then collapsed.
    """

    estimate: float
    error: float
    freedom: float
    seeds: int
    tasks: int
    has_levelled: bool
    is_confirmed: bool
    collapses: int

    def interval(self, confidence: float) -> tuple[float, float]:
        """Returns the ends of a two-sided interval, nan with one seed."""
        return interval(self.estimate, self.error, self.freedom, confidence)

    @property
    def low(self) -> float:
        """The lower end of the displayed interval."""
        return self.interval(CONFIDENCE)[0]

    @property
    def high(self) -> float:
        """The upper end of the displayed interval."""
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
        """The seeds needed to find an effect of `SOUGHT` with `POWER`; None with one seed."""
        if not math.isfinite(self.error):
            return None
        reach = stats.norm.ppf((1 + self.confidence) / 2) + stats.norm.ppf(POWER)
        fewest = LAST_LOOK if self.collapses else 2
        return max(fewest, math.ceil(self.seeds * (reach * self.error / SOUGHT) ** 2))

    @property
    def is_too_early(self) -> bool:
        """True if runs collapsed and there are fewer than `LAST_LOOK` seeds.

        With few seeds the interval is then too narrow: it depends on how many of them collapsed.
        """
        return bool(self.collapses) and self.seeds < LAST_LOOK


Bounds = tuple[float, float]
"""The bounds that a claim gives for a number; for an effect, in units of the tasks' scales."""

AHEAD: Bounds = (0.0, math.inf)
NOT_BEHIND: Bounds = (-MARGIN, math.inf)
LEVEL: Bounds = (-MARGIN, MARGIN)


class Verdict(enum.StrEnum):
    """The verdict on a claim."""

    HOLDS = "holds"
    FAILS = "does not hold"
    MIXED = "mixed"
    """The claim holds on some tasks and surely not on others, so a mean over tasks says nothing."""
    OPEN = "not yet decided"


class Over(enum.StrEnum):
    """The tasks on which a part of a claim must hold."""

    MEAN = "mean"
    """In the mean over tasks, unless single tasks surely disagree."""
    UNIFORM = "uniform"
    """In the mean over tasks, and it surely fails on no task."""
    EVERY = "every"
    """On every task."""
    SOME = "some"
    """On at least one task."""
    TALLY = "tally"
    """On a given share of the tasks, such as 7 of 9."""


@dataclasses.dataclass(frozen=True)
class EffectPart:
    """An effect that a claim states.

    Attributes:
      name: short, for tables; "" if the claim has one part.
      weights: {setting: weight}; the weights sum to 0.
      bounds: the bounds that the claim gives for the effect.
      over: the tasks on which the effect must be within the bounds.
      part: share of the tasks that a tally needs.
    """

    name: str
    weights: Mapping[str, float]
    bounds: Bounds = AHEAD
    over: Over = Over.MEAN
    part: float = 1.0

    def verdict(self, effect: Effect, by_task: Mapping[str, Effect], num_parts: int = 1) -> Verdict:
        """Returns the verdict on the part.

        A claim holds only if all parts hold, so the confidence of each part is enough for that. It
        fails if a single part fails, and a single task may decide a part. There the risk is divided
        by the number of parts, tasks or both (Bonferroni).

        Args:
          effect: the effect over all tasks.
          by_task: the effect on each task.
          num_parts: number of parts of the claim.
        """
        if effect.is_too_early:
            return Verdict.OPEN
        risk, on_tasks = 1 - effect.confidence, by_task.values()
        of_task, of_part = 1 - risk / len(by_task), 1 - risk / num_parts
        of_both = 1 - risk / num_parts / len(by_task)
        within = sum(self._holds(on, of_task) for on in on_tasks)
        outside = sum(self._is_outside(on, of_both) for on in on_tasks)
        holds, fails = self._holds(effect, effect.confidence), self._fails(effect, of_part)
        if self.over is Over.SOME:
            holds, fails = within > 0, all(self._fails(on, of_part) for on in on_tasks)
        elif self.over is Over.TALLY:
            needed = math.ceil(self.part * len(by_task) - 1e-9)
            holds, fails = within >= needed, outside > len(by_task) - needed
        elif self.over is Over.UNIFORM:
            fails = fails or outside > 0
            holds = holds and not fails
        elif self.over is Over.EVERY:
            holds = all(self._holds(on, effect.confidence) for on in on_tasks)
            fails = outside > 0
        elif (holds or within) and (fails or outside):
            return Verdict.MIXED
        if not (holds or fails):
            return Verdict.OPEN
        return Verdict.HOLDS if holds else Verdict.FAILS

    def _holds(self, effect: Effect, confidence: float) -> bool:
        low, high = effect.interval(confidence)
        is_within = self.bounds[0] < low and high < self.bounds[1]
        # Methods that have not learnt are also close, but a method that is ahead is never behind.
        is_ahead = low > 0 and self.bounds[1] == math.inf
        return is_within and (self.bounds[0] >= 0 or is_ahead or effect.has_levelled)

    def _is_outside(self, effect: Effect, confidence: float) -> bool:
        low, high = effect.interval(confidence)
        return high < self.bounds[0] or low > self.bounds[1]

    def _fails(self, effect: Effect, confidence: float) -> bool:
        low, high = effect.interval(confidence)
        is_close = LEVEL[0] < low and high < LEVEL[1]
        is_level = effect.outcome is Outcome.LEVEL and is_close and self.bounds[0] >= 0
        return is_level or self._is_outside(effect, confidence)


def late_mean(run: pandas.DataFrame) -> float:
    """Returns the primary measure: the mean of the evaluations in the last third of a run."""
    return float(run["value"][run["x"] > LATE * run["x"].max()].mean())


def early_mean(run: pandas.DataFrame) -> float:
    """Returns the mean of the evaluations in the first third of a run, after its first step."""
    is_early = (run["x"] > 0) & (run["x"] <= (1 - LATE) * run["x"].max())
    return float(run["value"][is_early].mean())


def whole_mean(run: pandas.DataFrame) -> float:
    """Returns the second measure: the mean of a whole run, larger if the run learns sooner.

    It is the area below the curve divided by its length, so that runs with evaluations at different
    positions can be compared. The evaluation before the first step does not count, since not every
    run has it; the next evaluation counts for the time before it.
    """
    run = run[run["x"] > 0].sort_values("x")
    x, value = run["x"].to_numpy(), run["value"].to_numpy()
    return float((x[0] * value[0] + np.trapezoid(value, x)) / x[-1])


def largest_fall(run: pandas.DataFrame) -> float:
    """Returns the largest fraction of its rise that a run loses again, a measure of instability.

    It is 0 for a run that never rises by `_LEARNT`. It compares values at the end of each eighth of
    the run, because a run that is evaluated more often falls further by chance.
    """
    first, run = run["value"].iloc[0], run[run["x"] > 0].sort_values("x")
    values = run["value"].groupby(_eighth(run["x"] / run["x"].max())).last()
    rise = values.cummax() - first
    falls = ((values.cummax() - values) / rise)[rise >= _LEARNT]
    return float(falls.max()) if len(falls) else 0.0


def _eighth(part: pandas.Series) -> pandas.Series:
    """Returns the eighth of a run, from 1, for positions in [0, 1]; 0 for its start."""
    return np.ceil(_STRETCHES * part - 1e-9)


def late_magnitude(run: pandas.DataFrame) -> float:
    """Returns the decimal logarithm of `late_mean`, for quantities that differ by factors."""
    return math.log10(late_mean(run))


def whole_magnitude(run: pandas.DataFrame) -> float:
    """Returns the decimal logarithm of `whole_mean`, for quantities that differ by factors."""
    return math.log10(whole_mean(run))


Measure = Callable[[pandas.DataFrame], float]
"""A function of a run, given as a frame with the columns x and value."""
MEANS = (late_mean, whole_mean, early_mean)
"""Measures that are larger for a better run."""
MAGNITUDES = (late_magnitude, whole_magnitude)
MEASURES: dict[str, Measure] = {
    measure.__name__: measure for measure in (*MEANS, largest_fall, *MAGNITUDES)
}


def is_by_rule(x: Iterable[float]) -> bool:
    """Returns whether a run with evaluations at positions `x` has as many as the rule requires."""
    at = np.asarray(list(x), float)
    return bool(len(at)) and int((at > LATE * at.max()).sum()) >= EVALUATIONS


def deciding(
    frame: pandas.DataFrame, settings: Iterable[str], tasks: Iterable[str]
) -> pandas.DataFrame:
    """Returns the runs that decide a claim about settings on tasks.

    If each setting has `FIRST_LOOK` or more seeds evaluated by the rule on each task, only runs
    evaluated by the rule decide. Otherwise all runs decide, by_rule is False for each, and the
    claim's verdict is exploratory. Of each setting on each task, the first seeds up to the last
    look that was reached count; before the first look all of them do.
    """
    wanted = pandas.MultiIndex.from_product([list(settings), list(tasks)])
    frame = frame[frame["setting"].isin(wanted.levels[0]) & frame["task"].isin(wanted.levels[1])]
    counts = frame[frame["by_rule"]].groupby(["setting", "task"])["seed"].nunique()
    is_confirmed = (counts.reindex(wanted, fill_value=0) >= FIRST_LOOK).all()
    frame = frame[frame["by_rule"]] if is_confirmed else frame.assign(by_rule=False)
    number = frame.groupby(["setting", "task"])["seed"].rank("dense")
    seeds = number.groupby([frame["setting"], frame["task"]]).transform("max")
    looks = np.array([0, FIRST_LOOK, SECOND_LOOK, LAST_LOOK])
    last = looks[np.searchsorted(looks, seeds, "right") - 1]
    return frame[(number <= last) | (last == 0)]


def normalised(
    frame: pandas.DataFrame, scales: Mapping[str, tuple[float, float]]
) -> pandas.DataFrame:
    """Returns the runs with returns in units of their task's scale.

    Args:
      frame: the runs, with returns as values.
      scales: {task: the return of an untrained agent, and the return that counts as 1}.
    """
    untrained = frame["task"].map({task: ends[0] for task, ends in scales.items()})
    span = frame["task"].map({task: ends[1] - ends[0] for task, ends in scales.items()})
    return frame.assign(value=(frame["value"] - untrained) / span)


def up_to_common_end(frame: pandas.DataFrame) -> pandas.DataFrame:
    """Returns the runs of each task up to the end of the shortest run."""
    ends = frame.groupby(_RUN)["x"].max().groupby("task").min()
    return frame[frame["x"] <= frame["task"].map(ends)]


def by_run(
    frame: pandas.DataFrame, measure: Measure = late_mean, is_return: bool = True
) -> pandas.DataFrame:
    """Returns a row for each run, by setting, task and seed.

    Args:
      frame: the runs.
      measure: the measure of a run.
      is_return: whether values are returns; only then can runs collapse.

    Returns:
      columns value, the measure; rise, the primary measure minus the first value; peak, the mean of
      the best eighth minus the first value, nan without returns; gain, the slope of the last third
      times its length, from the means of its halves; and by_rule.
    """
    grouped = frame.groupby(_RUN, sort=False)
    keys = [frame[name] for name in _RUN]
    part, value = frame["x"] / grouped["x"].transform("max"), frame["value"]
    late, second = part > LATE, part > (1 + LATE) / 2 + 1e-9  # as floats, 25/30 exceeds 5/6
    halves = [value[late & (second == half)].groupby(keys).mean() for half in (False, True)]
    means, first, peak = value[late].groupby(keys).mean(), grouped["value"].first(), math.nan
    if is_return:
        peak = value.groupby([*keys, _eighth(part).clip(lower=1)]).mean().groupby(_RUN).max()
    return pandas.DataFrame(
        {
            "value": means if measure is late_mean else grouped[["x", "value"]].apply(measure),
            "rise": means - first,
            "peak": peak - first,
            "gain": 2 * (halves[1] - halves[0]),
            "by_rule": grouped["by_rule"].all(),
        }
    ).rename_axis(_RUN)


def main_effect(
    runs: pandas.DataFrame, weights: Mapping[str, float], tasks: Sequence[str]
) -> Effect:
    """Returns the weighted sum over settings, averaged over all tasks.

    Each setting on each task has its own variance (Welch), with Satterthwaite's degrees of freedom.
    The tasks of the claim are fixed: none is sampled or left out.

    Args:
      runs: `by_run` of any settings and tasks, which include each setting on each task.
      weights: {setting: weight}; they sum to 0.
      tasks: the tasks.
    """
    setting, task = (runs.index.get_level_values(name) for name in ("setting", "task"))
    runs = runs[setting.isin(list(weights)) & task.isin(list(tasks))]
    cells = _cells(runs["value"])
    wanted = pandas.MultiIndex.from_product([list(weights), list(tasks)])
    factor = [weights[setting] / len(tasks) for setting, _ in wanted]
    estimate, error, freedom = _welch(cells.loc[wanted], np.array(factor))
    collapsed = (runs["peak"] >= _LEARNT) & (runs["rise"] < runs["peak"] / 2)
    return Effect(
        *(estimate, error, freedom, int(cells["count"].min()), len(tasks)),
        _has_levelled(runs),
        bool(runs["by_rule"].all()),
        int(collapsed.sum()),
    )


def _cells(values: pandas.Series) -> pandas.DataFrame:
    """Returns mean, variance and number of runs for each setting and task."""
    return values.groupby(["setting", "task"]).agg(["mean", "var", "count"])


def _welch(cells: pandas.DataFrame, factor: np.ndarray) -> tuple[float, float, float]:
    """Returns the weighted sum of independent means, its standard error and degrees of freedom."""
    variances = factor**2 * cells["var"].to_numpy() / cells["count"].to_numpy()
    error, freedom = float(np.sqrt(variances.sum())), 1.0
    if math.isfinite(error) and error > 0:
        parts = variances**2 / (cells["count"].to_numpy() - 1)
        freedom = float(variances.sum() ** 2 / parts.sum())
    return float(factor @ cells["mean"]), error, freedom


def _has_levelled(runs: pandas.DataFrame) -> bool:
    """Returns whether the settings learnt, and surely gained little in their last third.

    The gain beyond `_LEVELLED` of the rise, averaged over all settings and tasks, must surely lie
    below 0, so that the noise of checkpoints does not look like the end of a rise. On more than
    half of the tasks a setting must have learnt.
    """
    learnt = _cells(runs["rise"])["mean"].groupby("task").max() > MARGIN
    cells = _cells(runs["gain"] - _LEVELLED * runs["rise"])
    if learnt.mean() <= 1 / 2 or cells.isna().to_numpy().any():
        return False
    excess, error, freedom = _welch(cells, np.full(len(cells), 1 / len(cells)))
    return excess + error * float(stats.t.ppf(CONFIDENCE, freedom)) <= 0
