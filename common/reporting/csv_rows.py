"""CSV files: appended to by several processes at once, one whole row at a time, and read.

Each append opens the file, locks it, writes the row in one call and closes it again. The file is
then up to date after every row, and stays whole whatever kills its writers.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
import csv
import fcntl
import io
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from absl import logging
import numpy as np

from common.reporting.disk import disk_full
from common.reporting.user_error import UserError

if TYPE_CHECKING:
    import pandas

_TAIL_BYTES = 1 << 16


class CsvError(UserError):
    """A malformed CSV file; names the file and the line."""


class CsvRows:
    """Appends rows to a CSV file; any number of processes of one machine may share the file.

    Args:
      path: the file, made with its header if it does not exist. Its directory must exist.
      columns: the names in the header, in order.

    Raises:
      CsvError: the file has another header.
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
          row: a scalar for each column, in any order: Python, NumPy or an eager tensor. None
            leaves the cell empty.

        Raises:
          ValueError: a column is missing or unknown, or a value is no scalar or has a line break.
          CsvError: the file's directory was moved or removed.
          OSError: another error than a full disk. The file is as it was before.
        """
        if row.keys() != set(self._columns):
            missing = [name for name in self._columns if name not in row]
            unknown = [name for name in row if name not in self._columns]
            raise ValueError(f"row for {self._path}: missing columns {missing}, unknown {unknown}")
        line = _line([_cell(self._path, name, row[name]) for name in self._columns])
        try:
            with self._locked() as file:
                _write_whole(file, self._path, line)
        except OSError as error:
            reason = disk_full(error)
            if not reason:
                raise
            logging.log_every_n_seconds(logging.WARNING, "a row is skipped: %s", 60, reason)

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """Yields the file's descriptor, locked, with the right header and no torn last line."""
        try:
            file = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except (FileNotFoundError, NotADirectoryError):
            raise CsvError(
                f"{self._path} cannot be written, there is no such directory: if it was moved, go "
                "on with --workdir where it is now"
            ) from None
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
                header = os.pread(file, _TAIL_BYTES, 0).split(b"\n")[0].decode(errors="replace")
                raise CsvError(
                    f"{self._path} has the columns {header!r}, this program writes "
                    f"{','.join(self._columns)!r}: use another --workdir, or move the file away"
                )
            # Empty, or whoever made it died within the header.
            os.ftruncate(file, 0)
            _write_whole(file, self._path, self._header)
        elif os.pread(file, 1, size - 1) != b"\n":
            os.ftruncate(file, _line_break(file, size) + 1)


def numbered_rows(
    path: str | os.PathLike, columns: Sequence[str] = ()
) -> list[tuple[int, dict[str, str]]]:
    """Returns each row of a CSV file as its line number and its cells by column.

    A last line without a line break is skipped: its writer died, or is still writing it.

    Args:
      path: the file.
      columns: names that the header must have.

    Raises:
      FileNotFoundError: there is no such file.
      CsvError: the header lacks a column, or a row has more or fewer cells than the header.
    """
    header, rows = _parsed(path)
    missing = [name for name in columns if name not in header]
    if missing:
        raise CsvError(f"{path}:1: the header has no column {', '.join(missing)}")
    return [(number, dict(zip(header, cells))) for number, cells in rows]


def read_rows(path: str | os.PathLike) -> "pandas.DataFrame":
    """Returns every row of a CSV file; numbers as such, empty cells as missing values.

    Raises:
      FileNotFoundError, CsvError: as of `numbered_rows`.
    """
    # Imported here because the actors append rows and have no use for pandas.
    import pandas

    header, rows = _parsed(path)
    return pandas.DataFrame([map(_value, cells) for _, cells in rows], columns=header)


def read_numbers(
    path: str | os.PathLike,
    columns: Sequence[str],
    identity: Mapping[str, str] | None = None,
    where: Mapping[str, str] | None = None,
) -> "pandas.DataFrame":
    """Returns columns of a CSV file as float64; empty cells are NaN.

    Args:
      path: the file; if it does not exist, it has no rows.
      columns: the names of the columns to read.
      identity: the text of other columns, which every row must have, by name.
      where: the text of other columns, by name; rows with another text are left out.

    Raises:
      CsvError: as of `numbered_rows`, a cell is no finite number, or a row has another identity.
    """
    import pandas

    identity, where, values = identity or {}, where or {}, []
    needed = (*columns, *identity, *where)
    rows = numbered_rows(path, needed) if Path(path).exists() else []
    for number, cells in rows:
        if any(cells[name] != wanted for name, wanted in where.items()):
            continue
        for name, wanted in identity.items():
            if cells[name] != wanted:
                raise CsvError(f"{path}:{number}: {name} is {cells[name]}, not {wanted}")
        for name in columns:
            if not _is_number(cells[name]):
                raise CsvError(f"{path}:{number}: {name} is {cells[name]!r}, not a number")
        values.append([float(cells[name] or "nan") for name in columns])
    return pandas.DataFrame(values, columns=list(columns), dtype=float)


def last_row(path: str | os.PathLike, numbers: Sequence[str] = ()) -> dict[str, Any] | None:
    """Returns the last whole row, or None if there is none yet; reads only the file's two ends.

    Args:
      path: the file; a torn last line is left out.
      numbers: columns that must hold numbers.

    Returns:
      {column: value}; numbers as int or float, an empty cell as None, anything else as str.

    Raises:
      CsvError: the row has more or fewer cells than the header, or no number in one of `numbers`,
        or the file cannot be read.
    """
    try:
        with open(path, "rb") as file:
            header = _fields(file.readline().decode(errors="replace").rstrip("\n"))
            end = _line_break(file.fileno(), os.fstat(file.fileno()).st_size)
            begin = _line_break(file.fileno(), end)
            if begin < 0:
                return None
            line = os.pread(file.fileno(), end - begin - 1, begin + 1).decode(errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise CsvError(
            f"{path}: cannot be read ({error.strerror}): give a --workdir that you may use"
        ) from None
    cells = _fields(line)
    if len(cells) != len(header):
        raise CsvError(
            f"{path}: {len(cells)} cells for {len(header)} columns in the last line: remove the "
            "line to go on from the row before it"
        )
    row = {name: _value(cell) for name, cell in zip(header, cells)}
    for name in numbers:
        if not isinstance(row.get(name), int | float):
            raise CsvError(
                f"{path}: {name} is {row.get(name)!r} in the last line, not a number: remove the "
                "line to go on from the row before it, or give another --workdir"
            )
    return row


def _line_break(file: int, end: int) -> int:
    """Returns the position of the last line break before `end`, -1 if there is none."""
    while end > 0:
        begin = max(0, end - _TAIL_BYTES)
        found = os.pread(file, end - begin, begin).rfind(b"\n")
        if found >= 0:
            return begin + found
        end = begin
    return -1


def _parsed(path: str | os.PathLike) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Returns the header's cells, and the line number and the cells of each row."""
    lines = Path(path).read_text(errors="replace").split("\n")[:-1]
    if not lines:
        raise CsvError(f"{path}:1: the file has no header")
    header, *rows = map(_fields, lines)
    for number, cells in enumerate(rows, start=2):
        if len(cells) != len(header):
            raise CsvError(f"{path}:{number}: {len(cells)} cells for {len(header)} columns")
    return header, list(enumerate(rows, start=2))


def _is_number(cell: str) -> bool:
    try:
        return not math.isinf(float(cell or "nan"))
    except ValueError:
        return False


def _line(fields: Sequence[str]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(fields)
    return text.getvalue().encode()


def _fields(line: str) -> list[str]:
    return next(csv.reader([line]), [])


def _cell(path: Path, column: str, value: Any) -> str:
    scalar = np.asarray(value)
    if scalar.ndim > 0:
        raise ValueError(f"row for {path}: {column} has shape {scalar.shape}, not a scalar's")
    if scalar[()] is None:
        return ""
    text = str(scalar[()])  # float32 keeps its own shortest digits
    if "\n" in text or "\r" in text:
        raise ValueError(f"row for {path}: {column} has a line break: {text!r}")
    return text


def _value(field: str) -> Any:
    for number in (int, float):
        try:
            return number(field)
        except ValueError:
            pass
    return field or None


def _write_whole(file: int, path: Path, line: bytes) -> None:
    """Writes the whole line or nothing: removes the part that a full disk let through."""
    size = os.fstat(file).st_size
    try:
        while line:  # a full disk takes a part of the line first, and tells only the next call
            line = line[os.write(file, line) :]
    except OSError as error:
        os.ftruncate(file, size)
        raise OSError(error.errno, f"cannot append a row: {error.strerror}", str(path)) from error
