"""Our final scores on Atari games, and whether their median is the paper's."""

from collections.abc import Iterable
import dataclasses

import numpy as np
import pandas
from scipy import stats

from common.experiments import selection
from common.experiments.bootstrap import CONFIDENCE
from common.experiments.claims import Basis, Evidence, Finding, Verdict
from common.experiments.comparison import nothing
from common.experiments.registry import EPISODE_RETURN, Experiment, Paper, Returns
from common.experiments.runs import KeptRun
from common.reporting import scores

_COLUMNS = ("score", "seeds", "frames")
_MARGIN = 0.05
_RANDOM_STATE = 0


def final_scores(runs: Iterable[KeptRun], setting: str, returns: Returns) -> pandas.DataFrame:
    """The final score of a setting on each game.

    Returns:
      by game: `score`, the mean over seeds of the final returns (see `selection.FINAL`), `seeds`,
      and `frames`, the mean that the runs have seen.
    """
    games: dict[str, list[tuple[float, float]]] = {}
    for run in runs:
        game = run.environment.removeprefix("atari:")
        if run.setting != setting or game == run.environment or not run.has_ended:
            continue
        points = run.points("environment_frames", EPISODE_RETURN, returns)
        if len(points):
            final = selection.final(points[EPISODE_RETURN])
            games.setdefault(game, []).append((final, points["environment_frames"].iloc[-1]))
    rows = {game: (*np.mean(of, axis=0), len(of)) for game, of in games.items()}
    frame = pandas.DataFrame.from_dict(rows, orient="index", columns=["score", "frames", "seeds"],
                                       dtype=float)
    return frame[list(_COLUMNS)]


@dataclasses.dataclass(frozen=True)
class MedianReached:
    """Whether our median human-normalised score is the paper's.

    setting: of ours. source, row, column: of the paper's, in results/reported. percent: what the
    paper's number 1 is, in percent of a human.
    """

    setting: str
    source: str
    row: str
    column: str
    percent: float = 1.0

    rule = ("over all games of the paper, the 95 % bootstrap interval of our median: holds if it "
            f"reaches {1 - _MARGIN:.0%} of the paper's or more, does not if it ends below")
    basis = Basis.RUNS

    def find(self, paper: Paper, experiment: Experiment, evidence: Evidence) -> Finding:
        """See `claims.Test`."""
        reported = self.percent * evidence.reported.number(
            paper.name, self.source, self.row, self.column)
        games = {name.removeprefix("atari:") for name in experiment.environments}
        found = [(scale, final_scores(evidence.kept.of(paper.name, scale), self.setting,
                                      experiment.returns)) for scale in evidence.scales(paper)]
        found = [(scale, ours) for scale, ours in found if len(ours)]
        if not found:
            return Finding(Verdict.OPEN, nothing(paper, experiment))
        scale, ours = max(found, key=lambda one: len(one[1]))
        if not games <= set(ours.index):
            return Finding(Verdict.OPEN, f"Runs of {len(games & set(ours.index))} of {len(games)} "
                                         f"games at the scale {scale}.")
        normalised = 100 * scores.human_normalised(
            ours.loc[sorted(games), ["score"]], *references(evidence))["score"]
        interval = stats.bootstrap(
            (normalised.to_numpy(),), np.median, method="percentile", confidence_level=CONFIDENCE,
            rng=np.random.default_rng(_RANDOM_STATE)).confidence_interval
        words = (f"Our median is {normalised.median():.0f} % ({interval.low:.0f} to "
                 f"{interval.high:.0f}), the paper's {reported:.0f} %. "
                 f"{selection.scale_in_words(scale)}.")
        if interval.low >= (1 - _MARGIN) * reported:
            return Finding(Verdict.HOLDS, words)
        return Finding(Verdict.FAILS if interval.high < (1 - _MARGIN) * reported else Verdict.OPEN,
                       words)


def references(evidence: Evidence) -> tuple[pandas.Series, pandas.Series]:
    """Scores of random play and of a human, by game."""
    table = evidence.reported.atari_scores()
    return table["random"], table["human"]
