"""Tests of claims that one method is better than, as good as, or no worse than another."""

from collections.abc import Callable, Iterable, Mapping, Sequence
import dataclasses
import enum
import math

import numpy as np

from common.experiments import bootstrap, contrasts, robust, selection
from common.experiments.bootstrap import CONFIDENCE
from common.experiments.captions import task_title
from common.experiments.claims import Basis, Evidence, Finding, Verdict
from common.experiments.contrasts import Contrast, Measure, TaskSamples, Unit
from common.experiments.lacking import lacking, planned_budget, seeds_of
from common.experiments.paper import EPISODE_RETURN, Experiment, Paper
from common.experiments.runs import KeptRun
from common.experiments.scales import PAPER
from common.experiments.shares import MOST, Share, partial_conjunction
from common.reporting.budget import Budget

_INFINITE = math.inf
_TIME = "wall_seconds"
_ByTask = Mapping[str, TaskSamples | None]
"""The cells of a contrast by task, None where it cannot be compared."""
_Intervals = Mapping[str, bootstrap.Interval]
"""By task, where there is one."""


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
class Comparison:
    """A test of pairs of settings, over tasks and seeds, at the budget that both reach on a task.

    The tasks are fixed in advance: those of the claim that the experiment has at the scale of the
    runs. `rule` says what is computed.

    Attributes:
      pairs: (first, second), or another contrast between settings.
      expected: their claimed relation.
      environments: the tasks; the experiment's if empty.
      measure: of a run.
      measured: the measure in words.
      share: the part of the tasks on which it must hold, each tested by itself; None: it must hold
        in their mean, or their median on Atari.
      margin: a part of the scale.
      clock: column along which runs are compared; "": by the kind of their budget. With
        "wall_seconds" the claim is about time, so only runs limited in minutes count. For other
        claims they count at the paper's scale alone, since they depend on the machine's speed.
      at: fields to replace at a scale, by its name.
    """

    pairs: tuple[tuple[str, str] | Contrast, ...]
    expected: Expected = Expected.AHEAD
    environments: tuple[str, ...] = ()
    measure: Measure = selection.final
    measured: str = "final returns"
    share: Share | None = None
    margin: float = contrasts.MARGIN
    clock: str = ""
    at: Mapping[str, Mapping[str, object]] = dataclasses.field(default_factory=dict)

    basis = Basis.RUNS

    def at_scale(self, scale: str) -> "Comparison":
        """Returns the test with what `at` replaces at a scale."""
        return dataclasses.replace(self, **{**self.at.get(scale, {}), "at": {}})

    def tasks(self, experiment: Experiment, scale: str) -> tuple[str, ...]:
        """Returns the claim's tasks at a scale: those that the experiment has for its settings."""
        runs = experiment.at(scale).runs
        runs = [run for run in runs if run.setting in self.settings] or runs
        there = dict.fromkeys(run.environment for run in runs)
        return tuple(one for one in there if one in (self.environments or there))

    def is_decided_by(self, experiment: Experiment, scale: str, budget: Budget) -> bool:
        """Returns whether runs of a scale with this budget can decide the claim."""
        is_timed = budget.minutes is not None
        is_of_kind = is_timed if self.clock == _TIME else scale == PAPER.name or not is_timed
        return is_of_kind and experiment.substitute(scale).is_evidence

    @property
    def contrasts(self) -> tuple[Contrast, ...]:
        """The pairs, each as a contrast."""
        return tuple(
            one if isinstance(one, Contrast) else contrasts.difference(*one) for one in self.pairs
        )

    @property
    def settings(self) -> tuple[str, ...]:
        """The settings that the test needs."""
        return tuple(dict.fromkeys(name for one in self.contrasts for name in one.weights))

    @property
    def rule(self) -> str:
        """Implements `claims.Test`."""
        words = f"{self.contrasts[0].words} of {self.measured}"
        words += f", on {self.share.words}" if self.share else ", over all tasks together"
        words += ", but for those that all solve" * self.leaves_solved_out
        words += f": holds if it surely lies {self._range()}, does not if it surely lies elsewhere"
        lead = self.expected.lead * self.margin
        words += (
            "; while the difference still changes, only a lead of more than "
            f"{_percent(lead)} counts, of whichever is ahead"
            if lead or self.expected is not Expected.AHEAD
            else "; a lead counts, of whichever is ahead, also while it still changes"
        )
        if len(self.pairs) > 1:
            also = " on a task" * bool(self.share)
            words += f"; all pairs must hold{also}, one that does not is enough"
        return words

    @property
    def leaves_solved_out(self) -> bool:
        """Whether tasks that all solve do not count, for they leave no room for a clear lead."""
        return self.share is None and self.expected is Expected.CLEARLY_AHEAD

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

    def find(self, paper: Paper, experiment: Experiment, evidence: Evidence) -> Finding:
        """Implements `claims.Test`."""
        found = [
            _Judgement(self, paper, experiment, evidence, scale) for scale in evidence.scales(paper)
        ]
        decided = [one for one in found if one.verdict is not Verdict.OPEN]
        if decided:
            first, *others = decided
            return first.finding("".join(f" At {one.where}: {one.verdict}." for one in others))
        best = max(found, key=lambda one: one.size, default=None)

        def needed_at(scale: str) -> tuple[Sequence[str], Sequence[str]]:
            own = self.at_scale(scale)
            budget = planned_budget(paper, experiment, scale)
            can_decide = self.is_decided_by(experiment, scale, budget)
            return own.settings, own.tasks(experiment, scale) if can_decide else ()

        needs = lacking(paper, experiment, evidence, needed_at)
        if best is None or not any(best.size):
            return Finding(Verdict.OPEN, needs)
        return best.finding(f" {needs}" * bool(needs))


class _Judgement:
    """The verdict at a scale.

    Args:
      claimed: the test.
      paper: of the claim.
      experiment: of the claim.
      evidence: to decide by.
      scale: of the runs.

    Attributes:
      verdict: the verdict.
      size: the amount of evidence, to compare by; zeros without runs to show.
      where: the scale in words.
    """

    verdict: Verdict
    size: tuple[int, int]

    def __init__(
        self,
        claimed: Comparison,
        paper: Paper,
        experiment: Experiment,
        evidence: Evidence,
        scale: str,
    ):
        test = claimed.at_scale(scale)
        self._claimed, self._test, self._scale = claimed, test, scale
        self.where = selection.scale_in_words(scale)
        self._tasks = test.tasks(experiment, scale)
        self._needed = seeds_of(experiment, scale)
        self._human = (
            evidence.reported.atari_scores()
            if any(task.startswith("atari:") for task in self._tasks)
            else None
        )
        runs: dict[tuple[str, str], list[KeptRun]] = {}
        for run in evidence.kept.of(paper.name, scale):
            if run.setting in test.settings and run.environment in self._tasks and run.has_ended:
                if test.is_decided_by(experiment, scale, evidence.budget(run)):
                    runs.setdefault((run.setting, run.environment), []).append(run)
        is_declared = scale in (PAPER.name, *experiment.substitutes)
        declared = planned_budget(paper, experiment, scale) if is_declared else Budget()

        self._cells: list[_ByTask] = [
            {
                task: contrasts.compare(
                    task,
                    [runs.get((setting, task), []) for setting in contrast.weights],
                    experiment,
                    declared,
                    self._needed,
                    test.clock,
                    test.measure,
                    evidence,
                    self._human,
                )
                for task in self._tasks
            }
            for contrast in test.contrasts
        ]
        self._is_of_returns = experiment.y == EPISODE_RETURN and test.measure is selection.final
        self._intervals = [self._interval_of(*one) for one in zip(test.contrasts, self._cells)]
        self._by_task: list[_Intervals] = [
            {task: _interval(contrast, [cell]) for task, cell in _with_interval(cells).items()}
            if test.share
            else {}
            for contrast, cells in zip(test.contrasts, self._cells)
        ]
        self.verdict = self._decide()
        there = [cell for cells in self._cells for cell in cells.values() if cell]
        self.size = (sum(map(self._is_complete, there)), len(there))

    def _is_complete(self, cell: TaskSamples | None) -> bool:
        return cell is not None and cell.seeds >= self._needed

    def _counted(self, cells: _ByTask) -> list[TaskSamples]:
        """Returns the tasks that count together."""
        found = _with_interval(cells).values()
        return [cell for cell in found if not (self._test.leaves_solved_out and cell.is_solved)]

    def _interval_of(self, contrast: Contrast, cells: _ByTask) -> bootstrap.Interval | None:
        """Returns the interval over tasks."""
        counted = self._counted(cells)
        return _interval(contrast, counted) if counted else None

    def _decide(self) -> Verdict:
        by_pair = [
            self._each(*one[:3]) if self._test.share else [self._together(*one[:2], one[3])]
            for one in zip(self._test.contrasts, self._cells, self._by_task, self._intervals)
        ]
        # On a task all pairs must hold (the largest p-value), and one that does not is enough.
        self._p_values = [
            (
                max(hold for hold, _ in of_task),
                partial_conjunction([fail for _, fail in of_task], 1),
            )
            for of_task in zip(*by_pair)
        ]
        if not self._p_values:
            return Verdict.OPEN
        num = len(self._p_values)
        least = self._test.share.least(num) if self._test.share else 1
        holds = partial_conjunction([hold for hold, _ in self._p_values], least)
        fails = partial_conjunction([fail for _, fail in self._p_values], num - least + 1)
        if holds < 1 - CONFIDENCE:
            return Verdict.HOLDS
        return Verdict.FAILS if fails < 1 - CONFIDENCE else Verdict.OPEN

    def _each(
        self, contrast: Contrast, cells: _ByTask, intervals: _Intervals
    ) -> list[tuple[float, float]]:
        """Returns the p-values of a pair on each task, to hold and not to."""
        return [
            self._p(intervals[task], cell.unit, cell.change(contrast))
            if self._is_complete(cell) and cell.has_learnt
            else (1.0, 1.0)
            for task, cell in cells.items()
        ]

    def _together(
        self, contrast: Contrast, cells: _ByTask, interval: bootstrap.Interval | None
    ) -> tuple[float, float]:
        """Returns the p-values of a pair over all tasks together."""
        learnt = [cell for cell in cells.values() if cell and cell.has_learnt]
        is_enough = all(map(self._is_complete, cells.values()))
        if interval is None or not is_enough or len(learnt) < MOST.least(len(cells)):
            return 1.0, 1.0
        counted = self._counted(cells)
        change = float(np.mean([cell.change(contrast) for cell in counted]))
        return self._p(interval, counted[0].unit, change)

    def _p(self, interval: bootstrap.Interval, unit: Unit, change: float) -> tuple[float, float]:
        """Returns the p-values for the contrast to lie within the expected range, and elsewhere."""
        margin, expected = self._test.margin * unit.largest, self._test.expected
        low, high = (bound * margin if bound else 0.0 for bound in expected.value)
        if abs(change) > unit.margin:
            ahead = interval.p_above(expected.lead * margin)
            behind = interval.p_below(-expected.lead * margin)
            return (ahead, behind) if high == _INFINITE else (1.0, min(ahead, behind))
        within = max(interval.p_above(low), interval.p_below(high))
        return within, min(interval.p_below(low), interval.p_above(high))

    def finding(self, more: str) -> Finding:
        """Returns the verdict with its evidence, which ends with `more`."""
        shown = [cell for cells in self._cells for cell in cells.values() if cell]
        lengths = list(dict.fromkeys(cell.length for cell in shown))
        seeds = [cell.seeds for cell in shown]
        words = [
            f"{contrast.name}{self._over_tasks(cells, interval)}: "
            + ", ".join(
                cell.words(contrast, self._needed)
                + (f" ({_signed(by_task[task], cell.unit)})" if task in by_task else "")
                for task, cell in cells.items()
                if cell
            )
            for contrast, cells, interval, by_task in zip(
                self._test.contrasts, self._cells, self._intervals, self._by_task
            )
            if any(cells.values())
        ]
        if self.verdict is Verdict.OPEN:
            words.append(self._why_open())
        length = " or ".join(lengths) if len(lengths) <= 3 else "runs of several lengths"
        return Finding(
            self.verdict,
            f"{'; '.join(words)}. At {self.where}, {_numbers(seeds, 'seed')} after {length}: "
            f"{self._coverage()}.{more}",
            self._scale,
            self._coverage(),
            self._summary(),
        )

    def _over_tasks(self, cells: _ByTask, interval: bootstrap.Interval | None) -> str:
        """Returns the interval over tasks in words, with what a few outlying runs do not move."""
        if interval is None or self._test.share:
            return ""
        counted = self._counted(cells)
        words = f" {_signed(interval, counted[0].unit)}"
        if self._is_of_returns and all(len(cell.samples) == 2 for cell in counted):
            first, second = ([cell.samples[side] for cell in counted] for side in (0, 1))
            scores = [robust.interquartile_mean(side) for side in (first, second)]
            better = robust.probability_of_improvement(first, second)
            words += (
                f", interquartile means {scores[0]:.4g} - {scores[1]:.4g}, "
                f"a run of the first is better in {better:.0%} of pairs"
            )
        return words

    def _coverage(self) -> str:
        """Returns on how many tasks the verdict is."""
        num = len(self._tasks)
        of_task = [[cells[task] for cells in self._cells] for task in self._tasks]
        unlearnt = sum(all(cell and not cell.has_learnt for cell in cells) for cells in of_task)
        sure = 1 - CONFIDENCE
        if self._test.share:
            held = sum(hold < sure for hold, _ in self._p_values)
            failed = sum(fail < sure for _, fail in self._p_values)
            words = f"holds on {held} of {num} {_tasks(num)}" + f", does not on {failed}" * bool(
                failed
            )
        else:
            complete = sum(all(map(self._is_complete, cells)) for cells in of_task)
            if self.verdict is Verdict.FAILS:  # one pair is enough
                complete = num
            words = f"{complete} of {num} {_tasks(num)} together"
            if self._human is not None:
                words = f"median over {complete} of {num} games"
        if len(self._claimed.environments) > num:
            words += f", of {len(self._claimed.environments)} that the claim names"
        pairs, claimed = sum(any(cells.values()) for cells in self._cells), len(self._claimed.pairs)
        if pairs < claimed:
            words += f", {pairs} of {claimed} pairs"
        words += f"; on {unlearnt} none learns, which is no evidence" * bool(unlearnt)
        solved = self._test.leaves_solved_out and sum(
            all(cell and cell.is_solved for cell in cells) for cells in of_task
        )
        return words + f"; on {solved} all are at the maximum and leave no room" * bool(solved)

    def _summary(self) -> str:
        """Returns the numbers that the verdict hangs on."""
        if not self._test.share:
            return "; ".join(
                f"{contrast.name} {_signed(interval, _unit(cells))}"
                for contrast, cells, interval in zip(
                    self._test.contrasts, self._cells, self._intervals
                )
                if interval
            )
        found = [
            (*self._p(interval, cell.unit, cell.change(contrast)), contrast, cell, interval)
            for contrast, cells, by_task in zip(self._test.contrasts, self._cells, self._by_task)
            for task, interval in by_task.items()
            for cell in [cells[task]]
        ]
        if not found:
            return ""
        is_failure = self.verdict is Verdict.FAILS
        *_, contrast, cell, interval = (
            min(found, key=lambda one: one[1]) if is_failure else max(found, key=lambda one: one[0])
        )
        of = f" of {len(found)}" * (len(found) > 1)
        return (
            f"the {'surest' if is_failure else 'least sure'}{of}: {contrast.name} on "
            f"{task_title(cell.environment)} {_signed(interval, cell.unit)}"
        )

    def _why_open(self) -> str:
        if not self._tasks:
            return "no task of the claim at this scale"
        cells = [cell for cells in self._cells for cell in cells.values()]
        if not any(cells):
            return "nothing to compare"
        missing = sum(not self._is_complete(cell) for cell in cells)
        if missing and not (self._test.share and missing < len(cells)):
            return (
                f"{len(cells) - missing} of {len(cells)} comparisons have the {self._needed} seeds "
                "of each method"
            )
        there = [cell for cell in cells if cell]
        if sum(cell.has_learnt for cell in there) < MOST.least(len(there)):
            return "too short: on half of the tasks or more none learns"
        if any(cell.has_learnt and cell.is_learning for cell in there):
            return "not sure: some still learn, or the seeds differ too much"
        return "not sure with so many seeds"


def _interval(contrast: Contrast, cells: Sequence[TaskSamples]) -> bootstrap.Interval:
    over_tasks: Callable = np.median if cells[0].unit.is_human else np.mean
    return bootstrap.contrast(
        [cell.samples for cell in cells], tuple(contrast.weights.values()), over_tasks
    )


def _with_interval(cells: _ByTask) -> dict[str, TaskSamples]:
    return {task: cell for task, cell in cells.items() if cell and cell.has_interval}


def _unit(cells: _ByTask) -> Unit:
    return next(cell.unit for cell in cells.values() if cell and cell.has_learnt)


def _percent(part: float) -> str:
    return f"{part:.0%} of the scale" if part else "0"


def _signed(interval: bootstrap.Interval, unit: Unit) -> str:
    value, low, high = (
        f"{one:+,.0f}" if abs(one) >= 99.5 else f"{one:+.2g}"
        for one in (interval.value, interval.low, interval.high)
    )
    return f"{value}{unit.name} ({low} to {high})"


def _tasks(num: int) -> str:
    return "task" if num == 1 else "tasks"


def _numbers(found: Iterable[int], name: str) -> str:
    low, high = min(found), max(found)
    number = f"{high}" if low == high else f"{low} to {high}"
    return f"{number} {name}{'' if high == 1 else 's'}"
