"""Benchmarks, their measurements in turns, and the resulting rows.

This module imports neither TensorFlow nor NumPy, whose threads a benchmark limits first.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
import dataclasses
import json
import pathlib
import statistics
import time
from typing import Any

import tabulate

from common.agents.declaration import AgentDeclaration
from common.cluster.layout import imported
from common.reporting import records
from common.reporting.command_line import say
from common.reporting.records import replace_file

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
        """Returns the row of a median and of its peer, if that was measured.

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


def rate(
    function: Callable[[], object], calls: int, clock: Callable[[], float] = time.perf_counter
) -> float:
    """Calls `function` so many times and returns calls a second of a clock."""
    begin = clock()
    for _ in range(calls):
        function()
    return calls / (clock() - begin)


@dataclasses.dataclass(frozen=True)
class Bench:
    """A request to measure a case.

    Attributes:
      program: the agent that is measured.
      repeats: of each measurement, whose median counts.
      peers: whether other libraries are measured, too.
    """

    program: AgentDeclaration
    repeats: int
    peers: bool = False

    def make_agent(self, setting: str = "", **fields: Any) -> Any:
        """Builds the agent of a setting, "" for its default, but for these hyperparameters."""
        settings = self.program.settings
        chosen = vars(settings.configuration(setting or settings.default))
        return self.program.make_agent(**{**chosen, **fields})

    def in_turns(
        self, title: str, candidates: Mapping[str, Measure], times: int = 1, warm_up: bool = True
    ) -> Medians:
        """Measures candidates in turn, all of them in each repeat, and returns each one's median.

        Other load on the machine then meets all of them alike. Each is called once before,
        unmeasured, unless `warm_up` is False.

        Args:
          title: of the progress line.
          candidates: functions to measure, by name.
          times: measurements of each in a repeat.
          warm_up: whether to call each once before.
        """
        for measure in candidates.values() if warm_up else ():
            measure()
        values: dict[str, list] = {name: [] for name in candidates}
        for repeat in range(self.repeats * times):
            for name, measure in candidates.items():
                values[name].append(measure())
            latest = ", ".join(f"{name} {_text(values[name][-1])}" for name in candidates)
            say(f"{title} {repeat + 1}/{self.repeats * times}: {latest}")
        return Medians({name: _median(measured) for name, measured in values.items()})

    def rates(
        self,
        title: str,
        steps: Mapping[str, Callable[[], object]],
        calls: int,
        size: int = 1,
        clock: Callable[[], float] = time.perf_counter,
    ) -> Medians:
        """Returns the medians of calls a second, in turns, each of which counts as `size`.

        `time.process_time` as the clock gives calls per CPU second of all threads of this process,
        which depend less on other programs.
        """
        measures = {
            name: lambda step=step: size * rate(step, calls, clock) for name, step in steps.items()
        }
        return self.in_turns(title, measures)


@dataclasses.dataclass(frozen=True)
class Case:
    """A benchmark.

    Attributes:
      name: its name on the command line.
      function: "module:function" in this directory, `function(bench, **sizes)`, which yields rows.
      measures: description for users.
      quick: sizes that show that it works, not how fast.
      sizes: sizes that differ from the function's defaults.
      peer: what it is compared with on request, "cpprb" or "learners"; "": nothing.
      one_thread: whether NumPy and TensorFlow have one thread, as in an actor's process.
      uses_gpu: whether it may use a GPU, as its role.
      by_name_only: whether a request for several cases leaves it out.
    """

    name: str
    function: str
    measures: str
    quick: Mapping[str, Any]
    sizes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    peer: str = ""
    one_thread: bool = False
    uses_gpu: bool = False
    by_name_only: bool = False

    def imported(self) -> Callable[..., Iterator[Row]]:
        """Imports the function, and TensorFlow with it."""
        return imported(f"common.benchmarks.{self.function}")

    def measure(self, bench: Bench, is_quick: bool = False) -> list[Row]:
        """Measures in this process."""
        return list(self.imported()(bench, **{**self.sizes, **(self.quick if is_quick else {})}))


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
    fields = [{**dataclasses.asdict(row), "ratio": row.ratio} for row in rows]
    replace_file(path, json.dumps(fields, indent=2) + "\n")


def read_json(path: pathlib.Path) -> list[Row]:
    """Reads what `write_json` wrote."""
    names = [field.name for field in dataclasses.fields(Row)]
    return [Row(**{name: fields[name] for name in names}) for fields in records.read_json(path)]


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
