"""What the papers claim, and whether it holds: verdicts computed from runs, tables and benchmarks.

The claims themselves are in `reproductions/<paper>/claims.py`, as `CLAIMS`.
"""

from collections.abc import Callable
import dataclasses
import enum
import functools
import importlib
import json
import pathlib
from typing import Protocol

from common.experiments import selection
from common.experiments.checked_rows import Warn
from common.experiments.registry import Experiment, Paper
from common.experiments.reported_numbers import ReportedNumbers
from common.experiments.runs import KeptRuns
from common.reporting.reported import ReportedError, refuse


class Verdict(enum.StrEnum):
    """Of a claim."""

    HOLDS = "holds"
    FAILS = "does not hold"
    OPEN = "not yet decided"


class Basis(enum.StrEnum):
    """What decides a claim. Only the first two are evidence of this code."""

    RUNS = "runs"
    BENCHMARK = "benchmark"
    PAPER = "the paper's own numbers"


@dataclasses.dataclass(frozen=True)
class Finding:
    """A verdict and what it is based on, with the numbers."""

    verdict: Verdict
    evidence: str


@dataclasses.dataclass(frozen=True)
class Evidence:
    """Where findings come from.

    kept: the runs. scale: theirs; None: for each claim the nearest to the paper's with enough runs,
    which is never `scales.SMOKE`. reported: numbers. benchmarks: directory of the JSON files that
    benchmarks wrote. warn: told of those that cannot be used.
    """

    kept: KeptRuns
    scale: str | None
    reported: ReportedNumbers
    benchmarks: pathlib.Path
    warn: Warn

    def scales(self, paper: Paper) -> tuple[str, ...]:
        """The scales to look for runs at, in this order."""
        return (self.scale,) if self.scale else selection.deciding_scales(paper, self.kept)

    def benchmark(self, name: str):
        """What benchmarks/NAME.json holds; None, with a warning, if it cannot be read."""
        path = self.benchmarks / f"{name}.json"
        try:
            return json.loads(path.read_text())
        except ValueError as error:
            self.warn(f"{path}:{getattr(error, 'lineno', 1)}: is not JSON: left out")
        except OSError as error:
            self.warn(f"{path}: cannot be read ({error.strerror}): left out")
        return None


class Test(Protocol):
    """Decides a claim."""

    rule: str
    """By which it decides, a sentence."""
    basis: Basis

    def find(self, paper: Paper, experiment: Experiment | None, evidence: Evidence) -> Finding:
        """Returns the verdict with its evidence.

        Args:
          experiment: that the claim is about; None if there is none.
        """


@dataclasses.dataclass(frozen=True)
class Claim:
    """A statement of a paper.

    name: unique within the paper, and short. text: what the paper says, close to its words.
    source: "section 4.1, figure 2". experiment: in the registry, that shows it; "" if none does.
    test: decides it.
    """

    name: str
    text: str
    source: str
    experiment: str
    test: Test

    def judge(self, paper: Paper, evidence: Evidence) -> Finding:
        """The verdict; a file of reported numbers with a malformed row leaves the claim open.

        Without that row it might read as the opposite.
        """
        experiment = paper.experiment(self.experiment) if self.experiment else None
        strict = dataclasses.replace(evidence.reported, warn=refuse)
        try:
            return self.test.find(paper, experiment, dataclasses.replace(evidence, reported=strict))
        except ReportedError as error:
            evidence.warn(str(error))
            return Finding(Verdict.OPEN, str(error))


@dataclasses.dataclass(frozen=True)
class Check:
    """Decides by a function: True, False, or None if it cannot; and the numbers that it saw.

    rule: a sentence. basis: what the function looks at.
    """

    function: Callable[[Evidence], tuple[bool | None, str]]
    rule: str
    basis: Basis = Basis.PAPER

    def find(self, paper: Paper, experiment: Experiment | None, evidence: Evidence) -> Finding:
        """See `Test`."""
        holds, words = self.function(evidence)
        verdicts = {True: Verdict.HOLDS, False: Verdict.FAILS, None: Verdict.OPEN}
        return Finding(verdicts[holds], words)


@functools.cache
def of(paper: str) -> tuple[Claim, ...]:
    """The claims of a paper, in the order of the paper."""
    return importlib.import_module(f"reproductions.{paper}.claims").CLAIMS
