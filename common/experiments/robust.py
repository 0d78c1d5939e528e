"""The statistics of Agarwal et al. (2021) that a few outlying runs do not move.

They stand beside means. They are rliable's `aggregate_iqm` and `probability_of_improvement`; that
package needs arch, statsmodels and seaborn for no more than these two.
"""

from collections.abc import Sequence

import numpy as np
from scipy import stats


def interquartile_mean(scores: Sequence[Sequence[float]]) -> float:
    """Returns the mean of the middle half of all scores [task][run], which have one unit."""
    return float(stats.trim_mean(np.concatenate(scores), proportiontocut=0.25))


def probability_of_improvement(
    ours: Sequence[Sequence[float]], theirs: Sequence[Sequence[float]]
) -> float:
    """Returns the probability that a run of ours is better than one of theirs, mean over tasks.

    Args:
      ours: [task][run]. Equal scores count half.
      theirs: [task][run].
    """
    ranks = (
        np.sign(np.subtract.outer(np.asarray(a, float), np.asarray(b, float))).mean()
        for a, b in zip(ours, theirs, strict=True)
    )
    return float((1 + np.mean(list(ranks))) / 2)
