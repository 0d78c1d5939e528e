"""Tests of claims by main effects of settings over tasks, and the runs that they lack."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
import dataclasses
import itertools
import math

import pandas

from common.evidence import effects
from common.evidence.claims import (
    Basis,
    Coverage,
    EffectPart,
    Evidence,
    Finding,
    MissingRuns,
    NamedEffect,
    Over,
    Verdict,
)
from common.evidence.effects import Effect, Measure
from common.evidence.paper import EPISODE_RETURN, PAPER_SCALE, SMOKE, Experiment, Paper
from common.evidence.plan import minutes_left
from common.evidence.runs import Progress
from common.reporting.budget import Budget


@dataclasses.dataclass(frozen=True)
class MainEffects:
    """A test of main effects: all of its parts must hold, and a single failing part is enough.

    Attributes:
      parts: the effects.
      environments: the tasks; the experiment's if empty.
      measure: of a run.
      unit: what counts as 1 on each task; None: as docs/verdicts.md says.
      quantity: a column of learner.csv in place of the experiment's; "": the experiment's.
      clock: column along which runs are compared up to where the shortest ends; "": that of their
        limit, which is the same for all.
      at: the test at a scale where it is another, by its name; None: its runs cannot decide.
    """

    parts: tuple[EffectPart, ...]
    environments: tuple[str, ...] = ()
    measure: Measure = effects.late_mean
    unit: float | None = None
    quantity: str = ""
    clock: str = ""
    at: Mapping[str, "MainEffects | None"] = dataclasses.field(default_factory=dict)
    basis = Basis.RUNS

    def at_scale(self, scale: str) -> "MainEffects":
        """Returns the test of a scale's runs."""
        return self.at.get(scale) or self

    @property
    def settings(self) -> tuple[str, ...]:
        """The settings that the test needs."""
        return tuple(dict.fromkeys(name for part in self.parts for name in part.weights))

    def tasks(self, experiment: Experiment, scale: str) -> tuple[str, ...]:
        """Returns the claim's tasks at a scale: those that the experiment has for its settings."""
        planned = experiment.at(scale).runs
        there = dict.fromkeys(run.environment for run in planned if run.setting in self.settings)
        return tuple(task for task in there if task in (self.environments or there))

    def find(self, paper: Paper, experiment: Experiment, evidence: Evidence) -> Finding:
        """Implements `Test`."""
        scales = [scale.name for scale in paper.scales]
        deciding = [scale for scale in scales if self._can_decide(paper, experiment, scale)]
        listed = set(self.environments or experiment.environments)
        found = [
            self.at_scale(scale)._at(paper, experiment, evidence, scale, listed)
            for scale in evidence.scales(paper)
            if scale in deciding
        ]
        found = [finding for finding in found if finding.effects]
        decided = [finding for finding in found if finding.verdict is not Verdict.OPEN]
        if decided:
            return decided[0]
        best = (found or [Finding(Verdict.OPEN)])[0]
        if experiment.unavailable:
            return dataclasses.replace(best, lacks=experiment.unavailable)
        needed = {scale: set() for scale in scales if scale != SMOKE}
        for scale in needed.keys() & set(deciding):
            test = self.at_scale(scale)
            needed[scale] = set(itertools.product(test.settings, test.tasks(experiment, scale)))
        return dataclasses.replace(best, missing=missing_runs(paper, experiment, evidence, needed))

    def _at(
        self, paper: Paper, experiment: Experiment, evidence: Evidence, scale: str, listed: set[str]
    ) -> Finding:
        """Returns the finding of a scale's runs; `listed` are the paper's tasks."""
        tasks, y = self.tasks(experiment, scale), self.quantity or experiment.y
        frame = evidence.frame(paper, scale, y, self.clock)
        frame = frame[frame["budget"] == str(planned_budget(paper, experiment, scale))]
        frame = effects.deciding(frame, self.settings, tasks)
        cells = frame.groupby(["setting", "task"]).ngroups
        if not tasks or cells < len(self.settings) * len(tasks):
            return Finding(Verdict.OPEN)
        if self.clock:
            frame = effects.up_to_common_end(frame)
        measured = effects.by_run(frame, self.measure)
        scales = {task: self.unit or _largest(measured, task, y) for task in tasks}

        def effect(part: EffectPart, of: Sequence[str]) -> Effect:
            return effects.main_effect(measured, part.weights, {task: scales[task] for task in of})

        named, verdicts = [], []
        for part in self.parts:
            together = effect(part, tasks)
            by_task = {task: effect(part, [task]) for task in tasks if part.over is not Over.MEAN}
            verdicts.append(part.verdict(together, list(by_task.values()), len(self.parts)))
            for task, shown in (by_task if part.over is Over.SOME else {"": together}).items():
                name = " ".join(filter(None, (part.name, task.rpartition(":")[2])))
                is_logarithm = self.measure in effects.MAGNITUDES
                named.append(NamedEffect(name, shown, part, is_logarithm))
        verdict = Verdict.OPEN
        if Verdict.FAILS in verdicts:
            verdict = Verdict.FAILS
        elif set(verdicts) == {Verdict.HOLDS}:
            verdict = Verdict.HOLDS
        of_paper = len(listed & set(tasks))
        others, seeds = len(tasks) - of_paper, named[0].effect.seeds
        coverage = Coverage(of_paper, len(listed), others, seeds)
        return Finding(verdict, scale, coverage, tuple(named))

    def _can_decide(self, paper: Paper, experiment: Experiment, scale: str) -> bool:
        """Returns whether a scale's runs can: those limited in minutes depend on the machine."""
        of = paper.scale(scale)
        if of.is_compact and scale not in experiment.substitutes:
            return False
        budget = planned_budget(paper, experiment, scale)
        is_of_kind = scale == PAPER_SCALE.name or budget.minutes is None
        is_tested = self.at.get(scale, self) is not None
        return is_of_kind and is_tested and experiment.substitute(scale).is_evidence


def _largest(measured: pandas.DataFrame, task: str, y: str) -> float:
    """Returns what counts as 1 on a task: 1000 points, else the settings' largest mean."""
    if task.startswith("control:") and y == EPISODE_RETURN:
        return 1000.0
    late = measured["late"][measured.index.get_level_values("task") == task]
    return float(late.groupby("setting").mean().abs().max()) or 1.0 if len(late) else 1.0


def seeds_of(experiment: Experiment, scale: str) -> int:
    """Returns the number of seeds that a verdict needs: those of the plan, two at least."""
    return max(2, experiment.seeds_at(scale))


def planned_budget(paper: Paper, experiment: Experiment, scale: str) -> Budget:
    """Returns the limits of the experiment's runs at one of the paper's scales."""
    return experiment.scaled(paper.scale(scale)).budget_of(experiment.budget)


def missing_runs(
    paper: Paper,
    experiment: Experiment,
    evidence: Evidence,
    needed: Mapping[str, Iterable[tuple[str, str]]],
) -> MissingRuns | None:
    """Returns the runs that would decide a claim at the scale where that is cheapest.

    Args:
      paper: of the claim.
      experiment: of the claim.
      evidence: has the runs that there are.
      needed: by scales, each (setting, task) of the claim.

    Returns:
      None if no scale has all settings and tasks.
    """
    plans = {}
    for scale in [evidence.scale] if evidence.scale in needed else needed:
        listed = {
            (run.setting, run.environment): of
            for of in (*reversed(paper.experiments), experiment)
            for run in of.at(scale).runs
        }
        wanted = {curve: listed.get(curve) for curve in sorted(needed[scale])}
        if wanted and None not in wanted.values():
            plans[scale] = _missing_at(paper, evidence, scale, wanted)
    # A substitute is a scale made for this experiment.
    own = [plan for scale, plan in plans.items() if scale in experiment.substitutes]
    return min(own or plans.values(), key=lambda plan: plan.hours, default=None)


def _missing_at(
    paper: Paper, evidence: Evidence, scale: str, wanted: Mapping[tuple[str, str], Experiment]
) -> MissingRuns:
    """Returns the runs that lack at a scale, given each (setting, task) with its experiment."""
    ended = [run for run in evidence.kept.of(paper.name, scale) if run.has_ended]
    counts = Counter((run.setting, run.environment) for run in ended)
    speeds = evidence.speeds(paper, scale)
    made, missing, minutes = 0, 0, 0.0
    of_experiments: dict[str, list[tuple[str, str]]] = {}
    for curve, of in wanted.items():
        lacks = max(0, seeds_of(of, scale) - counts[curve])
        made += counts[curve]
        if lacks:
            missing += lacks
            of_experiments.setdefault(of.name, []).append(curve)
            budget = planned_budget(paper, of, scale)
            each = minutes_left(budget, Progress(), speeds.of(*curve), paper.scale(scale))
            minutes += lacks * (math.inf if each is None else each)
    commands = (
        _command(paper, paper.experiment(name), scale, curves)
        for name, curves in of_experiments.items()
    )
    return MissingRuns(scale, made, missing, minutes / 60, tuple(commands))


def _command(
    paper: Paper, experiment: Experiment, scale: str, curves: Iterable[tuple[str, str]]
) -> str:
    """Returns the command that makes runs, each (setting, task)."""
    there = experiment.at(scale)
    settings, tasks = map(set, zip(*curves))
    command = (
        f".venv/bin/python -m binaries.experiment --paper={paper.name} {there.flag} --scale={scale}"
    )
    if settings != set(there.settings):
        command += f" --settings {' '.join(sorted(settings))}"
    if tasks != set(there.environments):
        command += f" --tasks {' '.join(task.partition(':')[2] for task in sorted(tasks))}"
    needed = seeds_of(experiment, scale)
    if needed > experiment.seeds_at(scale):
        command += f" --seeds={needed}"
    return command
