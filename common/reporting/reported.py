"""What the papers report: results/reported/PAPER.csv, one number a row, and Atari's references."""

from collections.abc import Callable, Iterator, Sequence
import csv
import difflib
import math
import operator
import os
from pathlib import Path
from typing import NoReturn

import pandas

DIRECTORY = Path(__file__).parents[2] / "results" / "reported"
PAPERS = ("apex", "reactor", "d4pg", "refer", "aql")
COLUMNS = ("paper", "source", "row", "column", "value", "unit")

_ATARI_COLUMNS = ("game", "random", "human", "source")
_FACTORS = {"K": 1e3, "M": 1e6}


class ReportedError(ValueError):
    """A file of reported numbers is not as it must be, or has not what was asked for."""


def refuse(message: str) -> NoReturn:
    """For `on_malformed`: raises."""
    raise ReportedError(message)


def read(
    paper: str,
    *,
    directory: str | os.PathLike = DIRECTORY,
    on_malformed: Callable[[str], None] = refuse,
) -> pandas.DataFrame:
    """Everything that a paper reports, in the order of its file.

    Args:
      paper: one of `PAPERS`.
      directory: of the CSV files.
      on_malformed: is told of each malformed row, with its file and line; if it returns, the row
        is left out. By default the first one raises.

    Returns:
      `COLUMNS` as text, the value as printed but without thousands separators, and `number`: the
      value as a float, nan where the paper has no single number ("unknown", "10+1", "< 2").

    Raises:
      ReportedError: there is no such file, it has another header, or a row is malformed.
    """
    path = Path(directory) / f"{paper}.csv"
    rows, lines = [], {}
    for line, row in _rows(path, COLUMNS, on_malformed):
        key = row["source"], row["row"], row["column"]
        if row["paper"] != paper:
            on_malformed(f"{path}:{line}: the paper is {row['paper']!r}, not {paper!r}")
        elif key in lines:
            on_malformed(f"{path}:{line}: {' | '.join(key)} stands in line {lines[key]} already")
        else:
            lines[key] = line
            rows.append({**row, "number": _number(row["value"])})
    return pandas.DataFrame(rows, columns=[*COLUMNS, "number"])


def table(
    paper: str,
    source: str,
    cells: str = "number",
    *,
    directory: str | os.PathLike = DIRECTORY,
    on_malformed: Callable[[str], None] = refuse,
) -> pandas.DataFrame:
    """What one source of a paper reports, as the paper arranges it.

    Args:
      paper: one of `PAPERS`.
      source: for example "table 2", "figure 2" or "section 4.1".
      cells: what the cells hold: "number" (float), "value" (text as printed) or "unit".
      directory, on_malformed: as of `read`.

    Returns:
      The paper's rows x its columns; nan where the paper prints nothing.

    Raises:
      ReportedError: as of `read`, or the paper has no such source.
    """
    rows = read(paper, directory=directory, on_malformed=on_malformed)
    of_source = rows[rows["source"] == source]
    if of_source.empty:
        raise ReportedError(_unknown(f"{paper}.csv", "source", source, rows["source"].unique()))
    return of_source.pivot(index="row", columns="column", values=cells).reindex(
        index=of_source["row"].unique(), columns=of_source["column"].unique()
    )


def number(
    paper: str, source: str, row: str, column: str, *, directory: str | os.PathLike = DIRECTORY
) -> float:
    """One reported number, in the unit that its row of the CSV file has.

    Raises:
      ReportedError: as of `table`, or that cell is missing or is no single number.
    """
    numbers = table(paper, source, directory=directory)
    for kind, name, names in (("row", row, numbers.index), ("column", column, numbers.columns)):
        if name not in names:
            raise ReportedError(_unknown(f"{source} in {paper}.csv", kind, name, names))
    found = float(numbers.at[row, column])
    if math.isnan(found):
        raise ReportedError(f"{source} in {paper}.csv has no number for {row} | {column}")
    return found


def atari_scores(
    *, directory: str | os.PathLike = DIRECTORY, on_malformed: Callable[[str], None] = refuse
) -> pandas.DataFrame:
    """Scores of a random agent and of a human tester on 57 Atari games, from no-op starts.

    Args:
      directory, on_malformed: as of `read`.

    Returns:
      `random` and `human`, float, unit score, indexed by the game's name in snake_case.

    Raises:
      ReportedError: as of `read`.
    """
    path = Path(directory) / "atari_scores.csv"
    scores = {}
    for line, row in _rows(path, _ATARI_COLUMNS, on_malformed):
        pair = {name: _number(row[name]) for name in ("random", "human")}
        if row["game"] in scores:
            on_malformed(f"{path}:{line}: {row['game']} stands above already")
        elif not all(map(math.isfinite, pair.values())):
            on_malformed(f"{path}:{line}: {row['random']!r} or {row['human']!r} is no number")
        else:
            scores[row["game"]] = pair
    return pandas.DataFrame.from_dict(
        scores, orient="index", columns=["random", "human"], dtype=float
    )


def _rows(
    path: Path, columns: Sequence[str], on_malformed: Callable[[str], None]
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yields (line number, {column: text}) of each well-formed row."""
    try:
        header, *lines = path.read_text(encoding="utf-8").split("\n")
    except FileNotFoundError:
        raise ReportedError(_missing(path)) from None
    except UnicodeDecodeError as error:
        raise ReportedError(f"{path} is not UTF-8 text ({error.reason})") from None
    if header != ",".join(columns):
        raise ReportedError(f"{path}:1: the header is {header!r}, not {','.join(columns)!r}")
    for line_number, line in enumerate(lines, start=2):
        is_last = line_number == len(lines) + 1
        if is_last and not line:
            return
        try:
            cells = next(csv.reader([line], strict=True), [])
            if is_last:
                raise csv.Error("it is cut off, no line break ends it")
            if len(cells) != len(columns):
                raise csv.Error(f"{len(cells)} cells instead of {len(columns)}")
            empty = [name for name, cell in zip(columns, cells) if not cell.strip()]
            if empty:
                raise csv.Error(f"nothing for {', '.join(empty)}")
        except csv.Error as error:
            on_malformed(f"{path}:{line_number}: malformed row: {error}")
        else:
            yield line_number, dict(zip(columns, cells))


def _number(text: str) -> float:
    """Of "1.5e-7", "22800M", "0.00025 / 4" or "2^18"; nan of what is no single number."""
    try:
        for mark, combine in (("/", operator.truediv), ("^", operator.pow)):
            left, found, right = text.partition(mark)
            if found:
                return combine(_number(left), _number(right))
        if text[-1:] in _FACTORS:
            return float(text[:-1]) * _FACTORS[text[-1]]
        return float(text)
    except (ValueError, ArithmeticError):
        return math.nan


def _missing(path: Path) -> str:
    there = ", ".join(sorted(file.stem for file in path.parent.glob("*.csv"))) or "nothing"
    return f"there is no {path}; reported is: {there}"


def _unknown(where: str, kind: str, name: str, names: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, map(str, names), n=5, cutoff=0.3) or names[:5]
    return f"{where} has no {kind} {name!r}; near ones: {', '.join(map(str, near))}"
