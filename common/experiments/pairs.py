"""Two settings compared on the tasks that both were run on."""

from collections.abc import Callable, Iterable, Mapping, Sequence
import dataclasses

import numpy as np
import pandas

from common.experiments import bootstrap, selection
from common.experiments.captions import task_title
from common.experiments.paper import EPISODE_RETURN, Returns
from common.experiments.runs import KeptRun
from common.reporting.budget import duration

MARGIN = 0.05
"""Smaller differences count as none; a part of the scale of `Unit`."""
LATE = 2 / 3
"""A method that gains more than the margin after this part of its runs still learns."""
_OVERTIME = 1.01
"""Runs of one length end milliseconds apart."""

Measure = Callable[[pandas.Series], float]
"""A function of a run's values in their order."""
Lines = Mapping[tuple[str, str], Sequence[pandas.Series]]
"""{(setting, environment): a run's values by their positions, for each seed}."""


@dataclasses.dataclass(frozen=True)
class Unit:
    """The unit of differences.

    It is a point of return on the Control Suite, percent of a human's score on Atari, and percent
    of the larger of both values elsewhere.

    Attributes:
      name: after a number.
      largest: the scale, 1000 points or 100 %.
    """

    name: str
    largest: float

    @classmethod
    def of(cls, environment: str, y: str) -> "Unit":
        """Returns the unit of a quantity of an environment."""
        suite = environment.partition(":")[0] if y == EPISODE_RETURN else ""
        return {"control": cls("", 1000.0), "atari": cls(" % of a human", 100.0)}.get(
            suite, cls(" %", 100.0)
        )

    @property
    def margin(self) -> float:
        """`MARGIN` in this unit."""
        return MARGIN * self.largest


@dataclasses.dataclass(frozen=True)
class Task:
    """Both settings on a task, at the time that all their runs of it reach.

    Attributes:
      environment: the task.
      first: the measured value of each seed of the first setting.
      second: likewise of the second.
      gain: since `LATE` of the time, of the setting that gained more.
      has_learnt: whether one of them ends more than the margin above its first value, mean over
        seeds; always true of a quantity that is no return.
      end: that time.
      factor: converts values to the unit.
    """

    environment: str
    first: tuple[float, ...]
    second: tuple[float, ...]
    gain: float
    has_learnt: bool
    end: float
    factor: float

    @property
    def is_enough(self) -> bool:
        """True if both have two seeds."""
        return min(len(self.first), len(self.second)) >= 2


@dataclasses.dataclass(frozen=True)
class Pair:
    """Two settings with their difference.

    Attributes:
      first: the first setting.
      second: the second setting.
      tasks: that both were run on and one has learnt; if there are any with two seeds of each, only
        those.
      unlearnt: tasks on which neither has learnt.
      unit: of the interval.
      interval: of the first's values less the second's, mean over tasks; None if no task that
        counts has two seeds of each.
    """

    first: str
    second: str
    tasks: tuple[Task, ...]
    unlearnt: tuple[Task, ...]
    unit: Unit
    interval: bootstrap.Interval | None

    @property
    def is_learning(self) -> bool:
        """True if one of them gains more than the margin at the end of its runs."""
        return float(np.mean([task.factor * task.gain for task in self.tasks])) > self.unit.margin

    def words(self, x: str) -> str:
        """Returns both with their numbers; `x` is the column of `Task.end`."""
        text = f"{self.first} - {self.second}"
        if self.interval is not None:
            one = self.interval
            bounds = [
                _signed(value)
                for value in (one.difference, one.low, one.high, one.t_low, one.t_high)
            ]
            text += (
                f" = {bounds[0]}{self.unit.name} (bootstrap {bounds[1]} to {bounds[2]}, "
                f"Student {bounds[3]} to {bounds[4]})"
            )
        tasks = [_words(task, x) for task in self.tasks]
        tasks += [f"{_words(task, x)}, where neither learns" for task in self.unlearnt]
        return f"{text}: {', '.join(tasks)}"


def compare(
    first: str,
    second: str,
    environments: Iterable[str],
    lines: Lines,
    y: str,
    measure: Measure,
    human: pandas.DataFrame | None = None,
) -> Pair:
    """Compares two settings by a measure of their runs' values, which are of the column `y`.

    Atari games need `human`, the scores of `Reported.atari_scores`.
    """
    tasks, unit = [], Unit("", 1000.0)
    for environment in environments:
        both = lines.get((first, environment), ()), lines.get((second, environment), ())
        if all(both):
            tasks.append(_task(environment, both, y, measure, human))
            unit = Unit.of(environment, y)
    learnt = [task for task in tasks if task.has_learnt]
    enough = [task for task in learnt if task.is_enough]
    interval = None
    if enough:
        scaled = (
            [[task.factor * value for value in getattr(task, side)] for task in enough]
            for side in ("first", "second")
        )
        interval = bootstrap.difference(*scaled)
    unlearnt = tuple(task for task in tasks if not task.has_learnt)
    return Pair(first, second, tuple(enough or learnt), unlearnt, unit, interval)


def lines_of(runs: Iterable[KeptRun], x: str, y: str, returns: Returns) -> Lines:
    """Returns the values of runs that have ended; see `KeptRun.points` for the arguments."""
    lines: dict[tuple[str, str], list[pandas.Series]] = {}
    for run in runs:
        points = run.points(x, y, returns) if run.has_ended else ()
        if len(points):
            lines.setdefault((run.setting, run.environment), []).append(points.set_index(x)[y])
    return lines


def _task(environment: str, both, y: str, measure: Measure, human: pandas.DataFrame) -> Task:
    end = max(
        min(line.index[-1] for side in both for line in side),
        max(line.index[0] for side in both for line in side),
    )
    values, gains, rises, finals = [], [], [], []
    for side in both:
        cut = [line[line.index <= _OVERTIME * end] for line in side]
        early = [line[line.index <= max(LATE * end, line.index[0])] for line in cut]
        values.append(tuple(measure(line) for line in cut))
        finals.append([selection.final(line) for line in cut])
        gains.append(np.mean(values[-1]) - np.mean([measure(line) for line in early]))
        rises.append(np.mean(finals[-1]) - np.mean([line.iloc[0] for line in cut]))
    rise = _factor(environment, y, finals, human) * max(rises)
    has_learnt = y != EPISODE_RETURN or rise > Unit.of(environment, y).margin
    return Task(
        environment,
        *values,
        float(max(gains)),
        bool(has_learnt),
        float(end),
        _factor(environment, y, values, human),
    )


def _factor(environment: str, y: str, values, human: pandas.DataFrame) -> float:
    """Returns the factor that converts values of both settings to `Unit.of`."""
    suite = environment.partition(":")[0] if y == EPISODE_RETURN else ""
    if suite == "control":
        return 1.0
    if suite == "atari":
        none, one = selection.human_normalised(environment, pandas.Series([0.0, 1.0]), human)
        return float(100 * (one - none))
    return float(100 / (max(abs(np.mean(side)) for side in values) or 1.0))


def _words(task: Task, x: str) -> str:
    return (
        f"{task_title(task.environment)} {_values(task.first)} - {_values(task.second)} "
        f"after {_position(task.end, x)}"
    )


def _signed(value: float) -> str:
    return f"{value:+,.0f}" if abs(value) >= 100 else f"{value:+.2g}"


def _values(values: Sequence[float]) -> str:
    seeds = "1 seed" if len(values) == 1 else f"{len(values)} seeds"
    return f"{np.mean(values):.4g} ({seeds})"


def _position(end: float, x: str) -> str:
    if x == "wall_seconds":
        return duration(round(end / 60, 1))
    return f"{end:,.0f} {x.replace('_', ' ')}"
