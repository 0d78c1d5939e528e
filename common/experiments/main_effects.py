"""Tests of claims by main effects of settings over tasks."""

from collections.abc import Mapping, Sequence
import dataclasses
import enum
import math
from typing import Any

import numpy as np
import pandas

from common.experiments import effects
from common.experiments.claims import Basis, Evidence, Finding, NamedEffect, Verdict
from common.experiments.effects import MARGIN, Effect, Measure, Outcome
from common.experiments.lacking import lacking, planned_budget
from common.experiments.paper import EPISODE_RETURN, Experiment, Paper
from common.experiments.scales import PAPER

Pairs = Sequence[tuple[str, str]]
Weights = dict[str, float]
"""{setting: weight}, which sum to 0."""
Bounds = tuple[float, float]
"""Between which the effect lies by the claim, in parts of the scale of a task."""

AHEAD: Bounds = (0.0, math.inf)
NOT_BEHIND: Bounds = (-MARGIN, math.inf)
LEVEL: Bounds = (-MARGIN, MARGIN)


class Over(enum.Enum):
    """The tasks on which a part of a claim must hold; the value is for its rule."""

    MEAN = "in the mean over tasks"
    UNIFORM = "in the mean over tasks, and on no task surely not"
    SOME = "on one task or more"


def mean_of(pairs: Pairs, less: Pairs = ()) -> Weights:
    """Returns the weights of the mean of differences between settings.

    Args:
      pairs: (first, second).
      less: pairs whose mean difference is subtracted.
    """
    weights: Weights = {}
    for sign, listed in ((1, pairs), (-1, less)):
        for first, second in listed:
            weights[first] = weights.get(first, 0.0) + sign / len(listed)
            weights[second] = weights.get(second, 0.0) - sign / len(listed)
    return {name: weight for name, weight in weights.items() if weight}


def slope(sizes: Mapping[str, float]) -> Weights:
    """Returns the weights of the slope, by least squares, over the decimal logarithm of a size.

    Args:
      sizes: {setting: size}.
    """
    position = np.log10(list(sizes.values()))
    position -= position.mean()
    return dict(zip(sizes, (position / np.square(position).sum()).tolist()))


def trend(sizes: Mapping[str, float], less: Mapping[str, float] | None = None) -> Weights:
    """Returns the weights of the gain from the smallest to the largest size, see `slope`.

    Args:
      sizes: {setting: size}.
      less: of other settings, whose gain is subtracted: an interaction.
    """
    reach = math.log10(max(sizes.values()) / min(sizes.values()))
    weights = {name: reach * weight for name, weight in slope(sizes).items()}
    return weights | {name: -one for name, one in (trend(less) if less else {}).items()}


@dataclasses.dataclass(frozen=True)
class EffectPart:
    """An effect that a claim states.

    Attributes:
      name: short, for tables; "" if the claim has one part.
      weights: see `mean_of` and `trend`.
      bounds: between which the effect lies by the claim.
      over: the tasks on which it must.
    """

    name: str
    weights: Mapping[str, float]
    bounds: Bounds = AHEAD
    over: Over = Over.MEAN

    def verdict(self, effect: Effect, by_task: Sequence[Effect], num_parts: int = 1) -> Verdict:
        """Returns the verdict on the part.

        All parts of a claim must hold, for which each one's confidence is enough. One that does not
        is enough to fail, and one task may be enough to hold or to fail, so there the risk is
        divided by the number of parts and tasks (Bonferroni).

        Args:
          effect: over all tasks.
          by_task: on each task; none if `over` is the mean.
          num_parts: of the claim.
        """
        risk = 1 - effect.confidence
        of_one = 1 - risk / max(1, len(by_task))
        of_part = 1 - risk / num_parts
        if self.over is Over.SOME:
            if any(self._holds(one, of_one) for one in by_task):
                return Verdict.HOLDS
            fails = all(self._fails(one, of_part) for one in by_task)
            return Verdict.FAILS if fails else Verdict.OPEN
        of_one_part = 1 - risk / num_parts / max(1, len(by_task))
        if self.over is Over.UNIFORM and any(
            one.interval(of_one_part)[1] < self.bounds[0] for one in by_task
        ):
            return Verdict.FAILS
        if self._holds(effect, effect.confidence):
            return Verdict.HOLDS
        return Verdict.FAILS if self._fails(effect, of_part) else Verdict.OPEN

    def _holds(self, effect: Effect, confidence: float) -> bool:
        low, high = effect.interval(confidence)
        is_within = self.bounds[0] < low and high < self.bounds[1]
        # Methods that have not learnt are close, too.
        is_level_enough = self.bounds[0] >= 0 or low > 0 or effect.has_levelled
        return is_within and is_level_enough

    def _fails(self, effect: Effect, confidence: float) -> bool:
        low, high = effect.interval(confidence)
        is_level = effect.outcome is Outcome.LEVEL and self.bounds[0] >= 0
        return high < self.bounds[0] or low > self.bounds[1] or is_level

    @property
    def rule(self) -> str:
        """The part in words."""
        low, high = (f"{100 * one:+g} %" for one in self.bounds)
        words = {AHEAD: "ahead", NOT_BEHIND: "not behind", LEVEL: "level"}.get(
            self.bounds, f"above {low}" if math.isinf(self.bounds[1]) else f"from {low} to {high}"
        )
        return f"{self.name or 'effect'} {words} {self.over.value}"


def grouped(
    pairs: Pairs, by: int, bounds: Bounds = AHEAD, over: Over = Over.MEAN, suffix: str = ""
) -> tuple[EffectPart, ...]:
    """Returns a part for each first or second setting of the pairs: the mean of those it is in.

    Args:
      pairs: (first, second).
      by: 0 for the first, 1 for the second.
      bounds: of each part.
      over: of each part.
      suffix: of the settings' names, left out in those of the parts.
    """
    return tuple(
        EffectPart(
            name.removesuffix(suffix),
            mean_of([pair for pair in pairs if pair[by] == name]),
            bounds,
            over,
        )
        for name in dict.fromkeys(pair[by] for pair in pairs)
    )


def each(
    pairs: Pairs, bounds: Bounds = AHEAD, over: Over = Over.MEAN, suffix: str = ""
) -> tuple[EffectPart, ...]:
    """Returns the parts of a claim of all pairs: their mean lies within bounds, none is behind.

    Args:
      pairs: (first, second), which have the first or the second in common.
      bounds: of the mean.
      over: of each part.
      suffix: of the settings' names, left out in those of the parts.
    """
    by = int(len({first for first, _ in pairs}) == 1)
    mean = EffectPart("mean", mean_of(pairs), bounds, over)
    return mean, *grouped(pairs, by, NOT_BEHIND, over, suffix)


@dataclasses.dataclass(frozen=True)
class MainEffects:
    """A test of main effects: all of its parts must hold, and one that does not is enough.

    Attributes:
      parts: the effects.
      environments: the tasks; the experiment's if empty.
      measure: of a run.
      unit: what counts as 1 on each task; None: as docs/verdicts.md says.
      quantity: a column of learner.csv in place of the experiment's; "": the experiment's.
      clock: column along which runs are compared up to where the shortest ends; "": that of their
        limit, which is the same for all.
      at: fields to replace at a scale, by its name; None: its runs cannot decide the claim.
    """

    parts: tuple[EffectPart, ...]
    environments: tuple[str, ...] = ()
    measure: Measure = effects.late_mean
    unit: float | None = None
    quantity: str = ""
    clock: str = ""
    at: Mapping[str, Mapping[str, object] | None] = dataclasses.field(default_factory=dict)

    basis = Basis.RUNS

    def at_scale(self, scale: str) -> "MainEffects":
        """Returns the test with what `at` replaces at a scale."""
        return dataclasses.replace(self, **{**(self.at.get(scale) or {}), "at": {}})

    @property
    def settings(self) -> tuple[str, ...]:
        """The settings that the test needs."""
        return tuple(dict.fromkeys(name for part in self.parts for name in part.weights))

    @property
    def rule(self) -> str:
        """Implements `claims.Test`."""
        words = "; ".join(part.rule for part in self.parts)
        return f"main effect, {self.measure.__name__.replace('_', ' ')}: {words}"

    def tasks(self, experiment: Experiment, scale: str) -> tuple[str, ...]:
        """Returns the claim's tasks at a scale: those that the experiment has for its settings."""
        runs = experiment.at(scale).runs
        there = dict.fromkeys(run.environment for run in runs if run.setting in self.settings)
        return tuple(one for one in there if one in (self.environments or there))

    def find(self, paper: Paper, experiment: Experiment, evidence: Evidence) -> Finding:
        """Implements `claims.Test`."""

        def needed_at(scale: str) -> tuple[Sequence[str], Sequence[str]]:
            if not self._can_decide(paper, experiment, scale):
                return (), ()
            test = self.at_scale(scale)
            return test.settings, test.tasks(experiment, scale)

        listed = set(self.environments or experiment.environments)
        found = [
            self.at_scale(scale)._at(paper, experiment, evidence, scale, listed)
            for scale in evidence.scales(paper)
            if self._can_decide(paper, experiment, scale)
        ]
        found = [one for one in found if one.effects]
        decided = [one for one in found if one.verdict is not Verdict.OPEN]
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

    def _at(
        self, paper: Paper, experiment: Experiment, evidence: Evidence, scale: str, listed: set[str]
    ) -> Finding:
        """Returns the finding of a scale's runs; `listed` are the paper's tasks."""
        tasks, y = self.tasks(experiment, scale), self.quantity or experiment.y
        frame = evidence.frame(paper, scale, y, self.clock)
        frame = frame[frame["budget"] == str(planned_budget(paper, experiment, scale))]
        frame = effects.deciding(frame, self.settings, tasks)
        if not tasks or frame.groupby(["setting", "task"]).ngroups < len(self.settings) * len(
            tasks
        ):
            return Finding(Verdict.OPEN, "")
        if self.clock:
            frame = effects.up_to_common_end(frame)
        runs = effects.by_run(frame, self.measure)
        scales = {task: self.unit or _largest(runs, task, y) for task in tasks}

        def effect(part: EffectPart, of: Sequence[str]) -> Effect:
            return effects.main_effect(runs, part.weights, {task: scales[task] for task in of})

        named, verdicts = [], []
        for part in self.parts:
            together = effect(part, tasks)
            by_task = {task: effect(part, [task]) for task in tasks if part.over is not Over.MEAN}
            verdicts.append(part.verdict(together, list(by_task.values()), len(self.parts)))
            shown = by_task if part.over is Over.SOME else {"": together}
            named += [
                NamedEffect(
                    " ".join(filter(None, (part.name, task.rpartition(":")[2]))),
                    one,
                    self.measure in effects.MAGNITUDES,
                )
                for task, one in shown.items()
            ]
        verdict = Verdict.OPEN
        if Verdict.FAILS in verdicts:
            verdict = Verdict.FAILS
        elif all(one is Verdict.HOLDS for one in verdicts):
            verdict = Verdict.HOLDS
        numbers = "; ".join(map(str, named))
        of_paper, others = len(listed & set(tasks)), len(set(tasks) - listed)
        there = f"{of_paper} of" if of_paper else f"{others} in place of"
        more = f" and {others} others" if of_paper and others else ""
        coverage = f"{there} {len(listed)} tasks{more}, {named[0].effect.seeds} seeds"
        words = f"{numbers}. {coverage}."
        return Finding(verdict, words, scale, coverage, numbers, effects=tuple(named))

    def _can_decide(self, paper: Paper, experiment: Experiment, scale: str) -> bool:
        """Returns whether a scale's runs can: those limited in minutes depend on the machine."""
        of = next((one for one in paper.scales if one.name == scale), None)
        if of is None or of.is_compact and scale not in experiment.substitutes:
            return False
        budget = planned_budget(paper, experiment, scale)
        is_of_kind = scale == PAPER.name or budget.minutes is None
        is_tested = self.at.get(scale, {}) is not None
        return is_of_kind and is_tested and experiment.substitute(scale).is_evidence


def claim_of(
    pairs: Pairs, bounds: Bounds = AHEAD, over: Over = Over.MEAN, **fields: Any
) -> MainEffects:
    """Returns the test of a single effect, the mean of differences between settings.

    Args:
      pairs: (first, second).
      bounds: as of `EffectPart`.
      over: as of `EffectPart`.
      **fields: others of `MainEffects`.
    """
    return MainEffects((EffectPart("", mean_of(pairs), bounds, over),), **fields)


def _largest(runs: pandas.DataFrame, task: str, y: str) -> float:
    """Returns what counts as 1 on a task: 1000 points, else the settings' largest mean."""
    if task.startswith("control:") and y == EPISODE_RETURN:
        return 1000.0
    late = runs["late"][runs.index.get_level_values("task") == task]
    return float(late.groupby("setting").mean().abs().max()) or 1.0 if len(late) else 1.0
