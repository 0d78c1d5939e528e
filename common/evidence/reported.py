"""The numbers that papers report: a CSV file for each paper, and Atari's reference scores."""

from collections.abc import Iterable, Sequence
import fnmatch
import functools
import math
from pathlib import Path
from typing import Any

import pandas

from common.evidence.paper import RESULTS
from common.reporting.csv_rows import numbered_rows
from common.user_error import UserError

DIRECTORY = RESULTS / "reported"
COLUMNS = ("paper", "source", "row", "column", "value", "unit")

_FACTORS = {"K": 1e3, "M": 1e6}


class ReportedError(UserError):
    """A malformed file of reported numbers, or a number that is missing from it."""


class Reported:
    """The reported numbers in a directory, by default this repository's results/reported."""

    def __init__(self, directory: Path = DIRECTORY):
        self._directory = Path(directory)
        self._read: dict[str, pandas.DataFrame] = {}

    def rows(self, paper: str) -> pandas.DataFrame:
        """Returns everything that a paper reports, in the order of its file.

        Returns:
          `COLUMNS` as text, the value as printed but without thousands separators; and `number`,
          the value as a float, nan where the paper prints no single number ("unknown", "2^18").

        Raises:
          ReportedError, CsvError: the file does not exist or is malformed.
        """
        if paper not in self._read:
            rows = self._file(paper, COLUMNS)
            self._read[paper] = rows.assign(number=rows["value"].map(_number))
        return self._read[paper]

    def has(self, paper: str, source: str) -> bool:
        """Returns whether there are numbers of a source, such as "table 2"; raises as `rows`."""
        return source in set(self.rows(paper)["source"])

    def table(self, paper: str, source: str, cells: str = "number") -> pandas.DataFrame:
        """Returns the numbers of one source of a paper, as the paper arranges them.

        Args:
          paper: the name of the file without its suffix.
          source: for example "table 2", "figure 2" or "section 4.1".
          cells: what the cells hold: "number" (float), "value" (text as printed) or "unit".

        Returns:
          The paper's rows x its columns; nan where the paper prints nothing.

        Raises:
          ReportedError, CsvError: as for `rows`, or the paper has no such source.
        """
        rows = self.rows(paper)
        found = rows[rows["source"] == source]
        if found.empty:
            raise ReportedError(f"{paper}.csv has no source {source!r}")
        return found.pivot(index="row", columns="column", values=cells).reindex(
            index=found["row"].unique(), columns=found["column"].unique()
        )

    def number(self, paper: str, source: str, row: str, column: str) -> float:
        """Returns one number, in the unit that the file gives for it.

        Raises:
          ReportedError, CsvError: as for `table`, or the cell is missing or not a single number.
        """
        numbers = self.table(paper, source)
        found = numbers.at[row, column] if row in numbers.index and column in numbers else math.nan
        if math.isnan(found):
            raise ReportedError(f"{source} in {paper}.csv has no number for {row} | {column}")
        return float(found)

    def atari_scores(self, from_human_starts: bool = False) -> pandas.DataFrame:
        """Returns the scores of random play and of a human on 57 Atari games.

        Args:
          from_human_starts: whether they played from human starts, not from no-op starts.

        Returns:
          `random` and `human`, float, unit score, indexed by the game's name in snake_case.

        Raises:
          ReportedError, CsvError: the file does not exist or is malformed.
        """
        name = "atari_scores_human_starts" if from_human_starts else "atari_scores"
        scores = self._file(name, ("game", "random", "human")).set_index("game")
        return scores[["random", "human"]].astype(float).rename_axis(None)

    def game(self, name: str) -> pandas.Series:
        """Returns a game's row of `atari_scores`; raises ReportedError if it has none."""
        if name not in self._games.index:
            raise ReportedError(f"atari_scores.csv has no row for {name}: add one")
        return self._games.loc[name]

    @functools.cached_property
    def _games(self) -> pandas.DataFrame:
        return self.atari_scores()

    def scales(self, tasks: Iterable[str]) -> dict[str, tuple[float, float]]:
        """Returns {task: scale} of the tasks that have a scale."""
        found = {task: self.scale(task) for task in tasks}
        return {task: pair for task, pair in found.items() if pair is not None}

    def without_scale(self, tasks: Iterable[str]) -> list[str]:
        """Returns the tasks that have no scale."""
        return [task for task in tasks if self.scale(task) is None]

    def scale(self, task: str) -> tuple[float, float] | None:
        """Returns a task's return of an untrained agent, and the return that counts as 1.

        They are from task_scales.csv, whose tasks may be patterns, or from Atari's reference
        scores. The first task that matches counts; None if there is none.

        Raises:
          ReportedError, CsvError: a file is malformed.
        """
        scales = self._scales.items()
        return next((pair for name, pair in scales if fnmatch.fnmatchcase(task, name)), None)

    @functools.cached_property
    def _scales(self) -> dict[str, tuple[float, float]]:
        tasks = self._file("task_scales", ("task", "untrained", "reference"))
        low, high = tasks["untrained"].astype(float), tasks["reference"].astype(float)
        return dict(zip(tasks["task"], zip(low, high))) | {
            f"atari:{game}": (scores["random"], scores["human"])
            for game, scores in self._games.iterrows()
        }

    def _file(self, name: str, columns: Sequence[str]) -> pandas.DataFrame:
        """Returns the rows of a file as text."""
        path = self._directory / f"{name}.csv"
        try:
            rows = numbered_rows(path, columns, may_be_torn=False)
        except FileNotFoundError:
            there = ", ".join(sorted(file.stem for file in path.parent.glob("*.csv"))) or "nothing"
            raise ReportedError(f"there is no {path}; its directory has: {there}") from None
        return pandas.DataFrame([row for _, row in rows], columns=list(columns))


def human_normalised(scores: Any, references: pandas.Series | pandas.DataFrame) -> Any:
    """Returns (score - random) / |human - random|: 0 is as good as random play, 1 as a human.

    Ape-X's percentages are 100 times this, Reactor's "normalized scores" its median over games.
    The absolute value matters from human starts in Video Pinball, where random play scores more
    than a human. The papers do not mention it, but only with it the scores of Ape-X have its median
    of 358 %.

    Args:
      scores: unclipped scores: a number, array or Series for one game, or a Series by games.
      references: `random` and `human`: a row of `Reported.atari_scores`, or the whole table.
    """
    return (scores - references["random"]) / abs(references["human"] - references["random"])


def _number(text: str) -> float:
    """Returns the value of "1.5e-7" or "22800M"; nan for other text, such as "2^18"."""
    digits, factor = (text[:-1], _FACTORS[text[-1]]) if text[-1:] in _FACTORS else (text, 1.0)
    try:
        return float(digits) * factor
    except ValueError:
        return math.nan
