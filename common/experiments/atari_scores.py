"""Our final scores on Atari games, beside a paper's tables of scores and of their summaries."""

from collections.abc import Iterable, Mapping, Sequence
import dataclasses
from typing import NamedTuple

import numpy as np
import pandas
from scipy import stats

from common.environments.atari_games import ENVIRONMENTS
from common.experiments import selection
from common.experiments.claims import Basis, Check, Evidence
from common.experiments.effects import CONFIDENCE, MARGIN
from common.experiments.paper import EPISODE_RETURN, Cell, Experiment, OwnNumbers, Paper, Returns
from common.experiments.runs import KeptRun
from common.experiments.scales import PAPER
from common.reporting import scores
from common.reporting.reported import Reported
from common.reporting.run_directory import RunDirectory

_OURS = ", ours"
_DIGITS = {"games": 0, "median": 2, "mean": 2, "mean rank": 2, "Elo": 0}


class Final(NamedTuple):
    """The end of a run on a game: its final return, and the frames that it saw."""

    score: float
    frames: float


def finals(runs: Iterable[KeptRun], setting: str, returns: Returns) -> dict[str, list[Final]]:
    """Returns the ends of the runs of a setting by game, a seed each.

    The score is that of evaluation.json where a run has one.
    """
    games: dict[str, list[Final]] = {}
    for run in runs:
        game = run.environment.removeprefix("atari:")
        if run.setting != setting or game == run.environment or not run.has_ended:
            continue
        points = run.points("environment_frames", EPISODE_RETURN, returns)
        if len(points):
            evaluated = RunDirectory(run.path).read_evaluation()
            score = selection.final(points[EPISODE_RETURN]) if evaluated is None else evaluated
            frames = points["environment_frames"].iloc[-1]
            games.setdefault(game, []).append(Final(score, frames))
    return games


def final_scores(
    runs: Sequence[KeptRun], settings: Iterable[str], returns: Returns
) -> pandas.DataFrame:
    """Returns the final scores of the best of some settings on each game.

    Returns:
      by game: `score`, the mean over seeds of the final returns (see `finals`), `frames`, the mean
      that the runs have seen, `seeds` and `setting`.
    """
    found: dict[str, list[tuple[float, float, int, str]]] = {}
    for setting in settings:
        for game, ends in finals(runs, setting, returns).items():
            score, frames = np.mean(ends, axis=0)
            found.setdefault(game, []).append((score, frames, len(ends), setting))
    best = {game: max(ends) for game, ends in found.items()}
    names = ["score", "frames", "seeds", "setting"]
    return pandas.DataFrame.from_dict(best, orient="index", columns=names)


@dataclasses.dataclass(frozen=True)
class GameScores(OwnNumbers):
    """Our numbers for a table with a row for each game.

    Attributes:
      agents: {the paper's column: our setting}.
      field: paper and source of the scores of other agents, for ranks and Elo.
      smaller: settings that stand for it at smaller scales, where the best of them counts.
    """

    agents: Mapping[str, str]
    field: tuple[str, str]
    smaller: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """Implements `OwnNumbers`."""
        return tuple(self.agents)

    def cells(
        self, experiment: Experiment, runs: Sequence[KeptRun], numbers: Reported
    ) -> dict[tuple[str, str], Cell]:
        """Implements `OwnNumbers`."""
        return {
            (game, column): Cell(row.score, row.frames, int(row.seeds), row.setting)
            for column, setting in self.agents.items()
            for game, row in self._scores(experiment, runs, setting).iterrows()
        }

    def summary(
        self,
        table: pandas.DataFrame,
        experiment: Experiment,
        runs: Sequence[KeptRun],
        numbers: Reported,
    ) -> pandas.DataFrame:
        """Implements `OwnNumbers`."""
        field = numbers.table(*self.field)
        rows = {}
        for column, setting in self.agents.items():
            ours = self._scores(experiment, runs, setting)["score"]
            rows[column] = among_others(column, table[column].dropna(), field)
            rows[column + _OURS] = among_others(column, ours, field)
        text = {
            agent: {
                name: "" if pandas.isna(value) else f"{value:.{_DIGITS[name]}f}"
                for name, value in row.items()
            }
            for agent, row in rows.items()
        }
        return pandas.DataFrame.from_dict(text, orient="index").rename_axis("summed up")

    def _scores(
        self, experiment: Experiment, runs: Sequence[KeptRun], setting: str
    ) -> pandas.DataFrame:
        return final_scores(runs, (setting, *self.smaller), experiment.returns)


def reported_scores(
    paper: Paper, game: str, settings: Iterable[str], numbers: Reported
) -> dict[str, float]:
    """Returns the paper's own scores on a game by the labels of its agents.

    Args:
      paper: whose tables of scores are read.
      game: a row of these tables.
      settings: ours; agents that none of them stands for are left out.
      numbers: that papers report.
    """
    there = set(settings)
    return {
        paper.label(setting): numbers.number(paper.name, table.name, game, column)
        for table in paper.of_kind("table")
        if isinstance(table.ours, GameScores)
        for column, setting in table.ours.agents.items()
        if there & {setting, *table.ours.smaller}
    }


@dataclasses.dataclass(frozen=True)
class GameSummaries(OwnNumbers):
    """Our numbers for a table with a row for each agent, whose scores it sums up over games.

    Attributes:
      agents: {the paper's row: our setting}.
      medians: {the paper's column: 100 if it is in percent, 1 if it is in parts of a human}.
      field: as of `GameScores`.
      ranks: the paper's column of mean ranks, if it has one.
      elo: the paper's column of Elo, if it has one.
    """

    agents: Mapping[str, str]
    medians: Mapping[str, float]
    field: tuple[str, str]
    ranks: str | None = None
    elo: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """Implements `OwnNumbers`."""
        return (*self.medians, *filter(None, (self.ranks, self.elo)))

    def cells(
        self, experiment: Experiment, runs: Sequence[KeptRun], numbers: Reported
    ) -> dict[tuple[str, str], Cell]:
        """Returns numbers of agents that were run on all games. Implements `OwnNumbers`."""
        games = {name.removeprefix("atari:") for name in experiment.environments}
        cells = {}
        for row, setting in self.agents.items():
            final = final_scores(runs, (setting,), experiment.returns)
            if not games <= set(final.index):
                continue
            ours = among_others(row, final["score"], numbers.table(*self.field))
            values = {name: factor * ours["median"] for name, factor in self.medians.items()}
            values |= {self.ranks: ours["mean rank"], self.elo: ours["Elo"]}
            frames, seeds = final["frames"].mean(), int(final["seeds"].min())
            cells |= {
                (row, name): Cell(values[name], frames, seeds, setting) for name in self.columns
            }
        return cells


def median_reached(
    paper: str, setting: str, source: str, row: str, column: str, percent: float = 1.0
) -> Check:
    """Returns a check whether our median human-normalised score is the paper's.

    Args:
      paper: name of the paper.
      setting: of our runs.
      source: of the paper's median in results/reported, as `row` and `column` are.
      row: the paper's.
      column: the paper's.
      percent: the unit of the paper's number, in percent of a human.
    """

    def find(evidence: Evidence) -> tuple[bool | None, str]:
        human = evidence.reported.atari_scores()
        theirs = percent * evidence.reported.number(paper, source, row, column)
        ours = finals(evidence.kept.of(paper, PAPER.name), setting, Returns.EVALUATOR)
        games = {name.removeprefix("atari:") for name in ENVIRONMENTS}
        num_seeds = min(len(ours.get(game, ())) for game in games)
        if num_seeds < 2:
            there = sum(len(ours.get(game, ())) >= 2 for game in games)
            return None, f"Two runs each of {there} of {len(games)} games at the paper's scale."
        by_game = [
            (np.array([one.score for one in ours[row.Index][:num_seeds]]) - row.random)
            / (row.human - row.random)
            for row in human.loc[sorted(games)].itertuples()
        ]
        medians = 100 * np.median(by_game, axis=0)  # the paper has one run of a game
        mean, error = medians.mean(), stats.sem(medians)
        reach = error * stats.t.ppf((1 + CONFIDENCE) / 2, num_seeds - 1)
        words = f"{mean:.0f} % ({mean - reach:.0f} to {mean + reach:.0f}), reported {theirs:.0f} %."
        least = (1 - MARGIN) * theirs
        if mean - reach >= least:
            return True, words
        return (False if mean + reach < least else None), words

    rule = (
        "at the paper's scale the mean over seeds of the median over all games is surely not below "
        f"{1 - MARGIN:.0%} of the paper's"
    )
    return Check(find, rule, Basis.RUNS)


def among_others(agent: str, ours: pandas.Series, field: pandas.DataFrame) -> pandas.Series:
    """Returns a summary of an agent's scores, with its rank among other agents.

    Args:
      agent: takes the place of the agent of that name in `field`, if there is one.
      ours: its scores by game; games that `field` lacks are left out.
      field: scores of agents, with the columns "Random" and "Human".

    Returns:
      games, median and mean (parts of a human), mean rank and Elo; nan where there is none.
    """
    table = field.assign(**{agent: ours}).dropna()
    if table.empty:
        return pandas.Series([0.0] + 4 * [float("nan")], list(_DIGITS))
    return pandas.Series(scores.summary(table).loc[agent].array, list(_DIGITS))
