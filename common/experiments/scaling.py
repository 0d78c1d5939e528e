"""A test of claims that a speed grows in proportion to something."""

from collections.abc import Sequence
import dataclasses

import numpy as np
from scipy import stats

from common.experiments import selection
from common.experiments.bootstrap import CONFIDENCE
from common.experiments.claims import Basis, Evidence, Finding, Verdict
from common.experiments.lacking import lacking
from common.experiments.paper import Experiment, Paper

_TOLERANCE = 0.1


@dataclasses.dataclass(frozen=True)
class ProportionalSpeed:
    """A test whether what the experiment shows is proportional to its `sizes`."""

    rule = (
        "the slope of log value over log size, a run a point, with its 95 % interval: holds "
        f"if that lies within 1 +- {_TOLERANCE:g}, does not if it lies outside and none of the "
        "sizes is above its machine's cores"
    )
    basis = Basis.RUNS

    def find(self, paper: Paper, experiment: Experiment | None, evidence: Evidence) -> Finding:
        """Implements `claims.Test`."""
        sizes = experiment.sizes
        for scale in evidence.scales(paper):
            runs = selection.runs_of(experiment, evidence.kept.of(paper.name, scale))
            take, x = selection.final_of(experiment.y)[0], selection.clock(experiment)
            found = [
                (run.setting, run.points(x, experiment.y, experiment.returns))
                for run in runs
                if run.has_ended and run.setting in sizes
            ]
            points = [
                (sizes[setting], take(line.set_index(x)[experiment.y]))
                for setting, line in found
                if len(line)
            ]
            if len({size for size, _ in points}) >= 3:
                crowded = [
                    (sizes[run.setting], run.cores)
                    for run in runs
                    if sizes.get(run.setting, 0) > run.cores
                ]
                num = len(experiment.at(scale).settings)
                return _conclude(np.log(np.array(points)), scale, crowded, num)
        needs = lacking(
            paper,
            experiment,
            evidence,
            lambda scale: (experiment.at(scale).settings, experiment.at(scale).environments),
        )
        return Finding(Verdict.OPEN, needs)


def _conclude(
    points: np.ndarray, scale: str, crowded: Sequence[tuple[float, int]], num_sizes: int
) -> Finding:
    """Returns the finding on [runs, 2] logarithms of size and value.

    `crowded` are the sizes above their machine's cores, with these cores.
    """
    line = stats.linregress(points[:, 0], points[:, 1])
    reach = stats.t.ppf((1 + CONFIDENCE) / 2, len(points) - 2) * line.stderr
    low, high = line.slope - reach, line.slope + reach
    words = (
        f"The value grows as the size to the power {line.slope:.2f} ({low:.2f} to "
        f"{high:.2f}), {len(points)} runs"
    )
    summary, sizes = words, f"{len(set(points[:, 0]))} of {num_sizes} sizes"
    words += f" at {selection.scale_in_words(scale)}."
    verdict = Verdict.OPEN
    if 1 - _TOLERANCE < low and high < 1 + _TOLERANCE:
        verdict = Verdict.HOLDS
    elif high < 1 - _TOLERANCE or low > 1 + _TOLERANCE:
        verdict = Verdict.OPEN if crowded else Verdict.FAILS
        if crowded:
            size, cores = max(crowded)
            words += (
                f" Up to {size:g} shared {cores} cores, which says nothing of those that "
                "have a core each."
            )
    return Finding(verdict, words, scale, sizes, summary)
