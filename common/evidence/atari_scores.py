"""Scores on Atari games: summaries, ranks and Elo, and our numbers for the papers' tables.

Mean rank and Elo follow the Reactor (Gruslys et al. 2018), appendix 6.2. Its text leaves ties and
the fit open; the choices here reproduce its table 2 (tests/evidence/test_reported.py says
how closely). A table of scores has games as rows, all of which count the same, and agents as
columns.
"""

from collections.abc import Iterable, Mapping, Sequence
import dataclasses
import itertools

import numpy as np
import pandas

from common.environments import frames_per_step
from common.evidence.paper import EPISODE_RETURN, Experiment, Paper
from common.evidence.reported import Reported, human_normalised
from common.evidence.runs import KeptRun
from common.evidence.tables import Cell, OwnNumbers

_OURS = ", ours"
_RESOURCES = ("days", "frames", "cores", "gpus")
_DIGITS = {"games": 0, "median": 2, "mean": 2, "mean rank": 2, "Elo": 0}


def finals(
    runs: Iterable[KeptRun], settings: Iterable[str], from_starts: bool = False
) -> pandas.DataFrame:
    """Returns the evaluations of the final parameters of runs on games.

    Args:
      runs: runs of one scale.
      settings: the settings to include.
      from_starts: whether to take the episodes from files of start states, not from no-op starts.

    Returns:
      a row for each run with a final evaluation: setting and game; score, the mean return;
      episodes, their number; and days, frames, cores and gpus of the run.
    """
    rows = []
    for run in runs:
        suite, _, game = run.environment.partition(":")
        final = run.final_evaluation if suite == "atari" and run.setting in settings else None
        if final is not None and from_starts:
            final = _from_starts(run, final)
        if final is not None:
            frames = final.actor_steps * frames_per_step(run.environment)
            seen = (final.wall_seconds / 86_400, frames, run.cores, run.gpus)
            rows.append((run.setting, game, final[EPISODE_RETURN], final.episodes, *seen))
    table = pandas.DataFrame(rows, columns=["setting", "game", "score", "episodes", *_RESOURCES])
    return table.astype({name: float for name in table.columns[2:]})


def _from_starts(run: KeptRun, final: pandas.Series) -> pandas.Series | None:
    """Returns a final evaluation with the results of its episodes from start states, or None."""
    played = run.from_start_states
    if played is None:
        return None
    returns = played["episode_returns"]
    return pandas.Series({**final, EPISODE_RETURN: np.mean(returns), "episodes": len(returns)})


def final_scores(
    runs: Sequence[KeptRun], settings: Iterable[str], from_starts: bool = False
) -> pandas.DataFrame:
    """Returns the final scores of the best of some settings on each game; see `finals`.

    Returns:
      by game: the columns of `finals` as means over seeds, `seeds` (their number) and `setting`.
    """
    ends = finals(runs, settings, from_starts)
    grouped = ends.groupby(["game", "setting"])
    means = grouped.mean().assign(seeds=grouped.size()).reset_index("setting")
    return means.sort_values(["score", "frames", "seeds", "setting"]).groupby("game").last()


@dataclasses.dataclass(frozen=True, kw_only=True)
class _OfGames(OwnNumbers):
    """Our numbers for a table of scores on games.

    Attributes:
      agents: {the paper's column or row: our setting}.
      field: paper and source of other agents' scores, for ranks and Elo.
      smaller: settings that stand in for ours at smaller scales, where the best of all counts.
      from_starts: columns with episodes from files of start states. They have no ranks and no Elo,
        because no paper reports other agents' scores from there.
    """

    agents: Mapping[str, str]
    field: tuple[str, str]
    smaller: tuple[str, ...] = ()
    from_starts: tuple[str, ...] = ()

    def scores(self, runs: Sequence[KeptRun], setting: str, from_starts: bool) -> pandas.DataFrame:
        """Returns the final scores of a setting, or of those that stand in for it."""
        return final_scores(runs, (setting, *self.smaller), from_starts)


class GameScores(_OfGames):
    """Our numbers for a table with a row for each game and a column for each agent."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Implements `OwnNumbers`."""
        return tuple(self.agents)

    def cells(
        self, experiment: Experiment, runs: Sequence[KeptRun], numbers: Reported
    ) -> dict[tuple[str, str], Cell]:
        """Implements `OwnNumbers`."""
        return {
            (game, column): Cell(row.score, row.frames, row.seeds, row.episodes, row.setting)
            for column, setting in self.agents.items()
            for game, row in self.scores(runs, setting, column in self.from_starts).iterrows()
        }

    def summary(
        self,
        table: pandas.DataFrame,
        experiment: Experiment,
        runs: Sequence[KeptRun],
        numbers: Reported,
    ) -> pandas.DataFrame:
        """Implements `OwnNumbers`."""
        rows = {}
        for column, setting in self.agents.items():
            is_from_starts = column in self.from_starts
            field = _human_starts(numbers) if is_from_starts else numbers.table(*self.field)
            ours = self.scores(runs, setting, is_from_starts)["score"]
            rows[column] = among_others(column, table[column].dropna(), field)
            rows[column + _OURS] = among_others(column, ours, field)
        sums = pandas.DataFrame.from_dict(rows, orient="index").rename_axis("summed up")
        for name, digits in _DIGITS.items():
            shown = sums[name].map(f"{{:.{digits}f}}".format, na_action="ignore")
            sums[name] = shown.astype(object).fillna("")
        return sums


def reported_scores(
    paper: Paper, game: str, settings: Iterable[str], numbers: Reported
) -> dict[str, float]:
    """Returns the paper's own scores on a game from no-op starts, by the labels of its agents.

    Args:
      paper: the paper whose tables of scores are read.
      game: a row of these tables.
      settings: our settings; agents without one of them are left out.
      numbers: the numbers that papers report.
    """
    there = set(settings)
    return {
        paper.label(setting): numbers.number(paper.name, table.name, game, column)
        for table in paper.of_kind("table")
        if isinstance(table.ours, GameScores)
        for column, setting in table.ours.agents.items()
        if there & {setting, *table.ours.smaller} and column not in table.ours.from_starts
    }


@dataclasses.dataclass(frozen=True, kw_only=True)
class GameSummaries(_OfGames):
    """Our numbers for a table with a row for each agent that summarises its scores over games.

    Attributes:
      medians: {the paper's column: 100 if it is in percent, 1 if a human's score is 1}.
      ranks: the paper's column of mean ranks, if there is one.
      elo: the paper's column of Elo, if there is one.
      resources: {the paper's column: "days", "frames", "cores", "gpus" or "games"}, means over the
        games that have runs.
    """

    medians: Mapping[str, float]
    ranks: str | None = None
    elo: str | None = None
    resources: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def columns(self) -> tuple[str, ...]:
        """Implements `OwnNumbers`."""
        return (*self.medians, *filter(None, (self.ranks, self.elo)), *self.resources)

    def cells(
        self, experiment: Experiment, runs: Sequence[KeptRun], numbers: Reported
    ) -> dict[tuple[str, str], Cell]:
        """Returns resources, and summaries of the scores of agents that were run on all games.

        Implements `OwnNumbers`.
        """
        games = {name.removeprefix("atari:") for name in experiment.environments}
        cells = {}
        agents = itertools.product(self.agents.items(), (False, True))
        for (row, setting), from_starts in agents:
            final = self.scores(runs, setting, from_starts)
            if final.empty:
                continue
            used = {**final[[*_RESOURCES]].mean(), "games": len(final)}
            values = {name: used[column] for name, column in self.resources.items()}
            if games <= set(final.index):
                field = _human_starts(numbers) if from_starts else numbers.table(*self.field)
                ours = among_others(row, final["score"], field)
                values |= {name: factor * ours["median"] for name, factor in self.medians.items()}
                values |= {self.ranks: ours["mean rank"], self.elo: ours["Elo"]}
            runs_of = (used["frames"], final["seeds"].min(), final["episodes"].min())
            settings = ", ".join(sorted(set(final["setting"])))
            there = [
                name
                for name in self.columns
                if name in values and (name in self.from_starts) == from_starts
            ]
            cells |= {(row, name): Cell(values[name], *runs_of, settings) for name in there}
        return cells


def _human_starts(numbers: Reported) -> pandas.DataFrame:
    """Returns the scores of random play and a human from human starts, without other agents."""
    return numbers.atari_scores(from_human_starts=True).rename(columns=str.capitalize)


def among_others(agent: str, ours: pandas.Series, field: pandas.DataFrame) -> pandas.Series:
    """Returns a summary of an agent's scores, with its rank among other agents.

    Args:
      agent: name of the agent; it replaces an agent of that name in `field`.
      ours: its scores by game; games that are missing from `field` are left out.
      field: scores of agents, with the columns "Random" and "Human".

    Returns:
      games, median and mean (a human is 1), mean rank and Elo; nan where they are undefined, such
      as ranks among random play and a human alone.
    """
    table = field.assign(**{agent: ours}).dropna()
    if table.empty:
        return pandas.Series([0.0] + 4 * [float("nan")], list(_DIGITS))
    found = pandas.Series(summary(table).loc[agent].array, list(_DIGITS))
    if set(field) <= {"Random", "Human", agent}:
        found[["mean rank", "Elo"]] = float("nan")
    return found


def summary(scores: pandas.DataFrame) -> pandas.DataFrame:
    """Returns the numbers of the Reactor's tables 1 and 2 for each agent, and the mean score.

    Args:
      scores: unit score, without empty cells. Random play and a human, in the columns "Random" and
        "Human", are ranked like the others.

    Returns:
      By agent: `games` (count), `median` and `mean` of the human-normalised scores (human = 1),
      `mean_rank` (1 is best), `elo` (0 for a human; nan if there is no finite maximum).
    """
    references = pandas.DataFrame({"random": scores["Random"], "human": scores["Human"]})
    normalised = scores.apply(human_normalised, references=references)
    return pandas.DataFrame(
        {
            "games": normalised.count(),
            "median": normalised.median(),
            "mean": normalised.mean(),
            "mean_rank": mean_rank(scores),
            "elo": elo(wins(scores), anchor="Human"),
        }
    )


def mean_rank(scores: pandas.DataFrame) -> pandas.Series:
    """Returns the mean over the games of each agent's rank, from 1 (best).

    An agent's rank is the number of agents, itself included, that score at least as much: agents
    that tie share the worst of their places.
    """
    return scores.rank(axis="columns", ascending=False, method="max").mean()


def wins(scores: pandas.DataFrame) -> pandas.DataFrame:
    """Returns the number of games in which the row's agent beats the column's; a tie is a half."""
    score = scores.to_numpy(float)
    row, column = score[:, :, np.newaxis], score[:, np.newaxis, :]
    won = (row > column).sum(axis=0) + (row == column).sum(axis=0) / 2
    np.fill_diagonal(won, 0)
    return pandas.DataFrame(won, index=scores.columns, columns=scores.columns)


def elo(won: pandas.DataFrame, anchor: str) -> pandas.Series:
    """Returns Elo scores, by maximum likelihood in the logistic Bradley-Terry model.

    P(i beats j) = 1 / (1 + 10^((elo_j - elo_i) / 400)): 400 are odds of 10 to 1. All are nan if
    some agents never win against the others, so that there is no finite maximum.

    Args:
      won: as `wins` returns it.
      anchor: the agent whose score is 0.
    """
    # Imported here because SciPy takes half a second, and most users of scores need no Elo.
    from scipy import optimize, special
    from scipy.sparse import csgraph

    counts = won.to_numpy(float)
    if csgraph.connected_components(counts > 0, connection="strong")[0] > 1:
        return pandas.Series(np.nan, index=won.index)

    def loss(strengths: np.ndarray) -> tuple[float, np.ndarray]:
        margins = strengths[:, np.newaxis] - strengths
        missed = counts * special.expit(-margins)  # d log-likelihood / d margin
        gradient = missed.sum(axis=0) - missed.sum(axis=1)
        return -(counts * special.log_expit(margins)).sum(), gradient

    start = np.zeros(len(counts))
    strengths = optimize.minimize(loss, start, jac=True, method="BFGS", options={"gtol": 1e-7}).x
    scores = pandas.Series(400 / np.log(10) * strengths, index=won.index)
    return scores - scores[anchor]
