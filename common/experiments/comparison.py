"""Tests of claims that one method is better than, as good as, or no worse than another."""

from collections.abc import Callable, Iterable, Mapping, Sequence
import dataclasses

from common.experiments import contrasts, selection
from common.experiments.bootstrap import CONFIDENCE
from common.experiments.claims import Basis, Evidence, Finding, Verdict
from common.experiments.contrasts import Contrast, Measure, TaskSamples
from common.experiments.lacking import lacking, planned_budget, seeds_of
from common.experiments.pairs import Expected, Pair, Relation
from common.experiments.paper import EPISODE_RETURN, Experiment, Paper
from common.experiments.runs import KeptRun
from common.experiments.scales import PAPER
from common.experiments.shares import MOST, Share, partial_conjunction
from common.reporting.budget import Budget

_TIME = "wall_seconds"


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
    def relation(self) -> Relation:
        """The claimed relation of each pair."""
        return Relation(self.expected, self.margin, bool(self.share))

    @property
    def rule(self) -> str:
        """Implements `claims.Test`."""
        words = f"{self.contrasts[0].words} of {self.measured}"
        words += f", on {self.share.words}" if self.share else ", over all tasks together"
        words += self.relation.rule
        if len(self.pairs) > 1:
            also = " on a task" * bool(self.share)
            words += f"; all pairs must hold{also}, one that does not is enough"
        return words

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
        return dataclasses.replace(best.finding(f" {needs}" * bool(needs)), is_complete=not needs)


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
        max_budget = planned_budget(paper, experiment, scale) if is_declared else Budget()

        self._pairs = [
            Pair(
                contrast,
                {
                    task: contrasts.compare(
                        task,
                        [runs.get((setting, task), []) for setting in contrast.weights],
                        experiment,
                        max_budget,
                        self._needed,
                        test.clock,
                        test.measure,
                        evidence,
                        self._human,
                    )
                    for task in self._tasks
                },
                test.relation,
                self._needed,
            )
            for contrast in test.contrasts
        ]
        self._is_of_returns = experiment.y == EPISODE_RETURN and test.measure is selection.final
        self.verdict = self._decide()
        complete = sum(pair.is_complete(task) for pair in self._pairs for task in self._tasks)
        self.size = (complete, sum(len(pair.there) for pair in self._pairs))

    def _decide(self) -> Verdict:
        # On a task all pairs must hold (the largest p-value), and one that does not is enough.
        self._p_values = [
            (
                max(hold for hold, _ in of_task),
                partial_conjunction([fail for _, fail in of_task], 1),
            )
            for of_task in zip(*(pair.p_values for pair in self._pairs))
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

    def finding(self, more: str) -> Finding:
        """Returns the verdict with its evidence, which ends with `more`."""
        shown = [cell for pair in self._pairs for cell in pair.there]
        lengths = list(dict.fromkeys(cell.length for cell in shown))
        seeds = [cell.seeds for cell in shown]
        words = [pair.words(self._is_of_returns) for pair in self._pairs if pair.there]
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

    def _coverage(self) -> str:
        """Returns on how many tasks the verdict is."""
        num = len(self._tasks)
        if self._test.share:
            sure = 1 - CONFIDENCE
            held = sum(hold < sure for hold, _ in self._p_values)
            failed = sum(fail < sure for _, fail in self._p_values)
            words = f"holds on {held} of {num} {_tasks(num)}" + f", does not on {failed}" * bool(
                failed
            )
        else:
            complete = sum(
                all(pair.is_complete(task) for pair in self._pairs) for task in self._tasks
            )
            if self.verdict is Verdict.FAILS:  # one pair is enough
                complete = num
            words = f"{complete} of {num} {_tasks(num)} together"
            if self._human is not None:
                words = f"median over {complete} of {num} games"
        if len(self._claimed.environments) > num:
            words += f", of {len(self._claimed.environments)} that the claim names"
        pairs, claimed = sum(bool(pair.there) for pair in self._pairs), len(self._claimed.pairs)
        if pairs < claimed:
            words += f", {pairs} of {claimed} pairs"
        unlearnt = self._count(lambda cell: not cell.has_learnt)
        words += f"; on {unlearnt} none learns, which is no evidence" * bool(unlearnt)
        solved = self._test.relation.leaves_solved_out and self._count(lambda cell: cell.is_solved)
        return words + f"; on {solved} all are at the maximum and leave no room" * bool(solved)

    def _count(self, is_so: Callable[[TaskSamples], bool]) -> int:
        """Returns the number of tasks where something is so of each pair."""
        of_task = ([pair.cells[task] for pair in self._pairs] for task in self._tasks)
        return sum(all(cell and is_so(cell) for cell in cells) for cells in of_task)

    def _summary(self) -> str:
        """Returns the numbers that the verdict hangs on."""
        found = [one for pair in self._pairs for one in pair.numbers()]
        if not self._test.share or not found:
            return "; ".join(words for _, words in found)
        is_failure = self.verdict is Verdict.FAILS
        _, words = (
            min(found, key=lambda one: one[0][1])
            if is_failure
            else max(found, key=lambda one: one[0][0])
        )
        of = f" of {len(found)}" * (len(found) > 1)
        return f"the {'surest' if is_failure else 'least sure'}{of}: {words}"

    def _why_open(self) -> str:
        if not self._tasks:
            return "no task of the claim at this scale"
        there = [cell for pair in self._pairs for cell in pair.there]
        if not there:
            return "nothing to compare"
        complete, num = self.size[0], len(self._pairs) * len(self._tasks)
        if complete < num and not (self._test.share and complete):
            return f"{complete} of {num} comparisons have the {self._needed} seeds of each method"
        if sum(cell.has_learnt for cell in there) < MOST.least(len(there)):
            return "too short: on half of the tasks or more none learns"
        if any(cell.has_learnt and cell.is_learning for cell in there):
            return "not sure: some still learn, or the seeds differ too much"
        return "not sure with so many seeds"


def _tasks(num: int) -> str:
    return "task" if num == 1 else "tasks"


def _numbers(found: Iterable[int], name: str) -> str:
    low, high = min(found), max(found)
    number = f"{high}" if low == high else f"{low} to {high}"
    return f"{number} {name}{'' if high == 1 else 's'}"
