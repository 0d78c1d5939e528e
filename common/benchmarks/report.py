"""Rows of a benchmark, as a table and as JSON, and the median of repeats."""

from collections.abc import Callable, Mapping, Sequence
import dataclasses
import json
import os
import pathlib
import statistics
import sys
import time
from typing import Any

from common.reporting import json_file


@dataclasses.dataclass(frozen=True)
class Row:
    """A number and its peer.

    Attributes:
      name: suite and measurement, as "replay/in_process_loop".
      value: a median over repeats.
      unit: unit of value and peer_value.
      peer: name of what is compared with; None: nothing.
      peer_value: a median over repeats that took turns with those of value.
    """

    name: str
    value: float
    unit: str
    peer: str | None = None
    peer_value: float | None = None

    @property
    def ratio(self) -> float | None:
        """The quotient of value and peer_value; None without a peer."""
        return self.value / self.peer_value if self.peer_value else None

    def as_json(self) -> dict[str, Any]:
        """Returns name, value, unit, peer, peer_value and ratio."""
        return {**dataclasses.asdict(self), "ratio": self.ratio}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "Row":
        """Undoes `as_json`."""
        return cls(**{field.name: fields[field.name] for field in dataclasses.fields(cls)})


def say(text: str) -> None:
    """Reports progress on standard error."""
    print(text, file=sys.stderr, flush=True)


def rate(function: Callable[[], object], calls: int) -> float:
    """Calls `function` so many times and returns calls a second."""
    begin = time.perf_counter()
    for _ in range(calls):
        function()
    return calls / (time.perf_counter() - begin)


def interleave(
    title: str, candidates: Mapping[str, Callable[[], float]], repeats: int
) -> dict[str, float]:
    """Measures candidates in turn, all of them in each repeat, and returns each one's median.

    Other load on the machine then meets all of them alike. Each is called once before, untimed.
    """
    for measure in candidates.values():
        measure()
    values: dict[str, list[float]] = {name: [] for name in candidates}
    for repeat in range(repeats):
        for name, measure in candidates.items():
            values[name].append(measure())
        latest = ", ".join(f"{name} {_number(values[name][-1])}" for name in candidates)
        say(f"{title} {repeat + 1}/{repeats}: {latest}")
    return {name: statistics.median(measured) for name, measured in values.items()}


def table(rows: Sequence[Row]) -> str:
    """Returns rows as aligned columns."""
    lines = [("name", "value", "unit", "peer", "peer value", "ratio")]
    for row in rows:
        lines.append(
            (
                row.name,
                _number(row.value),
                row.unit,
                row.peer or "-",
                _number(row.peer_value),
                "-" if row.ratio is None else f"{row.ratio:.2f}",
            )
        )
    widths = [max(map(len, column)) for column in zip(*lines)]
    numeric = (False, True, False, False, True, True)
    return "\n".join(
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric)
        ).rstrip()
        for line in lines
    )


def write_json(path: pathlib.Path, rows: Sequence[Row]) -> None:
    """Writes rows as a list of objects, whole or not at all."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps([row.as_json() for row in rows], indent=2) + "\n")
    os.replace(temporary, path)


def read_json(path: pathlib.Path) -> list[Row]:
    """Reads what `write_json` wrote."""
    return [Row.from_json(fields) for fields in json_file.read(path)]


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
