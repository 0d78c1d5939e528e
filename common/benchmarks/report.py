"""Benchmarks, their measurements in turns, and the resulting rows.

This module imports neither TensorFlow nor NumPy: a benchmark limits their threads first.
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
    """A measured number and its peer.

    Attributes:
      name: suite and measurement, such as "replay/in_process_loop".
      value: a median over repeats.
      unit: unit of value and peer_value.
      peer: name of the peer; None: there is no peer.
      peer_value: the peer's median over repeats, which alternated with the repeats of value; None
        without a peer.
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
    """Medians by the name of the candidate: each is a number, or a tuple of several."""

    def row(
        self,
        name: str,
        unit: str,
        ours: str,
        peer: str = "",
        label: str | None = None,
        part: int = 0,
    ) -> Row:
        """Returns the row of a median and of its peer, if the peer was measured.

        Args:
          name: name of the row.
          unit: unit of both values.
          ours: the candidate whose value the row has.
          peer: the candidate with which it is compared.
          label: name of the peer in the row; default: `peer`.
          part: index of the values in medians that are tuples.
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
    """Calls `function` `calls` times and returns calls a second of a clock."""
    begin = clock()
    for _ in range(calls):
        function()
    return calls / (clock() - begin)


@dataclasses.dataclass(frozen=True)
class Bench:
    """A request to measure a case.

    Attributes:
      program: the agent that is measured.
      repeats: number of repeats of each measurement, whose median counts.
      peers: whether other libraries are also measured.
    """

    program: AgentDeclaration
    repeats: int
    peers: bool = False

    def make_agent(self, setting: str = "", **fields: Any) -> Any:
        """Builds the agent of a setting ("": the default) with these hyperparameters changed."""
        settings = self.program.settings
        chosen = vars(settings.configuration(setting or settings.default))
        return self.program.make_agent(**{**chosen, **fields})

    def in_turns(
        self, title: str, candidates: Mapping[str, Measure], times: int = 1, warm_up: bool = True
    ) -> Medians:
        """Measures candidates in turn, all of them in each repeat, and returns their medians.

        Other load on the machine then affects all of them alike.

        Args:
          title: title of the progress lines.
          candidates: functions to measure, by name.
          times: measurements of each candidate in a repeat.
          warm_up: whether to call each candidate once before, unmeasured.
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
        """Measures calls a second in turns, where a call counts as `size`, and returns the medians.

        With `time.process_time` as the clock these are calls per CPU second of all threads of this
        process, which depend less on other programs.
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
      peer: the peer on request, "cpprb" or "learners"; "": there is none.
      one_thread: whether NumPy and TensorFlow have one thread, as in an actor's process.
      uses_gpu: whether it may use a GPU, as its role may.
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
        """Measures in this process and returns the rows."""
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
    """Returns the rows that `write_json` wrote."""
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
