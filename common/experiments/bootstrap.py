"""Confidence intervals of contrasts between methods, from a few seeds on given tasks."""

from collections.abc import Callable, Sequence
import dataclasses

import numpy as np
from scipy import stats

CONFIDENCE = 0.95
_RESAMPLES = 9_999
_RANDOM_STATE = 0
"""The seed is fixed, so that the same runs always give the same interval."""


@dataclasses.dataclass(frozen=True)
class Interval:
    """A contrast between methods with its 95 % confidence interval.

    Attributes:
      value: the contrast.
      low: lower end, the lower of the bootstrap's and of Student's, which is wider for few seeds.
      high: upper end, the higher of the two.
      resampled: the bootstrap's contrasts.
      error: Student's standard error.
      freedom: Student's degrees of freedom.
    """

    value: float
    low: float
    high: float
    resampled: np.ndarray = dataclasses.field(repr=False, compare=False)
    error: float = dataclasses.field(repr=False)
    freedom: float = dataclasses.field(repr=False)

    def p_above(self, bound: float) -> float:
        """Returns the p-value for a contrast above `bound`, the larger of both methods'.

        Two-sided: it is below 0.05 where the interval lies above `bound`.
        """
        return self._p(self.value - bound, self.resampled - bound)

    def p_below(self, bound: float) -> float:
        """Returns the p-value for a contrast below `bound`, as `p_above`."""
        return self._p(bound - self.value, bound - self.resampled)

    def _p(self, excess: float, resampled: np.ndarray) -> float:
        if excess == float("inf"):
            return 0.0
        bootstrap = (np.count_nonzero(resampled <= 0) + 1) / (len(resampled) + 1)
        student = (
            stats.t.sf(excess / self.error, self.freedom) if self.error else float(excess <= 0)
        )
        return min(1.0, 2 * float(max(bootstrap, student)))


def contrast(
    samples: Sequence[Sequence[Sequence[float]]],
    weights: Sequence[float],
    over_tasks: Callable = np.mean,
) -> Interval:
    """Returns the weighted sum over settings of `over_tasks` of their means over seeds.

    Resamples seeds within each (task, setting), never tasks: the claim names its tasks. Percentile
    intervals. With two seeds each, this bootstrap calls equal methods different once in three
    times. The interval therefore also covers Student's, in which each setting has a variance of its
    own on each task (Welch) and the degrees of freedom are Satterthwaite's. For a median over tasks
    the standard error is the bootstrap's times sqrt(n / (n - 1)), with the fewest seeds n, because
    resampling n seeds makes it too small by that.

    Args:
      samples: [task][setting][seed], a number for each run.
      weights: [setting], 1 and -1 for a difference.
      over_tasks: `numpy.mean` or `numpy.median`.

    Raises:
      ValueError: there is no task, or a setting has less than two seeds on one.
    """
    if not samples or any(len(task) != len(weights) for task in samples):
        raise ValueError("each task needs all settings, and there must be a task")
    cells = [np.asarray(seeds, float) for task in samples for seeds in task]
    fewest = min(map(len, cells))
    if fewest < 2:
        raise ValueError("each setting needs two or more seeds on each task")
    random = np.random.default_rng(_RANDOM_STATE)

    def combined(means: list) -> np.ndarray:
        by_task = np.reshape(means, (len(samples), len(weights), -1))
        return np.asarray(weights, float) @ over_tasks(by_task, axis=0)

    drawn = [
        cell[random.integers(len(cell), size=(_RESAMPLES, len(cell)))].mean(axis=1)
        for cell in cells
    ]
    resampled = combined(drawn)
    value = float(combined([cell.mean() for cell in cells])[0])
    squared = np.tile(np.square(np.divide(weights, len(samples))), len(samples))
    sizes = np.array([len(cell) for cell in cells])
    variances = squared * [cell.var(ddof=1) for cell in cells] / sizes
    error, freedom = float(np.sqrt(variances.sum())), 1.0
    if error:
        freedom = float(variances.sum() ** 2 / (variances**2 / (sizes - 1)).sum())
    if over_tasks is not np.mean:
        error = float(resampled.std() * np.sqrt(fewest / (fewest - 1)))
    reach = float(stats.t.ppf((1 + CONFIDENCE) / 2, freedom)) * error
    low, high = np.percentile(resampled, [50 * (1 - CONFIDENCE), 50 * (1 + CONFIDENCE)])
    return Interval(
        value,
        min(float(low), value - reach),
        max(float(high), value + reach),
        resampled,
        error,
        freedom,
    )
