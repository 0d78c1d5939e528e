"""Tests of claims that one method is better than, as good as, or no worse than another."""

from collections.abc import Sequence
import dataclasses
import enum
import math

import pandas

from common.experiments import holm, pairs, selection
from common.experiments.bootstrap import CONFIDENCE
from common.experiments.captions import capital
from common.experiments.claims import Basis, Evidence, Finding, Verdict
from common.experiments.pairs import Measure, Pair
from common.experiments.paper import Experiment, Paper
from common.experiments.runs import KeptRun
from common.experiments.scales import PAPER
from common.experiments.shares import Share
from common.reporting.budget import Budget

_INFINITE = math.inf


class Expected(enum.Enum):
    """The claimed relation of a pair: an interval for (first - second), in units of the margin."""

    AHEAD = (0, _INFINITE)
    CLEARLY_AHEAD = (1, _INFINITE)
    SLIGHTLY_AHEAD = (0, 2)
    LEVEL = (-1, 1)
    NOT_BEHIND = (-1, _INFINITE)

    @property
    def is_lead(self) -> bool:
        """True if it is a lead; without one, any two methods agree before they learn."""
        return self in (Expected.AHEAD, Expected.CLEARLY_AHEAD)


def largest_fall(values: pandas.Series) -> float:
    """Returns how far a run falls at most below its best value before: its instability."""
    return float((values.cummax() - values).max())


def throughout(values: pandas.Series) -> float:
    """Returns the mean over a whole run, which is larger the sooner the run is good."""
    return float(values.mean())


@dataclasses.dataclass(frozen=True)
class Comparison:
    """A test of pairs of settings, over tasks and seeds, at the time that both reach on a task.

    The claim holds if all pairs were tested and hold; it fails if one of them fails. Only runs of
    one scale and one budget are compared, and only tasks that one of both learns. At the paper's
    scale a run that is longer than the experiment counts up to the experiment's end.

    Attributes:
      pairs: (first, second).
      expected: their claimed relation.
      environments: the tasks; the experiment's if empty.
      measure: of a run.
      measured: the measure in words.
      share: the part of the tasks on which it must hold, each tested by itself; None: it must hold
        in their mean.
      margin: a part of the scale.
    """

    pairs: tuple[tuple[str, str], ...]
    expected: Expected = Expected.AHEAD
    environments: tuple[str, ...] = ()
    measure: Measure = selection.final
    measured: str = "final returns"
    share: Share | None = None
    margin: float = pairs.MARGIN

    basis = Basis.RUNS

    @property
    def rule(self) -> str:
        """Implements `claims.Test`."""
        over = f", on {self.share.words}" if self.share else ", mean over tasks"
        late = (
            ", and both methods have levelled off"
            if self.expected.is_lead
            else "; either only once both methods have levelled off"
        )
        words = (
            f"difference of {self.measured}{over}: holds if it surely lies {self._range()}, "
            f"does not if it surely lies elsewhere{late}"
        )
        if len(self.pairs) > 1:
            words += "; all pairs must be tested and hold, one that does not is enough"
        if self.share or len(self.pairs) > 1:
            tests = "pairs and tasks" if self.share else "pairs"
            words += f"; p-values are corrected by Holm's method for all {tests} that were tested"
        return words

    def _range(self) -> str:
        low, high = (
            f"{abs(bound) * self.margin:.0%} of the scale" if bound else "0"
            for bound in self.expected.value
        )
        return {
            Expected.LEVEL: f"within {high}",
            Expected.NOT_BEHIND: f"above minus {low}",
            Expected.SLIGHTLY_AHEAD: f"between {low} and {high}",
        }.get(self.expected, f"above {low}")

    def find(self, paper: Paper, experiment: Experiment | None, evidence: Evidence) -> Finding:
        """Implements `claims.Test`."""
        found = None
        for scale in evidence.scales(paper):
            compared = self._at_scale(paper, experiment, evidence, scale)
            if compared.tested:
                found = compared
                break
            if found is None and (compared.shown or compared.unequal):
                found = compared
        if found is None:
            settings = dict.fromkeys(setting for pair in self.pairs for setting in pair)
            return Finding(Verdict.OPEN, nothing(paper, experiment, settings))
        return self._conclude(experiment, found)

    def _at_scale(self, paper, experiment, evidence, scale) -> "_Compared":
        """Compares the runs of the budget with which most is tested; of several, the largest."""
        settings = {setting for pair in self.pairs for setting in pair}
        environments = self.environments or experiment.environments
        runs = [
            run
            for run in evidence.kept.of(paper.name, scale)
            if run.has_ended and run.setting in settings and run.environment in environments
        ]
        is_papers = scale == PAPER.name
        budgets = [
            experiment.budget if is_papers and run.budget.covers(experiment.budget) else run.budget
            for run in runs
        ]
        found = [
            self._compare(experiment, evidence, scale, budget, list(zip(runs, budgets)))
            for budget in dict.fromkeys(budgets)
        ]
        return max(found, key=lambda one: one.size, default=_Compared(scale, Budget(), 0, ()))

    def _compare(self, experiment, evidence, scale, budget, budgeted) -> "_Compared":
        environments = self.environments or experiment.environments
        of_budget = [run for run, its in budgeted if its == budget]
        lines = pairs.lines_of(
            of_budget, selection.clock(experiment), experiment.y, experiment.returns
        )
        is_atari = any(task.startswith("atari:") for task in environments)
        human = evidence.reported.atari_scores() if is_atari else None
        groups = [[task] for task in environments] if self.share else [environments]
        return _Compared(
            scale,
            budget,
            self._unequal(budget, budgeted),
            tuple(
                tuple(
                    pairs.compare(*pair, tasks, lines, experiment.y, self.measure, human)
                    for tasks in groups
                )
                for pair in self.pairs
            ),
        )

    def _unequal(self, budget: Budget, budgeted: Sequence[tuple[KeptRun, Budget]]) -> int:
        """Counts runs of other budgets, of tasks that both settings of a pair were run on."""
        there = {(run.setting, run.environment) for run, _ in budgeted}
        return sum(
            its != budget
            and any(
                run.setting in pair and all((one, run.environment) in there for one in pair)
                for pair in self.pairs
            )
            for run, its in budgeted
        )

    def _conclude(self, experiment: Experiment, compared: "_Compared") -> Finding:
        environments = self.environments or experiment.environments
        tested = compared.tested
        sides = zip(*map(self._p_values, tested))
        corrected = list(zip(*map(holm.corrected, sides)))
        answers = {id(one): self._answer(one, *both) for one, both in zip(tested, corrected)}
        p_values = {
            id(one): f" (p = {min(both):.2g} after Holm)" for one, both in zip(tested, corrected)
        }
        num_tests = len(environments) if self.share else 1
        needed = self.share.least(num_tests) if self.share else 1
        x, by_pair, words = selection.clock(experiment), [], []
        for group in compared.by_pair:
            found = [answers.get(id(one)) for one in group]
            held, failed = found.count(True), found.count(False)
            by_pair.append(
                True if held >= needed else False if failed > num_tests - needed else None
            )
            shown = [one for one in group if one in compared.shown]
            # A lone test needs no p-value, since it has intervals.
            words += [
                one.words(x) + (p_values.get(id(one), "") if len(tested) > 1 else "")
                for one in shown
            ]
            if shown and self.share:
                words.append(f"holds on {held}, does not on {failed} of {num_tests} tasks")
        verdict = (
            Verdict.FAILS if False in by_pair else Verdict.HOLDS if all(by_pair) else Verdict.OPEN
        )
        if verdict is Verdict.OPEN:
            words.append(self._why_open(compared, answers))
        tasks = {task.environment for one in compared.shown for task in one.tasks or one.unlearnt}
        coverage = f"{len(tasks)} of {len(environments)} tasks"
        if len(self.pairs) > 1:
            there = {(one.first, one.second) for one in compared.shown}
            coverage += f", {len(there)} of {len(self.pairs)} pairs"
        return Finding(
            verdict,
            f"{'; '.join(words)}. {selection.scale_in_words(compared.scale)}, "
            f"{compared.budget} a run: {coverage}{compared.left_out}.",
        )

    def _p_values(self, pair: Pair) -> tuple[float, float]:
        """Returns the p-values for the difference to lie within the expected range, and outside."""
        low, high = (
            bound * self.margin * pair.unit.largest if bound else 0.0
            for bound in self.expected.value
        )
        one = pair.interval
        return (max(one.p_above(low), one.p_below(high)), min(one.p_below(low), one.p_above(high)))

    def _answer(self, pair: Pair, within: float, outside: float) -> bool | None:
        """Returns whether a pair with these p-values holds; None: not sure."""
        is_late = not pair.is_learning
        if within < 1 - CONFIDENCE and (is_late or self.expected.is_lead):
            return True
        return False if outside < 1 - CONFIDENCE and is_late else None

    def _why_open(self, compared: "_Compared", answers: dict[int, bool | None]) -> str:
        if not compared.shown:
            return "Runs of different budgets are not compared"
        if not answers and any(one.unlearnt for one in compared.shown):
            return "too short: a difference counts where one of them learns, with two seeds of each"
        if not answers:
            return "too few seeds: two of each are needed"
        if None not in answers.values():
            missing = sum(not any(one.interval for one in group) for group in compared.by_pair)
            return (
                f"{missing} of {len(self.pairs)} pairs were not tested"
                if missing
                else "too few tasks were tested"
            )
        if any(answers[id(pair)] is None and pair.is_learning for pair in compared.tested):
            return "too short: one of them is still learning"
        return "too few seeds to be sure"


@dataclasses.dataclass(frozen=True)
class _Compared:
    """The comparison of runs of one scale and one budget.

    Attributes:
      scale: of the runs.
      budget: of the runs.
      unequal: number of runs of other budgets, which are left out.
      by_pair: the comparisons of each pair.
    """

    scale: str
    budget: Budget
    unequal: int
    by_pair: tuple[tuple[Pair, ...], ...]

    @property
    def tested(self) -> list[Pair]:
        return [one for group in self.by_pair for one in group if one.interval]

    @property
    def shown(self) -> list[Pair]:
        """The tested pairs; if there are none, all with tasks."""
        return self.tested or [
            one for group in self.by_pair for one in group if one.tasks or one.unlearnt
        ]

    @property
    def left_out(self) -> str:
        """The number of runs of other budgets, in words."""
        runs = "run of another budget is" if self.unequal == 1 else "runs of other budgets are"
        return f"; {self.unequal} {runs} left out" if self.unequal else ""

    @property
    def size(self) -> tuple:
        """The amount of evidence, to compare by."""
        return (
            sum(len(one.tasks) for one in self.tested),
            len(self.shown),
            *(limit or 0 for limit in dataclasses.astuple(self.budget)),
        )


def nothing(paper: Paper, experiment: Experiment, settings: Sequence[str] = ()) -> str:
    """Returns the evidence of an experiment without runs: the commands that make them.

    Those of the needed `settings` that it lacks are in other experiments of the paper.
    """
    obstacle = paper.obstacle(experiment)
    if obstacle:
        return f"{capital(obstacle)}."
    needed = [experiment]
    for setting in settings:
        if not any(setting in one.settings for one in needed):
            needed += [one for one in paper.experiments if setting in one.settings][:1]
    commands = []
    for one in needed:
        kind, _, number = one.name.partition(" ")
        commands.append(f"python -m binaries.experiment --paper={paper.name} --{kind}={number}")
    return f"No runs: {'; '.join(commands)}."
