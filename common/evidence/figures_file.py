"""Reader of a paper's `figures.toml`: its figures and tables as lists of runs, scales and looks.

    title = "D4PG"                     and `citation`, of `Paper`
    agents = ["d4pg", "d4pg_ppo"]      names of declarations
    band = "standard_error"            a `Band`, if the paper says what it shades
    [tasks]                            named lists of environments, for `tasks`
    [flags]                            named lists of flags, for `flags`
    [curves]                           what a curve runs, by name or pattern of names
    [scales.small]                     a `Scale`, after the paper's own
    [defaults]                         defaults of figures, tables and sections that have runs
    [figure.2], [table.1]              an `Experiment`
    [figure.2.small]                   its `Substitute` at a scale
    [looks]                            labels and colours of curves

`"{a,b}_n{1,5}"` stands for four names, as in a shell: a_n1, a_n5, b_n1, b_n5.

A curve runs the setting of its name unless a pattern in `[curves]` matches the name. Its table may
have `setting`, `flags`, `fixed` and a budget. `"dqn_{actors}_actors"` matches "dqn_8_actors", and
`{actors}` in its values is then 8. `{setting}` may match underscores, and gives the setting, or
another curve, to whose flags those of the pattern are added.
`[scales.small.curves]` replaces values of these tables in experiments that name the scale.

An experiment has the fields of `Experiment` and a budget in `minutes`, `hours` or steps. Its runs
are `curves` on `tasks`, one curve after the other. Its `flags` override those of the curves, its
`fixed` adds to theirs. `runs` is a list of such tables where curves differ in these keys.
`[scales.small.figures]` has the defaults of substitutes at a scale.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
import contextlib
import dataclasses
import importlib.util
import itertools
import pathlib
import re
import tomllib
from typing import Any

import numpy as np

from common.agents.declaration import AgentDeclaration
from common.cluster.layout import imported
from common.evidence.paper import (
    PAPER_SCALE,
    Band,
    Change,
    Experiment,
    Look,
    OverTasks,
    Paper,
    Part,
    Reference,
    Returns,
    Run,
    Scale,
    Style,
    Substitute,
    flag_name,
)
from common.reporting.budget import Budget
from common.reporting.curves import COLOR_NAMES
from common.user_error import UserError

KINDS = ("figure", "table", "section")

_Table = Mapping[str, Any]

_LIMITS = ("hours", *(field.name for field in dataclasses.fields(Budget)))
_OF_RUNS = ("runs", "curves", "tasks", "flags", "fixed")


class FileMistakeError(UserError):
    """A mistake in a file of a paper; the message says where."""


@contextlib.contextmanager
def mistakes_in(where: object) -> Iterator[None]:
    """Turns an error into a FileMistakeError that names its place, such as a file and a key."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise FileMistakeError(f"{where}: {error}") from error


def read(path: pathlib.Path, declared: Callable[[str], AgentDeclaration]) -> Paper:
    """Returns the paper whose directory in `reproductions` has this file.

    Args:
      path: path of the file.
      declared: returns the agent with a name.

    Raises:
      FileMistakeError: a name or a key is not known.
    """
    with mistakes_in(path):
        return _Reader(tomllib.loads(path.read_text()), declared).paper(path.parent.name)


def spread(pattern: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yields the names that a pattern stands for, each with the words chosen from its braces."""
    parts = re.split(r"\{([^{}]*,[^{}]*)\}", pattern)
    for chosen in itertools.product(*(part.split(",") for part in parts[1::2])):
        texts = itertools.zip_longest(parts[::2], chosen, fillvalue="")
        yield "".join(itertools.chain.from_iterable(texts)), chosen


def names(patterns: str | Sequence[str]) -> tuple[str, ...]:
    """Returns the names that one or more patterns stand for."""
    listed = [patterns] if isinstance(patterns, str) else patterns
    return tuple(name for pattern in listed for name, _ in spread(pattern))


class _Reader:
    """A reader of the content of a file."""

    def __init__(self, content: _Table, declared: Callable[[str], AgentDeclaration]):
        self._content = content
        self._agents = {name: declared(name) for name in content["agents"]}
        self._scales: dict[str, _Table] = {PAPER_SCALE.name: {}} | content["scales"]

    def paper(self, name: str) -> Paper:
        content = self._content
        experiments = tuple(
            self._experiment(f"{kind} {number}", table)
            for kind in KINDS
            for number, table in content.get(kind, {}).items()
        )
        scales = tuple(self._scale(*named) for named in self._scales.items())
        agents, looks = tuple(self._agents.values()), self._looks(experiments)
        band = Band[content.get("band", "unstated").upper()]
        title, citation = content["title"], content["citation"]
        return Paper(name, title, citation, agents, experiments, scales, looks, band)

    def _scale(self, name: str, table: _Table) -> Scale:
        changed: list[Change] = []
        for change in table.get("changes", ()):
            entry = {"flags": [change]} if isinstance(change, str) else change
            agent = self._agents[entry["agent"]] if "agent" in entry else None
            changed += [Change(flag, agent) for flag in entry["flags"]]
        title, flags = table.get("title", PAPER_SCALE.title), tuple(table.get("flags", ()))
        is_compact = table.get("is_compact", False)
        return Scale(name, title, _budget(table), tuple(changed), flags, is_compact)

    def _experiment(self, name: str, table: _Table) -> Experiment:
        if any(key in table for key in _OF_RUNS):
            table = _with_defaults(self._content.get("defaults", {}), table)
        scales = [scale for scale in self._scales if scale in table]
        with mistakes_in(name):
            return Experiment(
                name,
                runs=self._runs(table),
                budget=_budget(table) or Budget(),
                substitutes={scale: self._substitute(table, scale) for scale in scales},
                **self._fields(table),
            )

    def _substitute(self, table: _Table, scale: str) -> Substitute:
        own = _with_defaults(self._scales[scale].get("figures", {}), table[scale])
        if "needs" in own:
            if importlib.util.find_spec(own.pop("needs")) is not None:
                own.pop("unavailable")
        elif "unavailable" in own:
            return Substitute((), overrides={"unavailable": own["unavailable"]})
        of_runs = {key: table[key] for key in _OF_RUNS if key in table}
        if "curves" in own:
            of_runs.pop("runs", None)
        runs, budget = self._runs({**of_runs, **own}, scale), _budget(own)
        named = {key: own.pop(key) for key in ("note", "seeds", "is_evidence") if key in own}
        return Substitute(runs, budget=budget, overrides=self._fields(own), **named)

    def _fields(self, table: _Table) -> dict[str, Any]:
        """Returns fields of `Experiment`."""
        readers = {**_READERS, "parts": self._parts}
        left_out = (*_OF_RUNS, *_LIMITS, *self._scales)
        fields = {key: table[key] for key in table if key not in left_out}
        return {key: readers.get(key, lambda as_is: as_is)(fields[key]) for key in fields}

    def _parts(self, listed: Sequence[_Table]) -> tuple[Part, ...]:
        found = []
        for part in listed:
            curves, tasks = names(part.get("curves", ())), self._tasks(part.get("tasks", ()))
            fields = self._fields({key: part[key] for key in part if key != "name"})
            found.append(Part(part["name"], curves, tasks, fields))
        return tuple(found)

    def _runs(self, table: _Table, scale: str = "") -> tuple[Run, ...]:
        """Returns the runs of a table at a scale; "": at the scales without a substitute."""
        shared = {key: table[key] for key in _OF_RUNS[1:] if key in table}
        return tuple(
            self._run(name, environment, {**shared, **each}, scale)
            for each in table.get("runs", [{}])
            for name in names({**shared, **each}.get("curves", ()))
            for environment in self._tasks({**shared, **each}["tasks"])
        )

    def _run(self, name: str, environment: str, table: _Table, scale: str) -> Run:
        curve = self._curve(name, scale)
        setting = curve.get("setting", name)
        agents = [agent for agent in self._agents.values() if setting in agent.settings.names]
        if not agents:
            raise LookupError(f"{name} is not a setting, nor does a pattern in [curves] match it")
        agent = agents[0]
        flags, fixed = (
            (*self._flags(curve.get(key, ())), *self._flags(table.get(key, ())))
            for key in ("flags", "fixed")
        )
        if self._content.get("settings_are_fixed", False):
            fixed += tuple(f"--config.{field}" for field in agent.settings.overrides[setting])
        by_name = {flag_name(flag): flag for flag in (f"--setting={setting}", *flags)}
        return Run(agent, name, environment, tuple(by_name.values()), _budget(curve), fixed)

    def _curve(self, name: str, scale: str) -> dict[str, Any]:
        """Returns the values of a curve in [curves], overridden by those of the scale."""
        found: dict[str, Any] = {}
        for tables in (self._content, self._scales.get(scale, {})):
            for patterns, table in tables.get("curves", {}).items():
                matches = (re.fullmatch(_regex(pattern), name) for pattern in names(patterns))
                if match := next(filter(None, matches), None):
                    found |= _filled(match.groupdict() | table, match.groupdict())
                    break
        if (base := found.get("setting", name)) == name:
            return found
        of_base = {"setting": base} | self._curve(base, scale)
        lists = {key: [*of_base.get(key, ()), *found.get(key, ())] for key in ("flags", "fixed")}
        return of_base | found | lists | {"setting": of_base["setting"]}

    def _tasks(self, listed: str | Sequence[str]) -> tuple[str, ...]:
        """Returns environments, given patterns of their names and names of lists."""
        found: list[str] = []
        for name in [listed] if isinstance(listed, str) else listed:
            known = self._content["tasks"].get(name)
            if isinstance(known, dict):
                found += imported(known["from"])
            else:
                found += names(name) if known is None else self._tasks(known)
        return tuple(found)

    def _flags(self, listed: Sequence[str]) -> tuple[str, ...]:
        """Returns flags, given flags and names of lists."""
        lists = self._content.get("flags", {})
        parts = ([flag] if flag.startswith("--") else lists[flag] for flag in listed)
        return tuple(itertools.chain.from_iterable(parts))

    def _looks(self, experiments: Sequence[Experiment]) -> dict[str, Look]:
        """Returns the looks; a curve without its own has the look of its setting."""
        looks = {}
        for pattern, look in self._content["looks"].items():
            found = dict(spread(pattern))
            colors = [look.get("color", "")] * len(found)
            if "shades" in look:
                colors = _shades(*self._content["shades"][look["shades"]], len(found))
            others = {key: look[key] for key in ("line", "width") if key in look}
            for (name, chosen), color in zip(found.items(), colors):
                style = Style(COLOR_NAMES.get(color, color), **others) if color else None
                looks[name] = Look(look["label"].format(*chosen), style)
        for run in (run for experiment in experiments for run in experiment.every_run):
            if run.setting not in looks and run.agent_setting in looks:
                looks[run.setting] = looks[run.agent_setting]
        return looks


def _with_defaults(defaults: _Table, table: _Table) -> dict[str, Any]:
    """Returns a table with defaults for missing keys; its limits replace all default limits."""
    left_out = _LIMITS if any(key in table for key in _LIMITS) else ()
    return {key: value for key, value in defaults.items() if key not in left_out} | table


def _budget(table: _Table) -> Budget | None:
    """Returns the budget of a table; None if it has none."""
    limits = {key: table[key] for key in _LIMITS if key in table}
    if "hours" in limits:
        limits["minutes"] = 60 * limits.pop("hours")
    return Budget(**limits) if limits else None


def _regex(pattern: str) -> str:
    def group(match: re.Match) -> str:
        return f"(?P<{match[1]}>{'.+' if match[1] == 'setting' else '[^_]+'})"

    return re.sub(r"\\\{(\w+)\\\}", group, re.escape(pattern))


def _filled(value: Any, values: Mapping[str, str]) -> Any:
    """Returns a TOML value in whose texts `values` replace their names in braces."""
    if isinstance(value, str):
        return value.format(**values)
    if isinstance(value, dict):
        return {key: _filled(part, values) for key, part in value.items()}
    return [_filled(part, values) for part in value] if isinstance(value, list) else value


def _references(tables: Sequence[_Table]) -> tuple[Reference, ...]:
    return tuple(
        Reference(table["source"], row, table["column"], row, table.get("days", ""))
        for table in tables
        for row in table["rows"]
    )


def _sizes(patterns: Sequence[str]) -> dict[str, float]:
    """Returns the number in the braces for each curve."""
    return {name: float(size) for pattern in patterns for name, (size,) in spread(pattern)}


def _instance(table: _Table) -> Any:
    """Returns an instance of the class that a table names, built from its other values."""
    values = {
        key: tuple(value) if isinstance(value, list) else value for key, value in table.items()
    }
    return imported(values.pop("class"))(**values)


_READERS: dict[str, Callable[[Any], Any]] = {
    "returns": lambda text: Returns[text.upper()],
    "over_tasks": lambda text: OverTasks[text.upper()],
    "levels": lambda table: {name: tuple(map(tuple, table[name])) for name in table},
    "references": _references,
    "sizes": _sizes,
    "ours": _instance,
}
"""Readers of those fields of `Experiment` whose values in the file need a conversion."""


def _shades(first: str, last: str, count: int) -> list[str]:
    """Returns `count` evenly spaced colours "#RRGGBB", from the first to the last."""
    ends = [np.array([int(color[at : at + 2], 16) for at in (1, 3, 5)]) for color in (first, last)]
    mixed = np.linspace(*ends, count)
    return ["#" + "".join(f"{round(part):02X}" for part in color) for color in mixed]
