"""Atari's tables: ours beside the reported scores, their medians and means, ranks and Elo."""

from collections.abc import Mapping, Sequence
import dataclasses

import pandas

from common.experiments.atari_scores import final_scores
from common.experiments.registry import Experiment
from common.experiments.reported_numbers import ReportedNumbers
from common.experiments.runs import KeptRun
from common.experiments.tables import Cell
from common.reporting import scores

_OURS = ", ours"


@dataclasses.dataclass(frozen=True)
class GameScores:
    """A row a game.

    agents: {the paper's column: our setting}.
    """

    agents: Mapping[str, str]
    is_of_runs = True

    @property
    def columns(self) -> tuple[str, ...]:
        """See `tables.Comparison`."""
        return tuple(self.agents)

    def cells(
        self, experiment: Experiment, runs: Sequence[KeptRun], numbers: ReportedNumbers
    ) -> dict[tuple[str, str], Cell]:
        """See `tables.Comparison`."""
        return {
            (game, column): Cell(row.score, row.frames, int(row.seeds))
            for column, setting in self.agents.items()
            for game, row in final_scores(runs, setting, experiment.returns).iterrows()
        }

    def summary(
        self, experiment: Experiment, runs: Sequence[KeptRun], numbers: ReportedNumbers
    ) -> pandas.DataFrame:
        """See `tables.Comparison`."""
        printed = numbers.table(experiment.paper, experiment.name)
        rows = {}
        for column, setting in self.agents.items():
            ours = final_scores(runs, setting, experiment.returns)["score"]
            rows[column] = among_others(column, printed[column].dropna(), numbers)
            rows[column + _OURS] = among_others(column, ours, numbers)
        return _text(rows)


@dataclasses.dataclass(frozen=True)
class GameSummaries:
    """A row an agent, whose scores sum up 57 games.

    agents: {the paper's row: our setting}. medians: {the paper's column: 100 if it is percent, 1 if
    it is parts of a human}. ranks, elo: the paper's columns of them, if it has them.
    """

    agents: Mapping[str, str]
    medians: Mapping[str, float]
    ranks: str | None = None
    elo: str | None = None
    is_of_runs = True

    @property
    def columns(self) -> tuple[str, ...]:
        """See `tables.Comparison`."""
        return (*self.medians, *filter(None, (self.ranks, self.elo)))

    def cells(
        self, experiment: Experiment, runs: Sequence[KeptRun], numbers: ReportedNumbers
    ) -> dict[tuple[str, str], Cell]:
        """See `tables.Comparison`. An agent has numbers if it was run on all games."""
        games = {name.removeprefix("atari:") for name in experiment.environments}
        cells = {}
        for row, setting in self.agents.items():
            final = final_scores(runs, setting, experiment.returns)
            if not games <= set(final.index):
                continue
            ours = among_others(row, final["score"], numbers)
            values = {name: factor * ours["median"] for name, factor in self.medians.items()}
            values |= {self.ranks: ours["mean rank"], self.elo: ours["Elo"]}
            cells |= {
                (row, column): Cell(
                    values[column], final["frames"].mean(), int(final["seeds"].min())
                )
                for column in self.columns
            }
        return cells

    def summary(
        self, experiment: Experiment, runs: Sequence[KeptRun], numbers: ReportedNumbers
    ) -> None:
        """See `tables.Comparison`."""


def among_others(agent: str, ours: pandas.Series, numbers: ReportedNumbers) -> pandas.Series:
    """An agent's scores, summed up, and ranked among those of Reactor's table 5.

    Args:
      agent: takes the place of the agent of that name in table 5, if there is one.
      ours: its scores, by game; other games are left out.

    Returns:
      games, median and mean (parts of a human), mean rank and Elo; NaN where there is none.
    """
    names = ["games", "median", "mean", "mean rank", "Elo"]
    field = numbers.table("reactor", "table 5")
    table = field.assign(**{agent: ours}).dropna()
    if table.empty:
        return pandas.Series([0.0] + 4 * [float("nan")], names)
    try:
        summary = scores.summary(table).loc[agent]
    except ValueError:  # on few games one agent may win or lose all: there is no finite Elo
        summary = scores.summary(table, penalty=1.0).loc[agent].drop("elo")
    return pandas.Series(
        summary.reindex(["games", "median", "mean", "mean_rank", "elo"]).array, names
    )


def _text(rows: Mapping[str, pandas.Series]) -> pandas.DataFrame:
    frame = pandas.DataFrame(rows).T
    digits = {"games": 0, "median": 2, "mean": 2, "mean rank": 2, "Elo": 0}
    text = pandas.DataFrame(
        {
            name: [
                ("" if pandas.isna(value) else f"{value:.{digits[name]}f}") for value in frame[name]
            ]
            for name in frame
        },
        index=frame.index,
    )
    text.index.name = "summed up"
    return text
