"""CSV files of a run: their columns, appending by several processes at once, and reading.

Each append opens the file, locks it, writes a whole row in one call and closes the file again. The
file is therefore up to date after every row, and stays intact if a writer is killed.
docs/files.md explains each column, with its unit.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
import csv
import errno
import fcntl
import io
import math
import os
from pathlib import Path
import reprlib
from typing import TYPE_CHECKING, Any

from common.reporting.records import LARGEST, LARGEST_COUNT, skipped_if_full, whole_file
from common.user_error import UserError

IDENTITY = ("paper", "setting", "environment", "seed")
"""The columns of evaluator.csv that identify the run of a row."""

PROGRESS = ("wall_seconds", "actor_steps", "learner_steps")
"""The columns of learner.csv with the progress of a run."""

RESULT = (*PROGRESS, "episode_return_mean", "episode_return_std", "episodes")
"""The columns of evaluator.csv with the result of an evaluation. None of their cells is empty."""

EVALUATOR = (
    *IDENTITY,
    "wall_seconds",
    "actor_steps",
    "environment_frames",
    "learner_steps",
    "episode_return_mean",
    "episode_return_std",
    "episodes",
)

ACTING = (
    "wall_seconds",
    "actor",
    "incarnation",
    "actor_steps",
    "episode_return",
    "episode_length",
    "parameter_version",
    "parameter_age_steps",
)

LIVES = ("first_actor", "last_actor")

LEARNER = (
    "wall_seconds",
    "learner_steps",
    "actor_steps",
    "learner_steps_per_second",
    "actor_steps_per_second",
    "samples_per_insert",
    "parameter_version",
    "priority_lag_steps",
    "replay_size",
)

COUNTS = frozenset(
    (
        *(*PROGRESS, *LIVES, "environment_frames", "episodes", "episode_length", "seed"),
        *("actor", "parameter_version", "replay_size"),
    )
)
"""The columns of numbers that are not negative."""

NUMBERS = COUNTS | {*EVALUATOR, *ACTING, *LEARNER} - {*IDENTITY[:3]}
"""The columns of finite numbers. Other columns of numbers, the metrics, may contain NaN."""


if TYPE_CHECKING:
    import pandas

_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_LASTING = (
    *(errno.EACCES, errno.EPERM, errno.EROFS),
    *(errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG),
)
"""Errors of opening a file that a restart would not cure."""
_TAIL_BYTES = 1 << 16
_HEADER_BYTES = 1000


class CsvError(UserError):
    """A malformed CSV file; names the file and the line."""


class CsvRows:
    """A writer of rows to a CSV file, which any number of processes of one machine may share.

    Args:
      path: the file, created with its header if it does not exist. Its directory must exist.
      columns: the names in the header, in order.

    Raises:
      CsvError: the file has another header, or cannot be used.
    """

    def __init__(self, path: str | os.PathLike, columns: Sequence[str]):
        self._path = Path(path)
        self._columns = tuple(columns)
        self._header = _line(self._columns)
        with self._locked():
            pass

    def append(self, row: Mapping[str, Any]) -> None:
        """Appends one row; skips it, with a warning, while the disk is full.

        Args:
          row: a scalar for each column, in any order, from Python or NumPy or as an eager tensor.
            None leaves the cell empty.

        Raises:
          ValueError: a value has a line break or is not a scalar.
          CsvError: the file's directory was moved or removed, or the file cannot be used any more.
          OSError: any error except a full disk. The file is as it was before.
        """
        line = _line([_cell(self._path, name, row[name]) for name in self._columns])
        with skipped_if_full("a row is skipped"), self._locked() as file:
            _write_whole(file, self._path, line)

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """Yields the file's descriptor, locked, with the right header and no torn last line."""
        try:
            file = os.open(self._path, _FLAGS, 0o644)
        except (FileNotFoundError, NotADirectoryError):
            raise CsvError(
                f"{self._path} cannot be written, because its directory does not exist: if it was "
                "moved, give its new path as --workdir"
            ) from None
        except OSError as error:
            if error.errno not in _LASTING:
                raise
            raise _unusable(self._path, error) from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX)  # closing the descriptor, or dying, unlocks
            self._repair(file)
            yield file
        finally:
            os.close(file)

    def _repair(self, file: int) -> None:
        size = os.fstat(file).st_size
        start = os.pread(file, len(self._header), 0)
        if start != self._header:
            if b"\n" in start or not self._header.startswith(start):
                header = os.pread(file, _HEADER_BYTES, 0).split(b"\n")[0].decode(errors="replace")
                raise CsvError(
                    f"{self._path} has the columns {header!r}, this program writes "
                    f"{','.join(self._columns)!r}: use another --workdir, or move the file away"
                )
            # Empty, or its creator died while writing the header.
            os.ftruncate(file, 0)
            _write_whole(file, self._path, self._header)
            return
        while not (tail := os.pread(file, _TAIL_BYTES, max(0, size - _TAIL_BYTES))).endswith(b"\n"):
            size += tail.rfind(b"\n") + 1 - len(tail)
            os.ftruncate(file, size)


class GrowingRows(CsvRows):
    """A writer of rows that adds a column for each new name; no other process may write the file.

    Args:
      path: see base class.
      columns: the first names in the header; an existing file may have more.

    Raises:
      CsvError: see base class.
    """

    def __init__(self, path: str | os.PathLike, columns: Sequence[str]):
        header, _, _ = _lines_from(path, -1)
        is_longer = header[: len(columns)] == list(columns)
        super().__init__(path, header if is_longer else columns)

    def append(self, row: Mapping[str, Any]) -> None:
        """Appends one row; the cells of columns that it lacks are empty. See base class."""
        new = [name for name in row if name not in self._columns]
        with skipped_if_full("a row is skipped"):
            if new:
                self._add_columns(new)
            super().append({name: row.get(name) for name in self._columns})

    def _add_columns(self, names: Sequence[str]) -> None:
        """Adds columns, empty in the rows so far, by replacing the file."""
        with self._locked():
            (_, header), *rows = read_lines(self._path)
        columns = (*header, *names)
        lines = [columns, *([*cells, *[""] * len(names)] for _, cells in rows)]
        with whole_file(self._path) as file:
            file.write(b"".join(map(_line, lines)))
        self._columns, self._header = columns, _line(columns)


def read_lines(path: str | os.PathLike, may_be_torn: bool = True) -> list[tuple[int, list[str]]]:
    """Returns each line of a CSV file as its number and its cells, the header first.

    Args:
      path: the file.
      may_be_torn: whether a last line without a line break is skipped, because its writer died or
        is still writing it. In a file that people write, it is an error: it may have been cut off.

    Raises:
      FileNotFoundError, NotADirectoryError: there is no such file.
      CsvError: a line is not CSV, or the file has no header, or it cannot be read.
    """
    try:
        *lines, rest = Path(path).read_bytes().split(b"\n")
    except (FileNotFoundError, NotADirectoryError):
        raise
    except OSError as error:
        raise _unusable(path, error) from None
    if rest and not may_be_torn:
        raise CsvError(f"{path}:{len(lines) + 1}: the line is cut off: end it with a line break")
    if not lines:
        raise CsvError(f"{path}:1: the file has no header")
    return [(number, _fields(f"{path}:{number}", line)) for number, line in enumerate(lines, 1)]


def numbered_rows(
    path: str | os.PathLike,
    columns: Sequence[str] = (),
    numbers: Sequence[str] = (),
    may_be_torn: bool = True,
) -> list[tuple[int, dict[str, str]]]:
    """Returns each row of a CSV file as its line number and its cells by column.

    Args:
      path: the file.
      columns: names that the header must have.
      numbers: further such names, of columns of numbers without empty cells.
      may_be_torn: see `read_lines`.

    Raises:
      FileNotFoundError, NotADirectoryError: see `read_lines`.
      CsvError: see `read_lines`; or the header lacks a column or has one twice, a row has more or
        fewer cells than the header, or a cell of `NUMBERS` is not a number.
    """
    (_, header), *rows = read_lines(path, may_be_torn)
    _check_header(path, header, (*columns, *numbers))
    return [(number, _row(f"{path}:{number}", header, cells, numbers)) for number, cells in rows]


def read_rows(path: str | os.PathLike) -> "pandas.DataFrame":
    """Returns every row of a CSV file, with numbers converted and empty cells as missing values.

    Raises:
      See `numbered_rows`.
    """
    # Imported here because the actors append rows but do not need pandas.
    import pandas

    rows = [cells for _, cells in numbered_rows(path)]
    header = list(rows[0]) if rows else read_lines(path)[0][1]
    return pandas.DataFrame([map(_value, cells.values()) for cells in rows], columns=header)


def read_numbers(
    path: str | os.PathLike, columns: Sequence[str], identity: Mapping[str, str] | None = None
) -> "pandas.DataFrame":
    """Returns columns of a CSV file as float64; empty cells are NaN.

    Args:
      path: the file; if it does not exist, it has no rows.
      columns: the names of the columns to read.
      identity: {column: text} that every row must match.

    Raises:
      CsvError: see `numbered_rows`; or a cell is not a number, or a row has another identity.
    """
    import pandas

    identity, values = identity or {}, []
    rows = numbered_rows(path, (*columns, *identity)) if Path(path).exists() else []
    for number, cells in rows:
        for name, wanted in identity.items():
            if cells[name] != wanted:
                raise CsvError(f"{path}:{number}: {name} is {cells[name]:.99}, not {wanted}")
        values.append([_number(f"{path}:{number}", name, cells[name]) for name in columns])
    return pandas.DataFrame(values, columns=list(columns), dtype=float)


def last_row(path: str | os.PathLike, numbers: Sequence[str] = ()) -> dict[str, Any] | None:
    """Returns the last whole row, or None if there is none; reads only both ends of the file.

    Args:
      path: the file; a torn last line is left out.
      numbers: columns that must hold numbers.

    Returns:
      {column: value}; numbers as int or float, an empty cell as None, anything else as str.

    Raises:
      CsvError: the row is malformed, see `numbered_rows`, or the file cannot be read.
    """
    header, lines, _ = _lines_from(path, -_TAIL_BYTES)
    if not lines:
        return None
    _check_header(path, header, numbers)
    where = f"{path}: in the last line"
    try:
        row = _row(where, header, _fields(where, lines[-1]), numbers)
    except CsvError as error:
        raise CsvError(
            f"{error}: remove the line to continue from the row before, or give another --workdir"
        ) from None
    return {name: _value(cell) for name, cell in row.items()}


class NewRows:
    """A reader of the rows that processes append to a CSV file.

    Args:
      path: the file, which may not exist yet.
      *columns: names of columns of numbers, in which no cell is empty.
    """

    def __init__(self, path: str | os.PathLike, *columns: str):
        self._path = Path(path)
        self._columns = columns
        self._end = _lines_from(path, -_TAIL_BYTES)[2]  # a writer removes a torn line after it

    def read(self) -> list[tuple[float, ...]]:
        """Returns the numbers in the whole rows since the last call, or since the construction.

        Raises:
          CsvError: a row is malformed, see `numbered_rows`, or the file cannot be read.
        """
        header, lines, end = _lines_from(self._path, self._end)
        if not lines:
            return []
        self._end = end
        _check_header(self._path, header, self._columns)
        where = f"{self._path}: in a new line"
        rows = [_row(where, header, _fields(where, line), self._columns) for line in lines]
        return [tuple(float(row[name]) for name in self._columns) for row in rows]


def _lines_from(path: str | os.PathLike, begin: int) -> tuple[list[str], list[bytes], int]:
    """Returns a file's header, its whole lines from byte `begin` on, and where the last one ends.

    Args:
      path: the file; if it does not exist, or its header is not whole, it has no lines.
      begin: counted from the end of the file if it is negative. The first line may then lack its
        beginning.

    Raises:
      CsvError: the file cannot be read, or its header is not CSV.
    """
    try:
        with open(path, "rb") as file:
            first = file.readline()
            if not first.endswith(b"\n"):  # no header yet, though rows may follow meanwhile
                return [], [], 0
            size = os.fstat(file.fileno()).st_size
            file.seek(max(len(first), begin if begin >= 0 else size + begin))
            *lines, torn = file.read().split(b"\n")
            end = file.tell() - len(torn)
    except (FileNotFoundError, NotADirectoryError):
        return [], [], 0
    except OSError as error:
        raise _unusable(path, error) from None
    return _fields(f"{path}:1", first[:-1]), lines, end


def _check_header(path: str | os.PathLike, header: Sequence[str], names: Sequence[str]) -> None:
    missing = [name for name in names if name not in header]
    if missing:
        raise CsvError(f"{path}:1: the header has no column {', '.join(missing)}")
    if len(set(header)) != len(header):
        raise CsvError(f"{path}:1: the header has a column twice")


def _row(
    where: str, header: Sequence[str], cells: Sequence[str], numbers: Sequence[str]
) -> dict[str, str]:
    """Checks a row and returns its cells by column."""
    if len(cells) != len(header):
        raise CsvError(f"{where}: {len(cells)} cells for {len(header)} columns")
    row = dict(zip(header, cells))
    for name in (*numbers, *filter(NUMBERS.__contains__, header)):
        _number(where, name, row[name], is_needed=name in numbers or name in RESULT)
    return row


def _number(where: str, name: str, cell: str, is_needed: bool = False) -> float:
    """Returns the number in a cell, NaN if it is empty; raises CsvError if it cannot be right."""
    try:
        value = float(cell or "nan")
    except ValueError:
        value = math.inf
    least, most = (0, LARGEST_COUNT) if name in COUNTS else (-LARGEST, LARGEST)
    may_be_nan = not is_needed and (not cell or (cell == "nan" and name not in NUMBERS))
    if not (least <= value <= most or may_be_nan):
        raise CsvError(
            f"{where}: {name} is {reprlib.repr(cell)}, not a number from {least:g} to {most:g}"
        )
    return value


def _unusable(path: str | os.PathLike, error: OSError) -> CsvError:
    return CsvError(
        f"{path}: cannot be used ({error.strerror}): it must be a file that you may read and write"
    )


def _line(fields: Sequence[str]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(fields)
    return text.getvalue().encode()


def _fields(where: str, line: bytes) -> list[str]:
    try:
        return next(csv.reader([line.decode()], strict=True), [])
    except (UnicodeDecodeError, csv.Error) as error:
        raise CsvError(f"{where}: is not CSV ({error})") from None


def _cell(path: Path, column: str, value: Any) -> str:
    import numpy as np  # imported late, because it reads its number of threads at import

    scalar = np.asarray(value)
    text = "" if value is None else str(scalar[()])  # float32 keeps its own shortest digits
    if scalar.ndim > 0 or "\n" in text or "\r" in text:
        raise ValueError(f"row for {path}: {column} is {text!r}, not a scalar in one line")
    return text


def _value(field: str) -> Any:
    for number in (int, float):
        try:
            return number(field)
        except ValueError:
            pass
    return field or None


def _write_whole(file: int, path: Path, line: bytes) -> None:
    """Writes the whole line or nothing: removes the part that fitted on a full disk."""
    size = os.fstat(file).st_size
    try:
        while line:  # a full disk takes part of the line, and only the next call fails
            line = line[os.write(file, line) :]
    except OSError as error:
        os.ftruncate(file, size)
        raise OSError(error.errno, f"cannot append a row: {error.strerror}", str(path)) from error
