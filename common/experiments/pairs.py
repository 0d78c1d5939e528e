"""The relation that a claim states of its contrasts, and its test: p-values and evidence."""

from collections.abc import Callable, Mapping, Sequence
import dataclasses
import enum
import functools
import math

import numpy as np

from common.experiments import bootstrap, robust
from common.experiments.captions import task_title
from common.experiments.contrasts import Contrast, TaskSamples, Unit
from common.experiments.shares import MOST

_INFINITE = math.inf

PValues = tuple[float, float]
"""For a claim to hold, and not to."""


class Expected(enum.Enum):
    """The claimed relation: an interval for (first - second), in units of the margin."""

    AHEAD = (0, _INFINITE)
    CLEARLY_AHEAD = (1, _INFINITE)
    SLIGHTLY_AHEAD = (0, 2)
    LEVEL = (-1, 1)
    NOT_BEHIND = (-1, _INFINITE)

    @property
    def lead(self) -> float:
        """The lead that counts while the difference still changes, in units of the margin."""
        return max(abs(bound) for bound in self.value if bound != _INFINITE)


@dataclasses.dataclass(frozen=True)
class Relation:
    """The relation that a claim states of each of its pairs.

    Attributes:
      expected: the relation.
      margin: a part of the scale.
      is_apart: whether each task is tested by itself; else all are together.
    """

    expected: Expected
    margin: float
    is_apart: bool

    @property
    def leaves_solved_out(self) -> bool:
        """True if tasks that all solve do not count, for they leave no room for a clear lead."""
        return not self.is_apart and self.expected is Expected.CLEARLY_AHEAD

    @property
    def rule(self) -> str:
        """The rule, after the words for what is compared."""
        lead = self.expected.lead * self.margin
        return (
            ", but for those that all solve" * self.leaves_solved_out
            + f": holds if it surely lies {self._range()}, does not if it surely lies elsewhere"
        ) + (
            "; while the difference still changes, only a lead of more than "
            f"{_percent(lead)} counts, of whichever is ahead"
            if lead or self.expected is not Expected.AHEAD
            else "; a lead counts, of whichever is ahead, also while it still changes"
        )

    def _range(self) -> str:
        low, high = (
            _percent(abs(bound) * self.margin) if bound != _INFINITE else ""
            for bound in self.expected.value
        )
        return {
            Expected.LEVEL: f"within plus and minus {high}",
            Expected.NOT_BEHIND: f"above minus {low}",
            Expected.SLIGHTLY_AHEAD: f"between {low} and {high}",
        }.get(self.expected, f"above {low}")

    def p_values(self, interval: bootstrap.Interval, unit: Unit, change: float) -> PValues:
        """Returns the p-values for a contrast to lie within the expected range, and elsewhere.

        Args:
          interval: of the contrast.
          unit: of the interval.
          change: of the contrast towards the end of the runs.
        """
        margin = self.margin * unit.largest
        low, high = (bound * margin if bound else 0.0 for bound in self.expected.value)
        if abs(change) > unit.margin:
            ahead = interval.p_above(self.expected.lead * margin)
            behind = interval.p_below(-self.expected.lead * margin)
            return (ahead, behind) if high == _INFINITE else (1.0, min(ahead, behind))
        within = max(interval.p_above(low), interval.p_below(high))
        return within, min(interval.p_below(low), interval.p_above(high))


class Pair:
    """A contrast of a claim at a scale.

    Args:
      contrast: the contrast.
      cells: by task, None where it cannot be compared.
      relation: the claimed one.
      needed: number of seeds.

    Attributes:
      contrast: the contrast.
      cells: by task.
      there: those that can be compared.
    """

    def __init__(
        self,
        contrast: Contrast,
        cells: Mapping[str, TaskSamples | None],
        relation: Relation,
        needed: int,
    ):
        self.contrast, self.cells = contrast, cells
        self.there = [cell for cell in cells.values() if cell]
        self._relation, self._needed = relation, needed
        of_tasks = {task: cell for task, cell in cells.items() if cell and cell.has_interval}
        self._counted = [
            cell
            for cell in of_tasks.values()
            if not (relation.leaves_solved_out and cell.is_solved)
        ]
        self._by_task: dict[str, bootstrap.Interval] = {}
        self._together: bootstrap.Interval | None = None
        if relation.is_apart:
            self._by_task = {task: _interval(contrast, [cell]) for task, cell in of_tasks.items()}
        elif self._counted:
            self._together = _interval(contrast, self._counted)

    def is_complete(self, task: str) -> bool:
        """Returns whether a task has all the seeds."""
        cell = self.cells[task]
        return cell is not None and cell.seeds >= self._needed

    @functools.cached_property
    def p_values(self) -> list[PValues]:
        """The p-values of each task, or one pair of them for all tasks together."""
        if self._relation.is_apart:
            return [
                self._of_task(task, self.cells[task])
                if self.is_complete(task) and task in self._by_task
                else (1.0, 1.0)
                for task in self.cells
            ]
        num_learnt = sum(cell.has_learnt for cell in self.there)
        is_enough = all(map(self.is_complete, self.cells))
        if self._together is None or not is_enough or num_learnt < MOST.least(len(self.cells)):
            return [(1.0, 1.0)]
        change = float(np.mean([cell.change(self.contrast) for cell in self._counted]))
        return [self._relation.p_values(self._together, self._counted[0].unit, change)]

    def _of_task(self, task: str, cell: TaskSamples) -> PValues:
        change = cell.change(self.contrast)
        return self._relation.p_values(self._by_task[task], cell.unit, change)

    def words(self, is_of_returns: bool) -> str:
        """Returns the contrast with its numbers on each task that can be compared.

        Args:
          is_of_returns: whether it is about final returns.
        """
        listed = ", ".join(
            cell.words(self.contrast, self._needed)
            + (f" ({_signed(self._by_task[task], cell.unit)})" if task in self._by_task else "")
            for task, cell in self.cells.items()
            if cell
        )
        return f"{self.contrast.name}{self._over_tasks(is_of_returns)}: {listed}"

    def _over_tasks(self, is_of_returns: bool) -> str:
        """Returns the interval over tasks in words, with what a few outlying runs do not move."""
        if self._together is None:
            return ""
        words = f" {_signed(self._together, self._counted[0].unit)}"
        if is_of_returns and all(len(cell.samples) == 2 for cell in self._counted):
            first, second = ([cell.samples[side] for cell in self._counted] for side in (0, 1))
            scores = [robust.interquartile_mean(side) for side in (first, second)]
            better = robust.probability_of_improvement(first, second)
            words += (
                f", interquartile means {scores[0]:.4g} - {scores[1]:.4g}, "
                f"a run of the first is better in {better:.0%} of pairs"
            )
        return words

    def numbers(self) -> list[tuple[PValues, str]]:
        """Returns p-values with the numbers they are of: of each task, or of all together."""
        if self._together is not None:
            (p_values,) = self.p_values
            interval = _signed(self._together, self._counted[0].unit)
            return [(p_values, f"{self.contrast.name} {interval}")]
        return [
            (
                self._of_task(task, cell),
                f"{self.contrast.name} on {task_title(task)} {_signed(interval, cell.unit)}",
            )
            for task, interval in self._by_task.items()
            for cell in [self.cells[task]]
        ]


def _interval(contrast: Contrast, cells: Sequence[TaskSamples]) -> bootstrap.Interval:
    over_tasks: Callable = np.median if cells[0].unit.is_human else np.mean
    return bootstrap.contrast(
        [cell.samples for cell in cells], tuple(contrast.weights.values()), over_tasks
    )


def _percent(part: float) -> str:
    return f"{part:.0%} of the scale" if part else "0"


def _signed(interval: bootstrap.Interval, unit: Unit) -> str:
    value, low, high = (
        f"{one:+,.0f}" if abs(one) >= 99.5 else f"{one:+.2g}"
        for one in (interval.value, interval.low, interval.high)
    )
    return f"{value}{unit.name} ({low} to {high})"
