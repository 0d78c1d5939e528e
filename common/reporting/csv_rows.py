"""CSV files that several processes append to, one whole row at a time.

Each append opens the file, locks it, writes the row in one call and closes it again, so a file
is up to date after every row and stays whole whatever kills its writers.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
import csv
import fcntl
import io
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas

_TAIL_BYTES = 1 << 16


class CsvRows:
    """Appends rows to a CSV file; any number of processes of one machine may share the file.

    Args:
      path: the file. Made with its header if it does not exist; its directory must.
      columns: the names in the header, in order.

    Raises:
      ValueError: the file has another header.
    """

    def __init__(self, path: str | os.PathLike, columns: Sequence[str]):
        self._path = Path(path)
        self._columns = tuple(columns)
        self._header = _line(self._columns)
        with self._locked():
            pass

    def append(self, row: Mapping[str, Any]) -> None:
        """Appends one row.

        Args:
          row: a scalar for each column, in any order: Python, NumPy or an eager tensor. None
            leaves the cell empty.

        Raises:
          ValueError: a column is missing or unknown, or a value is no scalar or has a line break.
          OSError: the row could not be written whole; the file is as it was before.
        """
        if row.keys() != set(self._columns):
            missing = [name for name in self._columns if name not in row]
            unknown = [name for name in row if name not in self._columns]
            raise ValueError(f"row for {self._path}: missing columns {missing}, unknown {unknown}")
        line = _line([_cell(self._path, name, row[name]) for name in self._columns])
        with self._locked() as file:
            _write_whole(file, self._path, line)

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """The file's descriptor, locked, with the right header and no torn line at its end."""
        file = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
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
                raise ValueError(
                    f"{self._path} has the columns {header!r}, this program writes "
                    f"{','.join(self._columns)!r}: use another --workdir, or move the file away"
                )
            # Empty, or whoever made it died within the header.
            os.ftruncate(file, 0)
            _write_whole(file, self._path, self._header)
        elif os.pread(file, 1, size - 1) != b"\n":
            tail_start = max(0, size - _TAIL_BYTES)
            tail = os.pread(file, _TAIL_BYTES, tail_start)
            os.ftruncate(file, tail_start + tail.rindex(b"\n") + 1)


def read_rows(path: str | os.PathLike) -> "pandas.DataFrame":
    """Every whole row of a CSV file; a line that was torn by its writer's death is left out.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: the file has no header.
    """
    # Here, because the actors append rows and have no use for pandas.
    import pandas

    text = Path(path).read_bytes().decode(errors="replace")
    lines = text.split("\n")[:-1]  # what follows the last line break is torn, or empty
    if not lines:
        raise ValueError(f"{path} has no header: it is not a CSV file of a run")
    width = len(_fields(lines[0]))
    whole = "\n".join(line for line in lines if len(_fields(line)) == width)
    return pandas.read_csv(io.StringIO(whole), keep_default_na=False, na_values=["", "nan"])


def last_row(path: str | os.PathLike) -> dict[str, Any] | None:
    """The last whole row, reading only the file's head and tail, or None if there is none yet.

    Returns:
      {column: value}; numbers as int or float, an empty cell as None, anything else as str.
    """
    try:
        with open(path, "rb") as file:
            header = file.readline()
            after_header = file.tell()
            size = file.seek(0, os.SEEK_END)
            file.seek(max(after_header, size - _TAIL_BYTES))
            tail = file.read()
    except FileNotFoundError:
        return None
    columns = _fields(header.decode(errors="replace").rstrip("\n"))
    for line in reversed(tail.decode(errors="replace").split("\n")[:-1]):
        fields = _fields(line)
        if len(fields) == len(columns):
            return {name: _value(field) for name, field in zip(columns, fields)}
    return None


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
    """One write, or none: what a full disk let through is taken back."""
    size = os.fstat(file).st_size
    try:
        written = os.write(file, line)
    except OSError as error:
        raise OSError(error.errno, f"cannot append a row: {error.strerror}", str(path)) from error
    if written < len(line):
        os.ftruncate(file, size)
        raise OSError(f"cannot append a row to {path}: is the disk full?")
