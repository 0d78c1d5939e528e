"""What a paper's figures and tables are made of: named lists of runs.

The lists themselves are in `reproductions/<paper>/experiments.py`, as `PAPER`. A run is kept in

    <root>/<paper>/<scale>/<setting>/<environment, "-" for ":">/seed_<n>/
"""

from collections.abc import Mapping
import dataclasses
import enum
import functools
import importlib
import importlib.util
import pathlib
import re
from typing import Any

from common.experiments.scales import Scale
from common.reporting.budget import Budget
import reproductions

RESULTS = pathlib.Path(reproductions.__file__).resolve().parents[1] / "results"
"""The repository's: `runs/` is the root of the runs that are kept."""

EXPERIMENTS_FILE = "experiments.py"

EPISODE_RETURN = "episode_return_mean"
"""The column of evaluator.csv; what is read from acting.csv has the same name."""


class UnknownError(ValueError):
    """There is no paper, experiment, scale, task or setting of that name; lists those there are."""


class Returns(enum.StrEnum):
    """Whose episodes a figure or a table shows."""

    EVALUATOR = "the evaluator, without the actors' exploration (evaluator.csv)"
    GREEDIEST_ACTOR = "the greediest actor in training (acting.csv, the last actor)"
    ALL_ACTORS = "all actors in training (acting.csv)"


class Band(enum.StrEnum):
    """What the paper shades around a curve, or draws at a bar; of ours it is over seeds."""

    UNSTATED = "not said"
    PERCENTILES_20_80 = "20th to 80th percentile"
    PERCENTILES_20_80_OF_EPISODES = "20th to 80th percentile of all episodes"
    STANDARD_ERROR = "standard error"


class OverTasks(enum.StrEnum):
    """How a figure or a table brings its tasks together."""

    APART = "a panel, bar or row each"
    MEAN = "mean over tasks"
    MEDIAN_NORMALISED = "median over games of human-normalised scores"


@dataclasses.dataclass(frozen=True)
class Program:
    """An agent's program.

    title: of the agent. module: in `binaries`. parameters: of its networks together, at most, for
    the estimate of disk.
    """

    title: str
    module: str
    parameters: int

    @functools.cached_property
    def exists(self) -> bool:
        """Whether the agent is implemented."""
        return importlib.util.find_spec(self.module) is not None


@dataclasses.dataclass(frozen=True)
class Run:
    """A curve on one environment; with a scale and a seed it is a run directory.

    setting: names the curve and its directory, and is unique for what `flags` say.
    environment: as given to `common.environments.make`.
    flags: what makes the setting: arguments of the program beside environment, seed, workdir,
      limits and what the scale adds, over which they win.
    budget: the paper's, where it is not that of the whole experiment.
    fixed: flags, without their values, that a setting among `flags` stands for, or that must stay
      the paper's for the comparison's sake: a scale leaves them alone.
    """

    program: Program
    setting: str
    environment: str
    flags: tuple[str, ...]
    budget: Budget | None = None
    fixed: tuple[str, ...] = ()

    @property
    def choices(self) -> tuple[str, ...]:
        """Flags that no scale changes."""
        return (*self.flags, *self.fixed)


@dataclasses.dataclass(frozen=True)
class Reference:
    """A number of the paper to draw a line at: where results/reported/<paper>.csv has it.

    source, row, column: of that file. label: for the legend.
    """

    source: str
    row: str
    column: str
    label: str


@dataclasses.dataclass(frozen=True)
class Part:
    """A half of a figure, or a row of it, with panels of its own.

    name: "left", "right", "row N = 1", for the text below the figure.
    settings, environments: of the figure's runs it shows those; empty: all.
    others: fields of `Experiment` that are other ones in this part, by name.
    """

    name: str
    settings: tuple[str, ...] = ()
    environments: tuple[str, ...] = ()
    others: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Substitute:
    """What stands for an experiment's runs at a scale for which there are too many, or too large.

    runs: as `Experiment.runs`. note: which these are, a phrase. budget: of each run; None: the
    scale's. seeds: how many of ours there are by default; None: as many as the experiment has.
    """

    runs: tuple[Run, ...]
    note: str = ""
    budget: Budget | None = None
    seeds: int | None = None


@dataclasses.dataclass(frozen=True)
class Experiment:
    """A figure or a table of a paper, or what a section tells without either.

    paper: directory in `reproductions`.
    name: "figure 2", "table 1", "section E".
    title: what it shows, a phrase.
    runs: of one seed, in the order of the paper's legend and panels. Empty where there is nothing
      to run.
    budget: of a run, the paper's. states_budget: whether the paper says it; else it is ours.
    returns: whose episodes; `x`: column of evaluator.csv on the horizontal axis (a table, or a
      figure of final performance, has none: ""); `y`: what is on the vertical one,
      `EPISODE_RETURN` or a column of learner.csv.
    over_tasks, band: how tasks are brought together, what is shaded.
    seeds: how many the paper has; None where it does not say.
    references: lines of reported numbers.
    parts: its halves or rows, as the paper arranges it; empty: it is one whole.
    substitutes: by the names of scales.
    note: what the paper's text leaves open, and what was taken.
    unavailable: why it cannot be run here, or why there is nothing to run; "" if it can be.
    """

    paper: str
    name: str
    title: str
    runs: tuple[Run, ...] = ()
    budget: Budget = Budget()
    states_budget: bool = True
    returns: Returns = Returns.EVALUATOR
    x: str = "wall_seconds"
    y: str = EPISODE_RETURN
    over_tasks: OverTasks = OverTasks.APART
    band: Band = Band.UNSTATED
    seeds: int | None = None
    references: tuple[Reference, ...] = ()
    parts: tuple[Part, ...] = ()
    substitutes: Mapping[str, Substitute] = dataclasses.field(default_factory=dict)
    note: str = ""
    unavailable: str = ""

    @property
    def is_of_returns(self) -> bool:
        """Whether it shows returns, not a column of learner.csv."""
        return self.y == EPISODE_RETURN

    def budget_of(self, run: Run) -> Budget:
        """The paper's budget of one of the runs."""
        return self.budget if run.budget is None else run.budget

    @property
    def every_run(self) -> tuple[Run, ...]:
        """`runs`, and those that stand for them at some scales."""
        return self.runs + tuple(
            run for substitute in self.substitutes.values() for run in substitute.runs
        )

    def substitute(self, scale: str) -> Substitute:
        """What stands for its runs at a scale: they themselves where nothing is said."""
        return self.substitutes.get(scale, Substitute(self.runs))

    def at(self, scale: str) -> "Experiment":
        """The experiment with the runs that it has at a scale."""
        of = self.substitute(scale)
        return dataclasses.replace(
            self, runs=of.runs, substitutes={}, note="; ".join(filter(None, [self.note, of.note]))
        )

    def divided(self) -> tuple["Experiment", ...]:
        """Each part as an experiment; itself if it has none."""
        return tuple(self._of_part(part) for part in self.parts) or (self,)

    def _of_part(self, part: Part) -> "Experiment":
        runs = tuple(
            run
            for run in self.runs
            if run.setting in (part.settings or self.settings)
            and run.environment in (part.environments or self.environments)
        )
        return dataclasses.replace(self, runs=runs, parts=(), **part.others)

    @property
    def settings(self) -> tuple[str, ...]:
        """The curves, in their order."""
        return tuple(dict.fromkeys(run.setting for run in self.runs))

    @property
    def environments(self) -> tuple[str, ...]:
        """The panels, in their order."""
        return tuple(dict.fromkeys(run.environment for run in self.runs))


@dataclasses.dataclass(frozen=True)
class Paper:
    """A paper's experiments.

    name: directory in `reproductions`. title: of the agent, "D4PG". citation: "Author et al. 2018".
    programs: all that its runs use. experiments: figures, tables, sections, in the paper's order.
    scales: that its runs can have, the paper's own first.
    labels: a setting's text in legends, as the paper has it where it has one.
    """

    name: str
    title: str
    citation: str
    programs: tuple[Program, ...]
    experiments: tuple[Experiment, ...]
    scales: tuple[Scale, ...]
    labels: Mapping[str, str]

    def experiment(self, name: str) -> Experiment:
        """The experiment called `name`, e.g. "figure 2".

        Raises:
          UnknownError: there is none; the message lists all.
        """
        return _named(name, self.experiments, f"{self.title} has no {name}")

    def scale(self, name: str) -> Scale:
        """The scale called `name`.

        Raises:
          UnknownError: there is none; the message lists all.
        """
        return _named(name, self.scales, f"{self.title} has no scale {name}")

    def label(self, setting: str) -> str:
        """The setting's text in legends.

        A name that has none, "d4pg_uniform_n5_beta0", is that of the setting which it goes on
        from, and what it adds: "D4PG, Non-Prioritized, N = 5, beta = 0".
        """
        known = max(
            (name for name in self.labels if f"{setting}_".startswith(f"{name}_")),
            key=len,
            default="",
        )
        added = (
            re.sub(
                r"(?:^|(?<=_))([a-z]+)(-?\d[\d.e+-]*)(?:_|$)",
                r"\1 = \2, ",
                setting.removeprefix(known).strip("_"),
            )
            .replace("_", " ")
            .strip(", ")
        )
        return ", ".join(filter(None, [self.labels.get(known), added]))

    def obstacle(self, experiment: Experiment) -> str:
        """Why `experiment` cannot be run, or ""."""
        used = tuple(dict.fromkeys(run.program for run in experiment.runs)) or self.programs
        missing = [program.title for program in used if not program.exists]
        words = [f"not yet implemented: {', '.join(missing)}"] if missing else []
        return "; ".join(words + [experiment.unavailable] * bool(experiment.unavailable))


def paper_names() -> tuple[str, ...]:
    """Every paper that has experiments, sorted."""
    folders = (folder for root in reproductions.__path__ for folder in pathlib.Path(root).iterdir())
    return tuple(sorted(one.name for one in folders if (one / EXPERIMENTS_FILE).exists()))


def papers(name: str | None) -> tuple[Paper, ...]:
    """The paper of that name, or every one if it is None; raises as `paper`."""
    return tuple(paper(one) for one in ([name] if name else paper_names()))


def paper(name: str) -> Paper:
    """The paper of that name.

    Raises:
      UnknownError: there is none; the message lists all.
    """
    if name not in paper_names():
        raise UnknownError(f'unknown paper "{name}": there are {", ".join(paper_names())}')
    return importlib.import_module(f"reproductions.{name}.experiments").PAPER


def run_path(
    paper_name: str, scale: str, setting: str, environment: str, seed: int
) -> pathlib.PurePath:
    """Where a run is kept, below `RESULTS / "runs"` or any other root of runs."""
    folder = environment.replace(":", "-")
    return pathlib.PurePath(paper_name, scale, setting, folder, f"seed_{seed}")


def _named(name: str, candidates: tuple, problem: str):
    for candidate in candidates:
        if candidate.name == name:
            return candidate
    names = ", ".join(candidate.name for candidate in candidates)
    raise UnknownError(f"{problem}: there are {names}")
