"""Tests of claims by main effects of settings over tasks."""

from collections.abc import Callable, Mapping, Sequence
import dataclasses

import pandas

from common.experiments import effects
from common.experiments.claims import Basis, Evidence, Finding, NamedEffect, Verdict
from common.experiments.effects import MARGIN, Effect, Outcome
from common.experiments.lacking import lacking, planned_budget
from common.experiments.pairs import Expected
from common.experiments.paper import Experiment, Paper
from common.experiments.scales import PAPER
from common.reporting.budget import Budget

Pairs = Sequence[tuple[str, str]]


def mean_of(pairs: Pairs, less: Pairs = ()) -> dict[str, float]:
    """Returns the weights of the mean of differences between settings.

    Args:
      pairs: (first, second).
      less: pairs whose mean difference is subtracted.
    """
    weights: dict[str, float] = {}
    for sign, listed in ((1, pairs), (-1, less)):
        for first, second in listed:
            weights[first] = weights.get(first, 0.0) + sign / len(listed)
            weights[second] = weights.get(second, 0.0) - sign / len(listed)
    return {name: weight for name, weight in weights.items() if weight}


@dataclasses.dataclass(frozen=True)
class EffectPart:
    """An effect that a claim states.

    Attributes:
      name: short, for tables; "" if the claim has one part.
      weights: {setting: weight}, see `mean_of`.
      expected: the claimed relation.
      is_uniform: whether it must surely be behind on no task.
    """

    name: str
    weights: Mapping[str, float]
    expected: Expected = Expected.AHEAD
    is_uniform: bool = False

    def verdict(self, effect: Effect, by_task: Sequence[Effect]) -> Verdict:
        """Returns the verdict on the part.

        Args:
          effect: over all tasks.
          by_task: on each task, if the part is uniform. Each may fail the claim, so their p-values
            are multiplied by their number (Bonferroni).
        """
        sure = (1 - effects.CONFIDENCE) / max(1, len(by_task))
        if any(one.estimate < 0 and one.p < sure for one in by_task):
            return Verdict.FAILS
        low, high = {
            Expected.AHEAD: (effect.outcome is Outcome.AHEAD, effect.outcome is Outcome.LEVEL),
            Expected.NOT_BEHIND: (effect.low > -MARGIN, effect.high < -MARGIN),
            Expected.LEVEL: (
                effect.outcome is Outcome.LEVEL,
                effect.low > MARGIN or effect.high < -MARGIN,
            ),
        }[self.expected]
        if low:
            return Verdict.HOLDS
        is_behind = self.expected is Expected.AHEAD and effect.outcome is Outcome.BEHIND
        return Verdict.FAILS if high or is_behind else Verdict.OPEN


@dataclasses.dataclass(frozen=True)
class MainEffects:
    """A test of main effects: all of its parts must hold, and one that does not is enough.

    Attributes:
      parts: the effects.
      environments: the tasks; the experiment's if empty.
      measure: of a run.
      ranges: {task: the return that counts as 1}, for environments of ours, whose returns have a
        known range.
    """

    parts: tuple[EffectPart, ...]
    environments: tuple[str, ...] = ()
    measure: Callable[[pandas.DataFrame], float] = effects.late_mean
    ranges: Mapping[str, float] = dataclasses.field(default_factory=dict)

    basis = Basis.RUNS

    @property
    def settings(self) -> tuple[str, ...]:
        """The settings that the test needs."""
        return tuple(dict.fromkeys(name for part in self.parts for name in part.weights))

    @property
    def rule(self) -> str:
        """Implements `claims.Test`."""
        words = [
            f"{part.name or 'effect'} {part.expected.name.lower().replace('_', ' ')}"
            + ", on no task surely behind" * part.is_uniform
            for part in self.parts
        ]
        return f"main effect over all tasks of {self.measure.__name__}: {'; '.join(words)}"

    def tasks(self, experiment: Experiment, scale: str) -> tuple[str, ...]:
        """Returns the claim's tasks at a scale: those that the experiment has for its settings."""
        runs = experiment.at(scale).runs
        there = dict.fromkeys(run.environment for run in runs if run.setting in self.settings)
        return tuple(one for one in there if one in (self.environments or there))

    def find(self, paper: Paper, experiment: Experiment, evidence: Evidence) -> Finding:
        """Implements `claims.Test`."""
        found = [self._at(paper, experiment, evidence, scale) for scale in evidence.scales(paper)]
        found = [one for one in found if one.effects]
        decided = [one for one in found if one.verdict is not Verdict.OPEN]

        def needed_at(scale: str) -> tuple[Sequence[str], Sequence[str]]:
            can_decide = _can_decide(experiment, scale, planned_budget(paper, experiment, scale))
            return self.settings, self.tasks(experiment, scale) if can_decide else ()

        if decided:
            return decided[0]
        needs = lacking(paper, experiment, evidence, needed_at)
        if not found:
            return Finding(Verdict.OPEN, needs)
        seeds = [one.effect.seeds_needed for one in found[0].effects]
        power = f"Power: {max(filter(None, seeds), default='-')} seeds."
        return dataclasses.replace(
            found[0],
            evidence=" ".join(filter(None, (found[0].evidence, power, needs))),
            is_complete=not needs,
        )

    def _at(self, paper: Paper, experiment: Experiment, evidence: Evidence, scale: str) -> Finding:
        tasks = self.tasks(experiment, scale)
        listed = scale in (PAPER.name, *experiment.substitutes)
        none = Finding(Verdict.OPEN, "")
        if not tasks or not listed:
            return none
        budget = planned_budget(paper, experiment, scale)
        if not _can_decide(experiment, scale, budget):
            return none
        frame = evidence.frame(paper, scale)
        frame = frame[frame["budget"] == str(budget)]
        scales = _scales(frame, self.settings, tasks) | {
            task: self.ranges[task] for task in tasks if task in self.ranges
        }
        named, verdicts = [], []
        for part in self.parts:
            effect = effects.main_effect(frame, part.weights, scales, self.measure)
            if effect is None:
                return none
            by_task = [
                effects.main_effect(frame, part.weights, {task: scales[task]}, self.measure)
                for task in tasks
                if part.is_uniform
            ]
            named.append(NamedEffect(part.name, effect))
            verdicts.append(part.verdict(effect, [one for one in by_task if one is not None]))
        verdict = Verdict.OPEN
        if Verdict.FAILS in verdicts:
            verdict = Verdict.FAILS
        elif all(one is Verdict.HOLDS for one in verdicts):
            verdict = Verdict.HOLDS
        numbers = "; ".join(map(str, named))
        total = len(dict.fromkeys(self.environments or experiment.environments))
        coverage = f"{len(tasks)} of {total} tasks, {named[0].effect.seeds} seeds"
        evidence_words = f"{numbers}. {coverage}."
        return Finding(verdict, evidence_words, scale, coverage, numbers, effects=tuple(named))


def _can_decide(experiment: Experiment, scale: str, budget: Budget) -> bool:
    """Returns whether a scale's runs can: those limited in minutes depend on the machine."""
    is_of_kind = scale == PAPER.name or budget.minutes is None
    return is_of_kind and experiment.substitute(scale).is_evidence


def _scales(
    frame: pandas.DataFrame, settings: Sequence[str], tasks: Sequence[str]
) -> dict[str, float]:
    """Returns what counts as 1 on each task: 1000 points, else the settings' largest mean."""
    found = {}
    for task in tasks:
        if task.startswith("control:"):
            found[task] = 1000.0
        else:
            runs = frame[(frame["task"] == task) & frame["setting"].isin(settings)]
            means = runs.groupby("setting")["value"].mean().abs()
            found[task] = float(means.max()) if len(means) and means.max() else 1.0
    return found
