"""Confidence intervals of the difference of two methods, from a few seeds on a few tasks."""

from collections.abc import Sequence
import dataclasses

import numpy as np
from scipy import stats

CONFIDENCE = 0.95
_RESAMPLES = 9_999
_RANDOM_STATE = 0
"""The seed is fixed, so that the same runs always give the same interval."""


@dataclasses.dataclass(frozen=True)
class Interval:
    """The difference of two methods, mean over tasks, with its 95 % confidence intervals.

    Attributes:
      difference: the mean.
      low: lower end of the bootstrap's interval.
      high: upper end of the bootstrap's interval.
      t_low: lower end of Student's interval, which is wider for two or three seeds.
      t_high: upper end of Student's interval.
      resampled: the bootstrap's differences.
      error: Student's standard error.
      freedom: Student's degrees of freedom.
    """

    difference: float
    low: float
    high: float
    t_low: float
    t_high: float
    resampled: np.ndarray = dataclasses.field(repr=False, compare=False)
    error: float = dataclasses.field(repr=False)
    freedom: int = dataclasses.field(repr=False)

    def p_above(self, value: float) -> float:
        """Returns the p-value for a difference above `value`, the larger of both methods'.

        Two-sided: it is below 0.05 where both intervals lie above `value`.
        """
        return self._p(self.difference - value, self.resampled - value)

    def p_below(self, value: float) -> float:
        """Returns the p-value for a difference below `value`, as `p_above`."""
        return self._p(value - self.difference, value - self.resampled)

    def _p(self, excess: float, resampled: np.ndarray) -> float:
        if excess == float("inf"):
            return 0.0
        bootstrap = (np.count_nonzero(resampled <= 0) + 1) / (len(resampled) + 1)
        student = (
            stats.t.sf(excess / self.error, self.freedom) if self.error else float(excess <= 0)
        )
        return min(1.0, 2 * float(max(bootstrap, student)))


def difference(ours: Sequence[Sequence[float]], theirs: Sequence[Sequence[float]]) -> Interval:
    """Returns the interval of the mean over tasks of `mean of ours - mean of theirs`.

    The bootstrap draws tasks and, on each, each method's seeds (percentiles). It would call two
    equal methods of two seeds each different once in three times. Hence Student's interval for
    these tasks beside it, with one variance for all methods and tasks.

    Args:
      ours: [task][seed], a number for each run.
      theirs: likewise.

    Raises:
      ValueError: there is no task, or a method has less than two seeds on one.
    """
    if not ours or len(ours) != len(theirs) or min(map(len, [*ours, *theirs])) < 2:
        raise ValueError("each method needs two or more seeds on each task")
    samples = [np.asarray(seeds, float) for pair in zip(ours, theirs) for seeds in pair]
    tasks = np.resize(np.arange(len(ours)), max(2, len(ours)))  # a lone task: drawn for certain

    def mean_over_tasks(*data: np.ndarray, axis: int) -> np.ndarray:
        *drawn_seeds, drawn_tasks = data
        means = [seeds.mean(axis) for seeds in drawn_seeds]
        by_task = np.stack([a - b for a, b in zip(means[::2], means[1::2])], axis=-1)
        return np.take_along_axis(by_task, drawn_tasks.astype(int), axis=-1).mean(-1)

    bootstrap = stats.bootstrap(
        (*samples, tasks),
        mean_over_tasks,
        axis=-1,
        vectorized=True,
        confidence_level=CONFIDENCE,
        n_resamples=_RESAMPLES,
        method="percentile",
        rng=np.random.default_rng(_RANDOM_STATE),
    )
    bounds = bootstrap.confidence_interval
    means = [seeds.mean() for seeds in samples]
    observed = float(np.mean(np.subtract(means[::2], means[1::2])))
    error, freedom = _student(samples, len(ours))
    reach = float(stats.t.ppf((1 + CONFIDENCE) / 2, freedom)) * error
    return Interval(
        observed,
        float(bounds.low),
        float(bounds.high),
        observed - reach,
        observed + reach,
        bootstrap.bootstrap_distribution,
        error,
        freedom,
    )


def _student(samples: list[np.ndarray], num_tasks: int) -> tuple[float, int]:
    """Returns the standard error of the mean over tasks, and its degrees of freedom."""
    freedom = sum(len(seeds) - 1 for seeds in samples)
    variance = sum(((seeds - seeds.mean()) ** 2).sum() for seeds in samples) / freedom
    return (
        float(np.sqrt(variance * sum(1 / len(seeds) for seeds in samples))) / num_tasks,
        freedom,
    )
