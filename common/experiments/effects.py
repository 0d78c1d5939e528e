"""Main effects of settings over tasks, with an interval and one of four outcomes.

All functions take a frame of `common.experiments.runs.frame`, or a part of it.
"""

from collections.abc import Callable, Mapping
import dataclasses
import enum
import math

import numpy as np
import pandas
from scipy import stats

CONFIDENCE = 0.95
"""Of intervals; two-sided."""
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
      low: lower end of its interval.
      high: upper end.
      p: two-sided p-value of no effect.
      seeds: the fewest of a setting on a task.
      tasks: their number.
      has_levelled: whether the methods learnt and levelled off, without which none are level.
      is_confirmed: whether all runs were evaluated by the rule for the primary measure.
      error: standard error, nan with one seed.
    """

    estimate: float
    low: float
    high: float
    p: float
    seeds: int
    tasks: int
    has_levelled: bool
    is_confirmed: bool
    error: float = dataclasses.field(repr=False)

    @property
    def outcome(self) -> Outcome:
        """Ahead or behind if the interval excludes 0, level if it lies within the margin."""
        if self.low > 0:
            return Outcome.AHEAD
        if self.high < 0:
            return Outcome.BEHIND
        is_close = -MARGIN < self.low and self.high < MARGIN
        return Outcome.LEVEL if is_close and self.has_levelled else Outcome.UNCLEAR

    @property
    def seeds_needed(self) -> int | None:
        """Seeds with which an effect of `SOUGHT` is found with `POWER`; None without a spread."""
        if not math.isfinite(self.error):
            return None
        reach = stats.norm.ppf((1 + CONFIDENCE) / 2) + stats.norm.ppf(POWER)
        return max(2, math.ceil(self.seeds * (reach * self.error / SOUGHT) ** 2))


def late_mean(run: pandas.DataFrame) -> float:
    """Returns the primary measure: the mean of the evaluations in the last third of a run."""
    return float(run["value"][_is_late(run)].mean())


def whole_mean(run: pandas.DataFrame) -> float:
    """Returns the second measure, the mean of a whole run, larger the sooner it is good.

    The evaluation before the first step does not count, since not every run has it.
    """
    return float(run["value"][run["x"] > 0].mean())


def largest_fall(run: pandas.DataFrame) -> float:
    """Returns how far a run falls at most below its best value before: its instability."""
    return float((run["value"].cummax() - run["value"]).max())


def main_effect(
    frame: pandas.DataFrame,
    weights: Mapping[str, float],
    scales: Mapping[str, float],
    measure: Callable[[pandas.DataFrame], float] = late_mean,
) -> Effect | None:
    """Returns the weighted sum over settings, as a mean over all tasks.

    The variances are those of each setting on each task (Welch), with Satterthwaite's degrees of
    freedom. Tasks are those of the claim, never drawn and never left out.

    Args:
      frame: of the runs, of any settings and tasks.
      weights: {setting: weight}; they sum to 0.
      scales: {task: the return that counts as 1}.
      measure: of a run.

    Returns:
      The effect, with an interval of infinite length where a setting has one seed on a task; None
      if a setting has no run on one of the tasks.
    """
    runs = frame[frame["setting"].isin(list(weights)) & frame["task"].isin(list(scales))]
    if not len(runs):
        return None
    grouped = runs.groupby(_RUN, sort=False)
    values = grouped[["x", "value"]].apply(measure)
    cells = values.groupby(["setting", "task"]).agg(["mean", "var", "count"])
    wanted = pandas.MultiIndex.from_product([list(weights), list(scales)])
    if not wanted.isin(cells.index).all():
        return None
    cells = cells.loc[wanted]
    factor = np.array(
        [weights[setting] / scales[task] / len(scales) for setting, task in cells.index]
    )
    count = cells["count"].to_numpy()
    estimate = float(factor @ cells["mean"])
    variances = factor**2 * cells["var"].to_numpy() / count
    error = float(np.sqrt(variances.sum()))
    late = runs[_is_late(runs, grouped)].groupby(_RUN).size()
    low, high, p = -math.inf, math.inf, 1.0
    if error == 0:
        low, high, p = estimate, estimate, float(estimate == 0)
    elif math.isfinite(error):
        freedom = variances.sum() ** 2 / (variances**2 / (count - 1)).sum()
        reach = error * stats.t.ppf((1 + CONFIDENCE) / 2, freedom)
        low, high = estimate - reach, estimate + reach
        p = float(2 * stats.t.sf(abs(estimate) / error, freedom))
    return Effect(
        *(estimate, float(low), float(high), p, int(count.min()), len(scales)),
        _has_levelled(runs, scales),
        bool(late.min() >= EVALUATIONS),
        error,
    )


def _is_late(runs: pandas.DataFrame, grouped=None) -> pandas.Series:
    """Returns which evaluations are in the last third of their run."""
    end = runs["x"].max() if grouped is None else grouped["x"].transform("max")
    return runs["x"] > LATE * end


def _has_levelled(runs: pandas.DataFrame, scales: Mapping[str, float]) -> bool:
    """Returns whether the settings learnt, and gained little more in their last third.

    Over all settings of the claim: the tasks' scaled values are averaged, which keeps the noise of
    a checkpoint from looking like a gain. Of tasks, more than half need a setting that learnt.
    """
    part = runs["x"] / runs.groupby(_RUN)["x"].transform("max")
    value = runs["value"] / runs["task"].map(scales)
    stretch = np.select([part <= LATE / 2, part <= LATE, part <= (1 + LATE) / 2], [0, 1, 2], 3)
    by_cell = value.groupby([runs["setting"], runs["task"], stretch]).mean().unstack()
    first = value.groupby([runs["setting"], runs["task"]]).first()
    late = by_cell[[column for column in (2, 3) if column in by_cell]].mean(axis=1)
    rise = late - first
    learnt = (rise.groupby("task").max() > MARGIN).mean() > 1 / 2
    if not learnt or 2 not in by_cell or 3 not in by_cell:
        return False
    gain = 2 * (by_cell[3] - by_cell[2]).mean()
    return bool(gain <= max(_LEVELLED * rise.mean(), 0.0))
