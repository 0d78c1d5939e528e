"""The papers' claims, with verdicts computed from runs and benchmarks; the rules: docs/verdicts.md.

The claims themselves are in `reproductions/<paper>/claims.toml`.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
import dataclasses
import enum
import itertools
import math
import pathlib
from typing import Any, NamedTuple, Protocol

import numpy as np
import pandas
from scipy import stats

from common.environments.atari_games import ENVIRONMENTS
from common.evidence import aggregates, atari_scores, effects, runs, selection
from common.evidence.aggregates import Estimate
from common.evidence.effects import MARGIN, Bounds, Effect, EffectPart, Measure, Verdict
from common.evidence.paper import EPISODE_RETURN, PAPER_SCALE, SMOKE, Experiment, Paper
from common.evidence.plan import Speeds
from common.evidence.reported import Reported, human_normalised
from common.evidence.runs import KeptRuns, Progress
from common.reporting import records
from common.reporting.budget import Budget
from common.user_error import UserError


class Basis(enum.StrEnum):
    """The basis of a verdict."""

    RUNS = "runs"
    BENCHMARK = "benchmark"


@dataclasses.dataclass(frozen=True)
class JudgedEffect:
    """An effect with the verdict on it.

    Attributes:
      part: what the claim says of it.
      effect: the effect.
      by_task: the effect on each task.
      verdict: on the part.
      is_logarithm: whether it is in powers of ten, else in parts of the scale of a task.
      improvement: the probability of improvement; None if the effect compares no two means.
    """

    part: EffectPart
    effect: Effect
    by_task: Mapping[str, Effect]
    verdict: Verdict
    is_logarithm: bool = False
    improvement: Estimate | None = None


class Coverage(NamedTuple):
    """The runs that decide: on how many of the claim's tasks in the paper, on how many others."""

    tasks: int
    of_paper: int
    other_tasks: int
    seeds: int


class MissingRuns(NamedTuple):
    """The runs that would decide a claim at the scale where that is cheapest.

    Attributes:
      scale: its name.
      made: number of runs that are there.
      missing: number of runs that are not.
      hours: that these take; inf if that is not known yet.
      commands: that make them.
    """

    scale: str
    made: int
    missing: int
    hours: float
    commands: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Finding:
    """A verdict with its evidence.

    Attributes:
      verdict: the verdict.
      scale: of the runs; "" if no runs decide.
      coverage: of the runs; None without effects.
      effects: those that the verdict hangs on, the deciding ones first.
      numbers: other numbers that it hangs on, by name.
      missing: of an open verdict, if some scale has runs that would decide.
      lacks: of an open verdict, what else there is not: a sentence, or the name of a record.
    """

    verdict: Verdict
    scale: str = ""
    coverage: Coverage | None = None
    effects: tuple[JudgedEffect, ...] = ()
    numbers: Mapping[str, float] = dataclasses.field(default_factory=dict)
    missing: MissingRuns | None = None
    lacks: str = ""

    @property
    def is_complete(self) -> bool:
        """True if an open verdict is that of all runs which the scale has for the claim."""
        is_open = self.verdict is Verdict.OPEN and bool(self.effects)
        return is_open and self.missing is not None and not self.missing.missing

    @property
    def is_exploratory(self) -> bool:
        """True if too few of its runs follow the rule, or began after the test was changed."""
        return any(not judged.effect.is_confirmed for judged in self.effects)

    @property
    def seeds_needed(self) -> int | None:
        """Seeds with which `effects.SOUGHT` would be found in all parts; None if unknown."""
        needed = (judged.effect.seeds_needed for judged in self.effects)
        return max(filter(None, needed), default=None)


@dataclasses.dataclass(frozen=True)
class Evidence:
    """The sources of findings.

    Attributes:
      kept: the runs.
      scale: of the runs; None: for each claim the nearest to the paper's with enough runs, which
        is never `SMOKE`, nor one of `EARLIER`.
      reported: the papers' numbers.
      benchmarks: directory of the JSON files that benchmarks wrote.
    """

    kept: KeptRuns
    scale: str | None
    reported: Reported
    benchmarks: pathlib.Path
    _frames: dict = dataclasses.field(default_factory=dict, init=False, repr=False, compare=False)
    """Frames that were read: many claims are about the same ones."""

    def frame(
        self, paper: Paper, scale: str, y: str = EPISODE_RETURN, clock: str = ""
    ) -> pandas.DataFrame:
        """Returns `runs.frame` of a scale; cached."""
        key = (paper.name, scale, y, clock)
        if key not in self._frames:
            self._frames[key] = runs.frame(paper.name, scale, self.kept.root, y, clock)
        return self._frames[key]

    def scales(self, paper: Paper) -> tuple[str, ...]:
        """Returns the scales to look for runs at, in this order."""
        return (self.scale,) if self.scale else selection.deciding_scales(paper, self.kept)

    def benchmark(self, name: str) -> Any:
        """Returns what benchmarks/NAME.json holds; None if there is no such file.

        Raises:
          JsonError: the file is not JSON.
        """
        return records.read_json(self.benchmarks / f"{name}.json")


class Test(Protocol):
    """A test that decides a claim."""

    basis: Basis

    def find(self, paper: Paper, experiment: Experiment | None, evidence: Evidence) -> Finding:
        """Returns the verdict with its evidence.

        Args:
          paper: of the claim.
          experiment: that the claim is about; None if there is none.
          evidence: to decide by.
        """


@dataclasses.dataclass(frozen=True)
class Claim:
    """A statement of a paper.

    Attributes:
      name: unique within the paper, and short.
      says: what the paper says, close to its words.
      source: "section 4.1, figure 2".
      experiment: name of the experiment that shows it; "" if none does.
      test: decides it.
      is_headline: whether it is one of the paper's main statements.
      rule: that of a test whose numbers do not say it, a sentence; else "".
    """

    name: str
    says: str
    source: str
    experiment: str
    test: Test
    is_headline: bool = False
    rule: str = ""

    def judge(self, paper: Paper, evidence: Evidence) -> Finding:
        """Returns the verdict."""
        experiment = paper.experiment(self.experiment) if self.experiment else None
        return self.test.find(paper, experiment, evidence)


@dataclasses.dataclass(frozen=True)
class Check:
    """A test by a function.

    Attributes:
      function: returns the finding.
      basis: what the function looks at.
    """

    function: Callable[[Evidence], Finding]
    basis: Basis

    def find(self, paper: Paper, experiment: Experiment | None, evidence: Evidence) -> Finding:
        """Implements `Test`."""
        return self.function(evidence)


@dataclasses.dataclass(frozen=True)
class Measured:
    """A test of a number that a benchmark measured.

    Attributes:
      record: results/benchmarks/RECORD.json.
      number: its name in the record.
      bounds: between which it lies by the claim.
    """

    record: str
    number: str
    bounds: Bounds
    basis = Basis.BENCHMARK

    def find(self, paper: Paper, experiment: Experiment | None, evidence: Evidence) -> Finding:
        """Implements `Test`."""
        listed = evidence.benchmark(self.record) or ()
        path = evidence.benchmarks / f"{self.record}.json"
        try:
            found = [row["value"] for row in listed if row["name"] == self.number]
        except (KeyError, TypeError):
            raise UserError(f"{path}: is not a list of numbers with name and value") from None
        if not found:
            return Finding(Verdict.OPEN, lacks=f"{self.record}.json: {self.number}")
        records.require_keys(path, found[0], float, self.number)
        holds = self.bounds[0] <= found[0] <= self.bounds[1]
        return Finding(Verdict.HOLDS if holds else Verdict.FAILS, numbers={self.number: found[0]})


@dataclasses.dataclass(frozen=True)
class GameMedian:
    """A test whether our median human-normalised score over all games is the paper's.

    It holds if the mean over seeds of that median is surely not below 95 % of the paper's, at the
    paper's scale.

    Attributes:
      setting: of our runs.
      source: of the paper's median in results/reported, as `row` and `column` are.
      row: the paper's.
      column: the paper's.
      is_percent: whether the paper's number is in percent, else in parts of a human.
    """

    setting: str
    source: str
    row: str
    column: str
    is_percent: bool
    basis = Basis.RUNS

    def find(self, paper: Paper, experiment: Experiment | None, evidence: Evidence) -> Finding:
        """Implements `Test`."""
        theirs = evidence.reported.number(paper.name, self.source, self.row, self.column)
        theirs *= 1 if self.is_percent else 100
        kept = evidence.kept.of(paper.name, PAPER_SCALE.name)
        ends = atari_scores.finals(kept, [self.setting])
        games = [name.removeprefix("atari:") for name in ENVIRONMENTS]
        seeds = ends.groupby("game").size().reindex(games, fill_value=0)
        numbers = {
            "reported %": theirs,
            "games": len(games),
            "games with two runs": int((seeds >= 2).sum()),
        }
        num_seeds = int(seeds.min())
        if num_seeds < 2:
            needed = {PAPER_SCALE.name: itertools.product([self.setting], ENVIRONMENTS)}
            missing = missing_runs(paper, experiment, evidence, needed)
            return Finding(Verdict.OPEN, numbers=numbers, missing=missing)
        by_game = [
            human_normalised(ended["score"].to_numpy()[:num_seeds], evidence.reported.game(game))
            for game, ended in ends.groupby("game")
        ]
        medians = 100 * np.median(by_game, axis=0)  # the paper has one run of a game
        mean = float(medians.mean())
        low, high = effects.interval(mean, stats.sem(medians), num_seeds - 1)
        numbers |= {"median %": mean, "median %, low": low, "median %, high": high}
        least, verdict = (1 - MARGIN) * theirs, Verdict.OPEN
        if low >= least:
            verdict = Verdict.HOLDS
        elif high < least:
            verdict = Verdict.FAILS
        return Finding(verdict, PAPER_SCALE.name, numbers=numbers)


@dataclasses.dataclass(frozen=True)
class MainEffects:
    """A test of main effects: all of its parts must hold, and a single failing part is enough.

    Attributes:
      parts: the effects.
      environments: the tasks; the experiment's if empty.
      measure: of a run.
      quantity: a column of learner.csv in place of the experiment's; "": the experiment's.
      clock: column along which runs are compared up to where the shortest ends; "": that of their
        limit, which is the same for all.
      since: the day from which on the test is as it is, "2026-11-27"; "": from before all runs.
      at: the test at a scale where it is another, by its name; None: its runs cannot decide.
    """

    parts: tuple[EffectPart, ...]
    environments: tuple[str, ...] = ()
    measure: Measure = effects.late_mean
    quantity: str = ""
    clock: str = ""
    since: str = ""
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
        found = [each for each in found if each.effects or each.lacks] or [Finding(Verdict.OPEN)]
        best = min(found, key=lambda finding: finding.verdict is Verdict.OPEN)
        if best.verdict is not Verdict.OPEN:
            return best
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
        frame = frame.assign(by_rule=frame["by_rule"] & (frame["started"] >= self.since))
        frame = effects.deciding(frame, self.settings, tasks)
        cells = frame.groupby(["setting", "task"]).ngroups
        if not tasks or cells < len(self.settings) * len(tasks):
            return Finding(Verdict.OPEN)
        if self.clock:
            frame = effects.up_to_common_end(frame)
        if y == EPISODE_RETURN and self.measure not in effects.MAGNITUDES:
            if lacking := evidence.reported.without_scale(tasks):
                return Finding(Verdict.OPEN, lacks=f"task_scales.csv: {', '.join(lacking)}")
            frame = effects.normalised(frame, evidence.reported.scales(tasks))
        measured = effects.by_run(frame, self.measure, y == EPISODE_RETURN)
        is_better = y == EPISODE_RETURN and self.measure in effects.MEANS
        judged = [self._judged(part, measured, tasks, is_better) for part in self.parts]
        order = (Verdict.FAILS, Verdict.MIXED, Verdict.OPEN, Verdict.HOLDS)
        judged.sort(key=lambda effect: order.index(effect.verdict))  # the deciding ones first
        of_paper = len(listed & set(tasks))
        others, seeds = len(tasks) - of_paper, judged[0].effect.seeds
        coverage = Coverage(of_paper, len(listed), others, seeds)
        return Finding(judged[0].verdict, scale, coverage, tuple(judged))

    def _judged(
        self, part: EffectPart, runs: pandas.DataFrame, tasks: Sequence[str], is_better: bool
    ) -> JudgedEffect:
        """Returns an effect of `effects.by_run`; `is_better`: more of it is."""
        effect = effects.main_effect(runs, part.weights, tasks)
        by_task = {task: effects.main_effect(runs, part.weights, [task]) for task in tasks}
        return JudgedEffect(
            part,
            effect,
            by_task,
            part.verdict(effect, by_task, len(self.parts)),
            self.measure in effects.MAGNITUDES,
            aggregates.improvement_of(runs, part.weights, tasks) if is_better else None,
        )

    def _can_decide(self, paper: Paper, experiment: Experiment, scale: str) -> bool:
        """Returns whether a scale's runs can: those limited in minutes depend on the machine."""
        of = paper.scale(scale)
        if of.is_compact and scale not in experiment.substitutes:
            return False
        budget = planned_budget(paper, experiment, scale)
        is_of_kind = scale == PAPER_SCALE.name or budget.minutes is None
        is_tested = self.at.get(scale, self) is not None
        return is_of_kind and is_tested and experiment.substitute(scale).is_evidence


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
            run.curve: of
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
    counts = Counter(run.curve for run in ended)
    speeds = Speeds(evidence.kept.of(paper.name, scale))
    made, missing, minutes = 0, 0, 0.0
    of_experiments: dict[str, list[tuple[str, str]]] = {}
    for curve, of in wanted.items():
        lacks = max(0, seeds_of(of, scale) - counts[curve])
        made += counts[curve]
        if lacks:
            missing += lacks
            of_experiments.setdefault(of.name, []).append(curve)
            budget = planned_budget(paper, of, scale)
            each = speeds.minutes_left(curve, budget, Progress())
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
