"""Aggregates of many runs (Agarwal et al. 2021), with intervals from stratified bootstraps.

The scores of a method are, for each task, an array [N] with the measure of each run, as a fraction
of the task's scale. Tasks may have different numbers of runs. For arrays with leading axes
[..., N], the functions return an aggregate for each resample.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
import math
from typing import NamedTuple

import numpy as np
import pandas
from scipy import stats

from common.evidence.effects import CONFIDENCE

Scores = Sequence[np.ndarray]

_RESAMPLES = 2000


class Estimate(NamedTuple):
    """An aggregate, with the ends of its bootstrap interval."""

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray


def interquartile_mean(scores: Scores) -> np.ndarray:
    """Returns the mean of the middle half of all runs of all tasks (section 4.3)."""
    return stats.trim_mean(np.concatenate(scores, axis=-1), 0.25, axis=-1)


def performance_profile(scores: Scores, above: np.ndarray) -> np.ndarray:
    """Returns the fraction of runs above each score [P], as a mean over tasks (section 4.2)."""
    return np.mean([(task[..., None] > above).mean(axis=-2) for task in scores], axis=0)


def probability_of_improvement(first: Scores, second: Scores) -> np.ndarray:
    """Returns the probability that a run of the first is better, mean over tasks (section 4.3).

    On a task it is the Mann-Whitney U statistic per pair of runs, in which a tie is half a win.
    """
    signs = (np.sign(x[..., :, None] - y[..., None, :]) for x, y in zip(first, second, strict=True))
    return np.mean([(1 + sign.mean(axis=(-2, -1))) / 2 for sign in signs], axis=0)


def estimate(aggregate: Callable[..., np.ndarray], *methods: Scores) -> Estimate:
    """Returns an aggregate of methods, with its interval of confidence `CONFIDENCE`.

    The interval lies between percentiles of resamples, with replacement, of the runs of each task.
    """
    generator = np.random.default_rng(0)

    def resampled(task: np.ndarray) -> np.ndarray:
        return task[generator.integers(len(task), size=(_RESAMPLES, len(task)))]

    found = aggregate(*([resampled(task) for task in scores] for scores in methods))
    ends = ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2)
    return Estimate(aggregate(*methods), *np.quantile(found, ends, axis=0))


def scores_of(runs: pandas.DataFrame, settings: Iterable[str], tasks: Iterable[str]) -> Scores:
    """Returns the scores of all runs of some settings, from the result of `effects.by_run`."""
    values = runs["value"][runs.index.get_level_values("setting").isin(list(settings))]
    return [values.xs(task, level="task").to_numpy() for task in tasks]


def improvement_of(
    runs: pandas.DataFrame, weights: Mapping[str, float], tasks: Sequence[str]
) -> Estimate | None:
    """Returns the probability of improvement that corresponds to a main effect.

    Args:
      runs: see `effects.main_effect`.
      weights: {setting: weight} of the effect.
      tasks: the tasks of the effect.

    Returns:
      The estimate; None if the effect is not a difference of two means over settings, or if there
      is a single run of one of the two on a task.
    """
    sides = [{name for name in weights if sign * weights[name] > 0} for sign in (1, -1)]
    is_of_means = all(
        math.isclose(abs(weights[name]), 1 / len(side)) for side in sides for name in side
    )
    methods = [scores_of(runs, side, tasks) for side in sides]
    if not is_of_means or min(len(task) for scores in methods for task in scores) < 2:
        return None
    return estimate(probability_of_improvement, *methods)
