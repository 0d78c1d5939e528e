"""The papers' claims, with verdicts computed from runs and benchmarks; the rules: docs/verdicts.md.

The claims themselves are in `reproductions/<paper>/claims.toml`.
"""

from collections.abc import Callable, Mapping, Sequence
import dataclasses
import enum
import math
import pathlib
from typing import Any, NamedTuple, Protocol

import numpy as np
import pandas
from scipy import stats

from common.environments.atari_games import ENVIRONMENTS
from common.evidence import atari_scores, runs, selection
from common.evidence.effects import CONFIDENCE, MARGIN, Effect, Outcome
from common.evidence.paper import EPISODE_RETURN, PAPER_SCALE, Experiment, Paper, Returns
from common.evidence.plan import Speeds
from common.evidence.reported import Reported
from common.evidence.runs import KeptRuns
from common.reporting import records
from common.reporting.user_error import UserError

Bounds = tuple[float, float]
"""Between which a number lies by the claim; an effect in parts of the scale of a task."""

AHEAD: Bounds = (0.0, math.inf)
NOT_BEHIND: Bounds = (-MARGIN, math.inf)
LEVEL: Bounds = (-MARGIN, MARGIN)


class Verdict(enum.StrEnum):
    """The verdict on a claim."""

    HOLDS = "holds"
    FAILS = "does not hold"
    OPEN = "not yet decided"


class Basis(enum.StrEnum):
    """The basis of a verdict."""

    RUNS = "runs"
    BENCHMARK = "benchmark"


class Over(enum.StrEnum):
    """The tasks on which a part of a claim must hold."""

    MEAN = "mean"
    """In the mean over tasks."""
    UNIFORM = "uniform"
    """In the mean over tasks, and on no task surely not."""
    SOME = "some"
    """On one task or more."""


@dataclasses.dataclass(frozen=True)
class EffectPart:
    """An effect that a claim states.

    Attributes:
      name: short, for tables; "" if the claim has one part.
      weights: {setting: weight}, which sum to 0.
      bounds: between which the effect lies by the claim.
      over: the tasks on which it must.
    """

    name: str
    weights: Mapping[str, float]
    bounds: Bounds = AHEAD
    over: Over = Over.MEAN

    def verdict(self, effect: Effect, by_task: Sequence[Effect], num_parts: int = 1) -> Verdict:
        """Returns the verdict on the part.

        All parts of a claim must hold, for which the confidence of each is enough. A single part
        that does not is enough to fail, and a single task may be enough to hold or to fail, so
        there the risk is divided by the number of parts and tasks (Bonferroni).

        Args:
          effect: over all tasks.
          by_task: on each task; none if `over` is the mean.
          num_parts: of the claim.
        """
        risk, num_tasks = 1 - effect.confidence, max(1, len(by_task))
        if self.over is Over.SOME:
            if any(self._holds(on_task, 1 - risk / num_tasks) for on_task in by_task):
                return Verdict.HOLDS
            fails = all(self._fails(on_task, 1 - risk / num_parts) for on_task in by_task)
            return Verdict.FAILS if fails else Verdict.OPEN
        of_task_and_part = 1 - risk / num_parts / num_tasks
        if self.over is Over.UNIFORM and any(
            on_task.interval(of_task_and_part)[1] < self.bounds[0] for on_task in by_task
        ):
            return Verdict.FAILS
        if self._holds(effect, effect.confidence):
            return Verdict.HOLDS
        return Verdict.FAILS if self._fails(effect, 1 - risk / num_parts) else Verdict.OPEN

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


@dataclasses.dataclass(frozen=True)
class NamedEffect:
    """An effect with its name within a claim.

    Attributes:
      name: "" for the only one.
      effect: the effect.
      part: what the claim says of it.
      is_logarithm: whether it is in powers of ten, else in parts of the scale of a task.
    """

    name: str
    effect: Effect
    part: EffectPart
    is_logarithm: bool = False


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
      effects: those that the verdict hangs on.
      numbers: other numbers that it hangs on, by name.
      missing: of an open verdict, if some scale has runs that would decide.
      lacks: of an open verdict, what else there is not: a sentence, or the name of a record.
    """

    verdict: Verdict
    scale: str = ""
    coverage: Coverage | None = None
    effects: tuple[NamedEffect, ...] = ()
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
        """True if some of its runs were made before the rule by which they are judged."""
        return not all(named.effect.is_confirmed for named in self.effects)

    @property
    def seeds_needed(self) -> int | None:
        """Seeds with which `effects.SOUGHT` would be found in all parts; None if unknown."""
        needed = (named.effect.seeds_needed for named in self.effects)
        return max(filter(None, needed), default=None)


@dataclasses.dataclass(frozen=True)
class Evidence:
    """The sources of findings.

    Attributes:
      kept: the runs.
      scale: of the runs; None: for each claim the nearest to the paper's with enough runs, which
        is never `scales.SMOKE`, nor one of `scales.EARLIER`.
      reported: the papers' numbers.
      benchmarks: directory of the JSON files that benchmarks wrote.
    """

    kept: KeptRuns
    scale: str | None
    reported: Reported
    benchmarks: pathlib.Path
    _cache: dict = dataclasses.field(default_factory=dict, init=False, repr=False, compare=False)
    """Frames that were read: many claims are about the same ones."""

    def frame(
        self, paper: Paper, scale: str, y: str = EPISODE_RETURN, clock: str = ""
    ) -> pandas.DataFrame:
        """Returns `runs.frame` of a scale; cached."""
        root = self.kept.root
        return self._cached(
            ("frame", root, paper.name, scale, y, clock),
            lambda: runs.frame(paper.name, scale, root, y, clock),
        )

    def speeds(self, paper: Paper, scale: str) -> Speeds:
        """Returns the speeds of the runs at a scale."""
        runs_there = self.kept.of(paper.name, scale)
        return self._cached(("speeds", paper.name, scale), lambda: Speeds(runs_there))

    def _cached(self, key: tuple, read: Callable[[], Any]) -> Any:
        if key not in self._cache:
            self._cache[key] = read()
        return self._cache[key]

    def scales(self, paper: Paper) -> tuple[str, ...]:
        """Returns the scales to look for runs at, in this order."""
        return (self.scale,) if self.scale else selection.deciding_scales(paper, self.kept)

    def benchmark(self, name: str) -> Any:
        """Returns what benchmarks/NAME.json holds; None if there is no such file.

        Raises:
          JsonError: the file is no JSON.
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
      rule: that of a test whose numbers do not say it, a sentence; else "".
    """

    name: str
    says: str
    source: str
    experiment: str
    test: Test
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
class Unavailable:
    """A test for which nothing has the numbers, for a reason."""

    reason: str
    basis = Basis.RUNS

    def find(self, paper: Paper, experiment: Experiment | None, evidence: Evidence) -> Finding:
        """Implements `Test`."""
        return Finding(Verdict.OPEN, lacks=self.reason)


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
            raise UserError(f"{path}: is no list of numbers with name and value") from None
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
        human = evidence.reported.atari_scores()
        theirs = evidence.reported.number(paper.name, self.source, self.row, self.column)
        theirs *= 1 if self.is_percent else 100
        kept = evidence.kept.of(paper.name, PAPER_SCALE.name)
        ours = atari_scores.finals(kept, self.setting, Returns.EVALUATOR)
        games = sorted(ENVIRONMENTS)
        seeds = {game: len(ours.get(game.removeprefix("atari:"), ())) for game in games}
        numbers = {
            "reported %": theirs,
            "games": len(games),
            "games with two runs": sum(number >= 2 for number in seeds.values()),
        }
        num_seeds = min(seeds.values())
        if num_seeds < 2:
            return Finding(Verdict.OPEN, numbers=numbers)
        by_game = []
        for game in games:
            ends = ours[game.removeprefix("atari:")][:num_seeds]
            scores = pandas.Series([end.score for end in ends])
            by_game.append(selection.human_normalised(game, scores, human))
        medians = 100 * np.median(by_game, axis=0)  # the paper has one run of a game
        mean, error = float(medians.mean()), stats.sem(medians)
        reach = float(error * stats.t.ppf((1 + CONFIDENCE) / 2, num_seeds - 1))
        interval = {"median %, low": mean - reach, "median %, high": mean + reach}
        numbers |= {"median %": mean, **interval}
        least, verdict = (1 - MARGIN) * theirs, Verdict.OPEN
        if mean - reach >= least:
            verdict = Verdict.HOLDS
        elif mean + reach < least:
            verdict = Verdict.FAILS
        return Finding(verdict, PAPER_SCALE.name, numbers=numbers)
