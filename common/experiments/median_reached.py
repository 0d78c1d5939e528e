"""A test of the claim that an agent reaches a median score on Atari."""

from collections.abc import Sequence
import dataclasses

import numpy as np
import pandas

from common.experiments import bootstrap, selection
from common.experiments.atari_scores import Final, finals
from common.experiments.claims import Basis, Evidence, Finding, Verdict
from common.experiments.lacking import lacking
from common.experiments.paper import Experiment, Paper
from common.experiments.scales import PAPER

_MARGIN = 0.05


@dataclasses.dataclass(frozen=True)
class MedianReached:
    """A test whether our median human-normalised score is the paper's.

    Attributes:
      setting: of our runs.
      source: of the paper's median in results/reported, as `row` and `column` are.
      row: the paper's.
      column: the paper's.
      percent: the unit of the paper's number, in percent of a human.
    """

    setting: str
    source: str
    row: str
    column: str
    percent: float = 1.0

    rule = (
        "at the paper's scale, over all its games, with two seeds of each, the 95 % interval over "
        "seeds of our median: holds if all of it is at "
        f"{1 - _MARGIN:.0%} of the paper's or above, does not if all of it is below after runs as "
        "long as the paper's"
    )
    basis = Basis.RUNS

    def find(self, paper: Paper, experiment: Experiment, evidence: Evidence) -> Finding:
        """Implements `claims.Test`."""
        reported = self.percent * evidence.reported.number(
            paper.name, self.source, self.row, self.column
        )
        games = {name.removeprefix("atari:") for name in experiment.environments}
        needs = lacking(
            paper,
            experiment,
            evidence,
            lambda scale: ([self.setting], experiment.environments),
            [PAPER.name],
        )
        # Other scales have other games, or fewer frames: their medians are not the paper's.
        if evidence.scale not in (None, PAPER.name):
            return Finding(Verdict.OPEN, f"Only runs at the paper's scale count. {needs}")
        kept = evidence.kept.of(paper.name, PAPER.name)
        ours = finals(kept, self.setting, experiment.returns)
        if not ours:
            return Finding(Verdict.OPEN, needs)
        enough = {game for game in games if len(ours.get(game, ())) >= 2}
        if enough != games:
            return Finding(
                Verdict.OPEN,
                f"Runs of {len(games & set(ours))} of {len(games)} games, "
                f"two seeds or more of {len(enough)}. {needs}",
            )
        human = evidence.reported.atari_scores()
        by_game = [_percent(game, ours[game], human) for game in sorted(games)]
        found = bootstrap.contrast([[seeds] for seeds in by_game], (1,), np.median)
        words = (
            f"Our median is {found.value:.0f} % ({found.low:.0f} to "
            f"{found.high:.0f}), the paper's {reported:.0f} %."
        )
        coverage, scale = f"median over {len(games)} of {len(games)} games", PAPER.name
        least = (1 - _MARGIN) * reported
        if found.low >= least:
            return Finding(Verdict.HOLDS, words, scale, coverage, words)
        is_whole = all(one.budget.covers(experiment.budget) for game in games for one in ours[game])
        if found.high < least and is_whole:
            return Finding(Verdict.FAILS, words, scale, coverage, words)
        shorter = "" if is_whole else f" Not all runs had the paper's {experiment.budget}."
        return Finding(Verdict.OPEN, words + shorter)


def _percent(game: str, ends: Sequence[Final], human: pandas.DataFrame) -> np.ndarray:
    """Returns scores [seeds] in percent of a human, whose scores are `Reported.atari_scores`."""
    seeds = pandas.Series([one.score for one in ends])
    return 100 * selection.human_normalised(game, seeds, human).to_numpy()
