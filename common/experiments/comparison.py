"""Claims that one method is better than, as good as, or no worse than another."""

from collections.abc import Sequence
import dataclasses
import enum

import pandas

from common.experiments import pairs, selection
from common.experiments.claims import Evidence, Finding, Verdict
from common.experiments.pairs import Measure, Pair
from common.experiments.registry import Experiment, Paper

_MARGIN = f"a margin of {pairs.MARGIN:.0%} of the scale"


class Expected(enum.StrEnum):
    """What the first method of a pair is, beside the second."""

    AHEAD = "ahead"
    LEVEL = "level"
    NOT_BEHIND = "not behind"


_RULES = {
    Expected.AHEAD: "holds if both lie above 0, does not if both lie below",
    Expected.LEVEL: f"holds if both lie within {_MARGIN}, does not if both lie outside and both "
                    "methods have levelled off",
    Expected.NOT_BEHIND: f"holds if both lie above minus {_MARGIN}, does not if both lie below and "
                         "both methods have levelled off",
}


def largest_fall(values: pandas.Series) -> float:
    """How far a run falls at most below its best value before: its instability."""
    return float((values.cummax() - values).max())


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Compares settings in pairs, over tasks and seeds, at the time that all runs of a task reach.

    All pairs must be tested and hold, and one that does not is enough that the claim does not.

    pairs: (first, second). expected: of the first. environments: the experiment's if empty.
    measure: of a run. measured: what that is, in words.
    """

    pairs: tuple[tuple[str, str], ...]
    expected: Expected = Expected.AHEAD
    environments: tuple[str, ...] = ()
    measure: Measure = selection.final
    measured: str = "final returns"

    @property
    def rule(self) -> str:
        """See `claims.Test`."""
        several = "; all pairs must be tested and hold, one that does not is enough"
        return (f"95 % intervals (bootstrap and Student) of the difference of {self.measured}: "
                f"{_RULES[self.expected]}" + several * (len(self.pairs) > 1))

    def find(self, paper: Paper, experiment: Experiment | None, evidence: Evidence) -> Finding:
        """See `claims.Test`."""
        found = None
        scales = selection.scales_of(paper, evidence.kept)
        for scale in [evidence.scale] if evidence.scale else scales:
            compared = self._compare(paper, experiment, evidence, scale)
            if found is None and any(pair.tasks for pair in compared):
                found = scale, compared
            if any(pair.interval for pair in compared):
                found = scale, compared
                break
        if found is None:
            return Finding(Verdict.OPEN, nothing(paper, experiment))
        return self._conclude(experiment, *found)

    def _compare(self, paper, experiment, evidence, scale) -> list[Pair]:
        x = selection.clock(experiment)
        environments = self.environments or experiment.environments
        settings = {setting for pair in self.pairs for setting in pair}
        runs = [run for run in evidence.kept.of(paper.name, scale)
                if run.setting in settings and run.environment in environments]
        lines = pairs.lines_of(runs, x, experiment.y, experiment.returns)
        return [pairs.compare(*pair, environments, lines, experiment.y, self.measure)
                for pair in self.pairs]

    def _conclude(self, experiment: Experiment, scale: str, compared: Sequence[Pair]) -> Finding:
        tested = [pair for pair in compared if pair.interval]
        shown = tested or [pair for pair in compared if pair.tasks]
        answers = [self._answer(pair) for pair in tested]
        verdict = Verdict.OPEN
        if False in answers:
            verdict = Verdict.FAILS
        elif len(tested) == len(self.pairs) and all(answers):
            verdict = Verdict.HOLDS
        tasks = {task.environment for pair in shown for task in pair.tasks}
        words = [pair.words(selection.clock(experiment)) for pair in shown]
        if verdict is Verdict.OPEN:
            words += self._why_open(tested)
        coverage = f"{len(tasks)} of {len(self.environments or experiment.environments)} tasks"
        if len(self.pairs) > 1:
            coverage += f", {len(shown)} of {len(self.pairs)} pairs"
        return Finding(verdict, f'{"; ".join(words)}. Scale {scale}: {coverage}.')

    def _answer(self, pair: Pair) -> bool | None:
        interval, margin = pair.interval, pair.unit.margin
        if self.expected is Expected.AHEAD:
            return True if interval.is_above(0) else False if interval.is_below(0) else None
        is_behind = interval.is_below(-margin)
        if self.expected is Expected.LEVEL:
            holds = interval.is_above(-margin) and interval.is_below(margin)
            fails = is_behind or interval.is_above(margin)
        else:
            holds, fails = interval.is_above(-margin), is_behind
        return True if holds else False if fails and not pair.is_learning else None

    def _why_open(self, tested: Sequence[Pair]) -> list[str]:
        if not tested:
            return ["too few seeds: two of each are needed"]
        if all(map(self._answer, tested)):
            return [f"{len(self.pairs) - len(tested)} of {len(self.pairs)} pairs were not tested"]
        if self.expected is not Expected.AHEAD and any(pair.is_learning for pair in tested):
            return ["too short: one of them is still learning"]
        return ["too few seeds to be sure"]


def nothing(paper: Paper, experiment: Experiment) -> str:
    """What to say of an experiment without runs."""
    obstacle = paper.obstacle(experiment)
    if obstacle:
        return f"{obstacle[0].upper()}{obstacle[1:]}."
    kind, _, number = experiment.name.partition(" ")
    return f"No runs: python -m binaries.experiment --paper={paper.name} --{kind}={number}."
