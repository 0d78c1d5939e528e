"""Our final scores on Atari games, and whether their median is the paper's."""

from collections.abc import Iterable
import dataclasses
from typing import NamedTuple

import numpy as np
import pandas
from scipy import stats

from common.experiments import selection
from common.experiments.bootstrap import CONFIDENCE
from common.experiments.claims import Basis, Evidence, Finding, Verdict
from common.experiments.comparison import nothing
from common.experiments.registry import EPISODE_RETURN, Experiment, Paper, Returns
from common.experiments.runs import KeptRun
from common.reporting.budget import Budget

_COLUMNS = ("score", "seeds", "frames")
_MARGIN = 0.05
_RANDOM_STATE = 0


def final_scores(runs: Iterable[KeptRun], setting: str, returns: Returns) -> pandas.DataFrame:
    """The final score of a setting on each game.

    Returns:
      by game: `score`, the mean over seeds of the final returns (see `selection.FINAL`), `seeds`,
      and `frames`, the mean that the runs have seen.
    """
    rows = {
        game: (*np.mean([(one.score, one.frames) for one in finals], axis=0), len(finals))
        for game, finals in _finals(runs, setting, returns).items()
    }
    frame = pandas.DataFrame.from_dict(
        rows, orient="index", columns=["score", "frames", "seeds"], dtype=float
    )
    return frame[list(_COLUMNS)]


class _Final(NamedTuple):
    """How a run on a game ended: its final return, the frames that it saw, what limited it."""

    score: float
    frames: float
    budget: Budget


def _finals(runs: Iterable[KeptRun], setting: str, returns: Returns) -> dict[str, list[_Final]]:
    """By game, those of all seeds of a setting."""
    games: dict[str, list[_Final]] = {}
    for run in runs:
        game = run.environment.removeprefix("atari:")
        if run.setting != setting or game == run.environment or not run.has_ended:
            continue
        points = run.points("environment_frames", EPISODE_RETURN, returns)
        if len(points):
            games.setdefault(game, []).append(
                _Final(
                    selection.final(points[EPISODE_RETURN]),
                    points["environment_frames"].iloc[-1],
                    run.budget,
                )
            )
    return games


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

    rule = (
        "over all games of the paper, with two seeds of each, the 95 % bootstrap interval over "
        f"seeds of our median: holds if all of it is at {1 - _MARGIN:.0%} of the paper's or "
        "above, does not if all of it is below after runs as long as the paper's"
    )
    basis = Basis.RUNS

    def find(self, paper: Paper, experiment: Experiment, evidence: Evidence) -> Finding:
        """See `claims.Test`."""
        reported = self.percent * evidence.reported.number(
            paper.name, self.source, self.row, self.column
        )
        games = {name.removeprefix("atari:") for name in experiment.environments}
        found = [
            (scale, _finals(evidence.kept.of(paper.name, scale), self.setting, experiment.returns))
            for scale in evidence.scales(paper)
        ]
        found = [(scale, ours) for scale, ours in found if ours]
        if not found:
            return Finding(Verdict.OPEN, nothing(paper, experiment))
        scale, ours = max(found, key=lambda one: len(one[1]))
        at_scale = selection.scale_in_words(scale)
        enough = {game for game in games if len(ours.get(game, ())) >= 2}
        if enough != games:
            return Finding(
                Verdict.OPEN,
                f"Runs of {len(games & set(ours))} of {len(games)} games, "
                f"two seeds or more of {len(enough)}. {at_scale}.",
            )
        human = evidence.reported.atari_scores()
        by_game = [_percent(game, ours[game], human) for game in sorted(games)]
        median = np.median([np.mean(of) for of in by_game])
        low, high = stats.bootstrap(
            by_game,
            _median_of_means,
            axis=-1,
            vectorized=True,
            method="percentile",
            confidence_level=CONFIDENCE,
            rng=np.random.default_rng(_RANDOM_STATE),
        ).confidence_interval
        words = (
            f"Our median is {median:.0f} % ({low:.0f} to {high:.0f}), the paper's "
            f"{reported:.0f} %. {at_scale}."
        )
        least = (1 - _MARGIN) * reported
        if low >= least:
            return Finding(Verdict.HOLDS, words)
        is_whole = all(one.budget.covers(experiment.budget) for game in games for one in ours[game])
        if high < least and is_whole:
            return Finding(Verdict.FAILS, words)
        shorter = "" if is_whole else f" Not all runs had the paper's {experiment.budget}."
        return Finding(Verdict.OPEN, words + shorter)


def _percent(game: str, finals: list[_Final], human: pandas.DataFrame) -> np.ndarray:
    """[seeds], in percent of a human, whose scores are as `reported.atari_scores`."""
    seeds = pandas.Series([one.score for one in finals])
    return 100 * selection.human_normalised(game, seeds, human).to_numpy()


def _median_of_means(*games: np.ndarray, axis: int) -> np.ndarray:
    return np.median([seeds.mean(axis) for seeds in games], axis=0)
