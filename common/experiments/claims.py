"""The papers' claims, with verdicts computed from runs, tables and benchmarks.

The claims themselves are in `reproductions/<paper>/claims.py`.
"""

from collections.abc import Callable
import dataclasses
import enum
import pathlib
from typing import Any, Protocol

import pandas

from common.experiments import runs, selection
from common.experiments.effects import Effect
from common.experiments.paper import EPISODE_RETURN, Experiment, Paper
from common.experiments.plan import Speeds
from common.experiments.runs import KeptRuns
from common.reporting import records
from common.reporting.reported import Reported
from common.reporting.user_error import UserError


class Verdict(enum.StrEnum):
    """The verdict on a claim."""

    HOLDS = "holds"
    FAILS = "does not hold"
    OPEN = "not yet decided"


class Basis(enum.StrEnum):
    """The basis of a verdict. Only the first two are evidence of this code."""

    RUNS = "runs"
    BENCHMARK = "benchmark"
    PAPER = "the paper's own numbers"


@dataclasses.dataclass(frozen=True)
class NamedEffect:
    """An effect with its name within a claim.

    Attributes:
      name: "" for the only one.
      effect: the effect.
      is_logarithm: whether it is in powers of ten, else in parts of the scale of a task.
    """

    name: str
    effect: Effect
    is_logarithm: bool = False

    @property
    def numbers(self) -> str:
        """The effect with its interval."""
        ends = (self.effect.estimate, self.effect.low, self.effect.high)
        if self.is_logarithm:
            value, low, high = (f"{one:+.2f}" for one in ends)
            return f"{value} powers of ten ({low} to {high})"
        value, low, high = (f"{100 * one:+.1f}" for one in ends)
        return f"{value} % ({low} to {high})"

    def __str__(self) -> str:
        return f"{self.name}: " * bool(self.name) + self.numbers


@dataclasses.dataclass(frozen=True)
class Finding:
    """A verdict with its evidence.

    Attributes:
      verdict: the verdict.
      evidence: in words and numbers.
      scale: of the runs; "" if no runs decide.
      coverage: on how many of the claim's tasks.
      numbers: those that the verdict hangs on, in short.
      is_complete: whether an open verdict is that of all runs which the scale has for the claim.
      effects: those that the verdict hangs on, in parts of the scale of a task.
    """

    verdict: Verdict
    evidence: str
    scale: str = ""
    coverage: str = ""
    numbers: str = ""
    is_complete: bool = False
    effects: tuple[NamedEffect, ...] = ()

    @property
    def outcomes(self) -> str:
        """The outcomes of its effects, and whether they are exploratory; "" without effects."""
        of = [one.effect for one in self.effects]
        words = [*dict.fromkeys(str(effect.outcome) for effect in of)]
        is_exploratory = not all(effect.is_confirmed for effect in of)
        return ", ".join(words + ["exploratory"] * is_exploratory)

    @property
    def words(self) -> str:
        """The verdict with the scale that it is about."""
        if self.verdict is Verdict.OPEN or not self.scale:
            return str(self.verdict)
        return f"{self.verdict} at {selection.scale_in_words(self.scale)}"


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
        folder = self.kept.root / paper.name / scale
        return self._cached(("speeds", folder), lambda: Speeds([folder]))

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

    rule: str
    """Its rule, a sentence."""
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
      text: what the paper says, close to its words.
      source: "section 4.1, figure 2".
      experiment: name of the experiment that shows it; "" if none does.
      test: decides it.
    """

    name: str
    text: str
    source: str
    experiment: str
    test: Test

    def judge(self, paper: Paper, evidence: Evidence) -> Finding:
        """Returns the verdict."""
        experiment = paper.experiment(self.experiment) if self.experiment else None
        return self.test.find(paper, experiment, evidence)


@dataclasses.dataclass(frozen=True)
class Check:
    """A test by a function.

    Attributes:
      function: returns True, False, or None if it cannot decide; and the numbers that it saw.
      rule: a sentence.
      basis: what the function looks at.
    """

    function: Callable[[Evidence], tuple[bool | None, str]]
    rule: str
    basis: Basis = Basis.PAPER

    def find(self, paper: Paper, experiment: Experiment | None, evidence: Evidence) -> Finding:
        """Implements `Test`."""
        try:
            holds, words = self.function(evidence)
        except UserError:
            raise
        except (LookupError, ValueError, ArithmeticError) as error:
            raise UserError(
                f"{evidence.reported.directory} lacks numbers of {paper.title} ({error!r}), so "
                f"that it cannot be said whether {self.rule}: put them back"
            ) from None
        verdicts = {True: Verdict.HOLDS, False: Verdict.FAILS, None: Verdict.OPEN}
        return Finding(verdicts[holds], words)


def measured(record: str, name: str, least: float, most: float) -> Check:
    """Returns a test of a number that a benchmark measured.

    Args:
      record: results/benchmarks/RECORD.json.
      name: of the number in it.
      least: the claim holds from here on.
      most: up to here.
    """
    place = f"{name} in results/benchmarks/{record}.json"

    def find(evidence: Evidence) -> tuple[bool | None, str]:
        listed, path = evidence.benchmark(record) or (), evidence.benchmarks / f"{record}.json"
        try:
            found = [one["value"] for one in listed if one["name"] == name]
        except (KeyError, TypeError):
            raise UserError(f"{path}: is no list of numbers with name and value") from None
        if not found:
            return None, f"No record of it: {place} is missing."
        records.require_keys(path, found[0], float, name)
        return least <= found[0] <= most, f"{found[0]:.3g} ({place})."

    return Check(find, f"{place} is from {least:g} to {most:g}", Basis.BENCHMARK)
