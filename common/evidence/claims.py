"""The papers' claims, with verdicts computed from runs and benchmarks.

The claims are in `reproductions/<paper>/claims.toml`. docs/verdicts.md explains the rules.
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
      part: what the claim says about the effect.
      effect: the effect over all tasks.
      by_task: the effect on each task.
      verdict: the verdict on the part.
      is_logarithm: whether it is in powers of ten; else it is in units of the tasks' scales.
      improvement: the probability of improvement; None where `improvement_of` has none, and where
        larger values are not better.
    """

    part: EffectPart
    effect: Effect
    by_task: Mapping[str, Effect]
    verdict: Verdict
    is_logarithm: bool = False
    improvement: Estimate | None = None


class Coverage(NamedTuple):
    """The tasks and seeds of the runs that decide a claim.

    `tasks` of the paper's `of_paper` tasks have runs, and `other_tasks` stand in for the paper's.
    `seeds` is the smallest number of seeds of a setting on a task.
    """

    tasks: int
    of_paper: int
    other_tasks: int
    seeds: int


class MissingRuns(NamedTuple):
    """The runs that would decide a claim, at the scale that needs the fewest hours.

    Attributes:
      scale: name of the scale.
      made: number of runs that exist.
      missing: number of runs that do not exist.
      hours: time of the missing runs; inf if it is unknown.
      commands: commands that make the missing runs.
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
      scale: scale of the runs that decide; "" if no runs do.
      coverage: tasks and seeds of these runs; None without effects.
      effects: the effects on which the verdict rests, the deciding ones first.
      numbers: other numbers on which it rests, by name.
      missing: for an open verdict, the runs that would decide it; None if no scale has them.
      lacks: for an open verdict, what else is missing: a sentence, or the name of a record.
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
        """True if the verdict is open although all runs that the scale has for the claim exist."""
        is_open = self.verdict is Verdict.OPEN and bool(self.effects)
        return is_open and self.missing is not None and not self.missing.missing

    @property
    def is_exploratory(self) -> bool:
        """True if too few of its runs follow the rule, or started after the test was changed."""
        return any(not judged.effect.is_confirmed for judged in self.effects)

    @property
    def seeds_needed(self) -> int | None:
        """The seeds needed to find an effect of `effects.SOUGHT` in all parts; None if unknown."""
        needed = (judged.effect.seeds_needed for judged in self.effects)
        return max(filter(None, needed), default=None)


@dataclasses.dataclass(frozen=True)
class Evidence:
    """The sources of findings.

    Attributes:
      kept: the kept runs.
      scale: scale of the runs; None: for each claim the scale nearest to the paper's that decides
        it, except `SMOKE` and scales that end in `EARLIER`.
      reported: the papers' numbers.
      benchmarks: directory of the JSON files that benchmarks wrote.
    """

    kept: KeptRuns
    scale: str | None
    reported: Reported
    benchmarks: pathlib.Path
    _frames: dict = dataclasses.field(default_factory=dict, init=False, repr=False, compare=False)
    """The frames read so far, since many claims share a frame."""

    def frame(
        self, paper: Paper, scale: str, y: str = EPISODE_RETURN, clock: str = ""
    ) -> pandas.DataFrame:
        """Returns `runs.frame` of a scale; cached."""
        key = (paper.name, scale, y, clock)
        if key not in self._frames:
            self._frames[key] = runs.frame(paper.name, scale, self.kept, y, clock)
        return self._frames[key]

    def scales(self, paper: Paper) -> tuple[str, ...]:
        """Returns the scales at which to look for runs, in order."""
        return (self.scale,) if self.scale else selection.deciding_scales(paper, self.kept)

    def benchmark(self, name: str) -> Any:
        """Returns the content of a record, NAME.json in `benchmarks`; None if it does not exist.

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
          paper: the paper of the claim.
          experiment: the experiment that the claim is about; None if there is none.
          evidence: the runs and records that decide.
        """


@dataclasses.dataclass(frozen=True)
class Claim:
    """A statement of a paper.

    Attributes:
      name: unique within the paper, and short.
      says: what the paper says, close to its words.
      source: "section 4.1, figure 2".
      experiment: name of the experiment that shows it; "" if none does.
      test: the test that decides it.
      is_headline: whether it is one of the paper's main statements.
      rule: a sentence that states the rule of the test if its numbers do not; else "".
      note: a phrase in Markdown that limits the verdict; "" if none does.
    """

    name: str
    says: str
    source: str
    experiment: str
    test: Test
    is_headline: bool = False
    rule: str = ""
    note: str = ""

    def judge(self, paper: Paper, evidence: Evidence) -> Finding:
        """Returns the verdict with its evidence."""
        experiment = paper.experiment(self.experiment) if self.experiment else None
        return self.test.find(paper, experiment, evidence)


@dataclasses.dataclass(frozen=True)
class Check:
    """A test by a function.

    Attributes:
      function: returns the finding.
      basis: the kind of evidence that the function reads.
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
      number: name of the number in the record.
      bounds: the smallest and the largest number for which the claim holds.
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
            raise UserError(f"{path}: is not a list of objects with name and value") from None
        if not found:
            return Finding(Verdict.OPEN, lacks=f"{self.record}.json: {self.number}")
        records.require_keys(path, found[0], float, self.number)
        holds = self.bounds[0] <= found[0] <= self.bounds[1]
        return Finding(Verdict.HOLDS if holds else Verdict.FAILS, numbers={self.number: found[0]})


@dataclasses.dataclass(frozen=True)
class GameMedian:
    """A test that compares our median human-normalised score over all games with the paper's.

    The claim holds if the mean of this median over seeds, at the paper's scale, is surely not below
    95 % of the paper's.

    Attributes:
      setting: setting of our runs.
      source: where the paper reports its median, as in `Reference`.
      row: row of the paper's table.
      column: column of the paper's table.
      is_percent: whether the paper's number is in percent; else a human's score is 1.
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
        medians = 100 * np.median(by_game, axis=0)  # from one run of each game, as in the paper
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
    """A test of main effects: the claim holds if all parts hold, and fails if one part fails.

    Attributes:
      parts: the effects.
      environments: the tasks; empty: the experiment's.
      measure: the measure of a run.
      quantity: the column of learner.csv that is measured; "": the experiment's quantity.
      clock: column along which runs are compared, up to the end of the shortest run; "": the column
        of their limit, which all runs share.
      since: first day of the current test, "2026-11-27"; only runs from then on can confirm the
        claim. "": the test is older than all runs.
      at: {scale: the test there} where it differs; None: the scale's runs cannot decide.
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
        """Returns the test for a scale's runs."""
        return self.at.get(scale) or self

    @property
    def settings(self) -> tuple[str, ...]:
        """The settings that the test needs."""
        return tuple(dict.fromkeys(name for part in self.parts for name in part.weights))

    def tasks(self, experiment: Experiment, scale: str) -> tuple[str, ...]:
        """Returns the claim's tasks on which the experiment has its settings at a scale."""
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
        """Returns the finding from a scale's runs; `listed` are the paper's tasks."""
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
        """Returns the effect and verdict of a part; `is_better`: larger values are better."""
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
        """Returns whether a scale's runs can decide. Limits in minutes depend on the machine."""
        of = paper.scale(scale)
        if of.is_compact and scale not in experiment.substitutes:
            return False
        budget = planned_budget(paper, experiment, scale)
        is_of_kind = scale == PAPER_SCALE.name or budget.minutes is None
        is_tested = self.at.get(scale, self) is not None
        return is_of_kind and is_tested and experiment.substitute(scale).is_evidence


def seeds_of(experiment: Experiment, scale: str) -> int:
    """Returns the number of seeds that a verdict needs: the planned number, at least two."""
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
    """Returns the runs that would decide a claim, at the scale that needs the fewest hours.

    Args:
      paper: the paper of the claim.
      experiment: the experiment of the claim.
      evidence: the runs that exist.
      needed: {scale: each (setting, task) of the claim}.

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
    # A substitute is designed for this experiment, so its scale comes first.
    own = [plan for scale, plan in plans.items() if scale in experiment.substitutes]
    return min(own or plans.values(), key=lambda plan: plan.hours, default=None)


def _missing_at(
    paper: Paper, evidence: Evidence, scale: str, wanted: Mapping[tuple[str, str], Experiment]
) -> MissingRuns:
    """Returns the missing runs at a scale, given the experiment of each (setting, task)."""
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
    """Returns the command that makes runs of these curves, each (setting, task)."""
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
