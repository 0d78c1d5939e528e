"""Measurements in turns, and the rows that come of them, as a table and as JSON."""

from collections.abc import Callable, Mapping, Sequence
import dataclasses
import json
import pathlib
import statistics
import time
from typing import Any

import tabulate

from common.reporting import records
from common.reporting.command_line import say
from common.reporting.run_directory import replace_file

Measure = Callable[[], float | tuple[float, ...]]
"""A function that measures a number, or several at once."""


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


class Medians(dict[str, Any]):
    """Medians by the name of what was measured: a number each, or a tuple of several."""

    def row(
        self,
        name: str,
        unit: str,
        ours: str,
        peer: str = "",
        label: str | None = None,
        part: int = 0,
    ) -> Row:
        """Returns the row of a median beside that of its peer, if that was measured.

        Args:
          name: of the row.
          unit: of both values.
          ours: what was measured.
          peer: what is compared with.
          label: name of the peer in the row; default: `peer`.
          part: place of the values in medians that are tuples.
        """
        if peer not in self:
            return Row(name, self._number(ours, part), unit)
        values = self._number(ours, part), self._number(peer, part)
        return Row(name, values[0], unit, label or peer, values[1])

    def _number(self, key: str, part: int) -> float:
        return self[key][part] if isinstance(self[key], tuple) else self[key]


def rate(function: Callable[[], object], calls: int) -> float:
    """Calls `function` so many times and returns calls a second."""
    begin = time.perf_counter()
    for _ in range(calls):
        function()
    return calls / (time.perf_counter() - begin)


def in_turns(
    title: str, candidates: Mapping[str, Measure], repeats: int, warm_up: bool = True
) -> Medians:
    """Measures candidates in turn, all of them in each repeat, and returns each one's median.

    Other load on the machine then meets all of them alike. Each is called once before, unmeasured,
    unless `warm_up` is False.
    """
    for measure in candidates.values() if warm_up else ():
        measure()
    values: dict[str, list] = {name: [] for name in candidates}
    for repeat in range(repeats):
        for name, measure in candidates.items():
            values[name].append(measure())
        latest = ", ".join(f"{name} {_text(values[name][-1])}" for name in candidates)
        say(f"{title} {repeat + 1}/{repeats}: {latest}")
    return Medians({name: _median(measured) for name, measured in values.items()})


def table(rows: Sequence[Row]) -> str:
    """Returns rows as aligned columns."""
    cells = [
        (
            row.name,
            _text(row.value),
            row.unit,
            row.peer or "-",
            _text(row.peer_value),
            "-" if row.ratio is None else f"{row.ratio:.2f}",
        )
        for row in rows
    ]
    headers = ("name", "value", "unit", "peer", "peer value", "ratio")
    sides = ("left", "right", "left", "left", "right", "right")
    return tabulate.tabulate(cells, headers, "plain", colalign=sides, disable_numparse=True)


def write_json(path: pathlib.Path, rows: Sequence[Row]) -> None:
    """Writes rows as a list of objects, whole or not at all."""
    replace_file(path, json.dumps([row.as_json() for row in rows], indent=2) + "\n")


def read_json(path: pathlib.Path) -> list[Row]:
    """Reads what `write_json` wrote."""
    return [Row.from_json(fields) for fields in records.read_json(path)]


def _median(measured: Sequence[Any]) -> Any:
    if isinstance(measured[0], tuple):
        return tuple(map(statistics.median, zip(*measured)))
    return statistics.median(measured)


def _text(value: float | tuple[float, ...] | None) -> str:
    if value is None:
        return "-"
    if isinstance(value, tuple):
        return " and ".join(map(_text, value))
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
