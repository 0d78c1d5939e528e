"""Reads CSV files of runs and says, with file and line, what of them cannot be used."""

from collections.abc import Callable, Mapping, Sequence
import csv
import math
import pathlib
import sys

import pandas

Warn = Callable[[str], None]
"""Takes one line that says what is wrong, and where."""


class Once:
    """Passes each line on the first time that it is said.

    Args:
      tell: takes the lines; by default they go to standard error.
    """

    def __init__(self, tell: Warn | None = None):
        self._tell = tell or _print
        self._told: set[str] = set()

    def __call__(self, line: str) -> None:
        if line not in self._told:
            self._told.add(line)
            self._tell(line)


def read(
    path: pathlib.Path,
    numbers: Sequence[str],
    warn: Warn,
    identity: Mapping[str, str] | None = None,
) -> pandas.DataFrame:
    """The whole rows of a CSV file.

    Args:
      path: of the file; one that does not exist has no rows.
      numbers: the columns to read; an empty cell is NaN.
      warn: told of each row that is left out, and why.
      identity: what these columns say in every row of this run.

    Returns:
      the columns of `numbers`, float64. Empty, with a warning, if the file has no such column.
    """
    empty = pandas.DataFrame({name: pandas.Series(dtype=float) for name in numbers})
    try:
        text = path.read_text(errors="replace")
    except FileNotFoundError:
        return empty
    except OSError as error:
        warn(f"{path}: cannot be read ({error.strerror}): left out")
        return empty
    lines = text.split("\n")
    header = _fields(lines[0])
    missing = [name for name in [*numbers, *(identity or ())] if name not in header]
    if missing:
        warn(f"{path}:1: has no column {', '.join(missing)}: file left out")
        return empty
    rows = []
    for line_number, line in enumerate(lines[1:], start=2):
        is_torn = line_number == len(lines)  # nothing stands behind the last line break
        if is_torn and not line:
            break
        values = _fields(line)
        if is_torn or len(values) != len(header):
            found = "half-written" if is_torn else f"{len(values)} values for {len(header)} columns"
            warn(f"{path}:{line_number}: {found}: row left out")
            continue
        row = dict(zip(header, values))
        wrong = [
            f"{name} is {row[name]}, not {value}"
            for name, value in (identity or {}).items()
            if row[name] != value
        ]
        wrong += [
            f"{name} is {row[name]!r}, not a number"
            for name in numbers
            if _number(row[name]) is None
        ]
        if wrong:
            warn(f"{path}:{line_number}: {', '.join(wrong)}: row left out")
        else:
            rows.append([_number(row[name]) for name in numbers])
    return pandas.DataFrame(rows, columns=list(numbers), dtype=float) if rows else empty


def _print(line: str) -> None:
    print(f"warning: {line}", file=sys.stderr, flush=True)


def _fields(line: str) -> list[str]:
    return next(csv.reader([line.replace("\0", "?")]), [])


def _number(cell: str) -> float | None:
    """NaN for an empty cell, None for what is no finite number."""
    try:
        number = float(cell or "nan")
    except ValueError:
        return None
    return None if math.isinf(number) else number
