"""A paper's figures and tables as named lists of runs, and the scales of these.

The lists are in `reproductions/<paper>/figures.toml`. A run is made in

    <root>/<paper>/<scale>/<setting>/<environment, "-" for ":">/seed_<n>/

Runs of different scales are in different tables once they are kept, and never meet in a figure.
"""

from collections.abc import Iterable, Mapping, Sequence
import dataclasses
import enum
import functools
import pathlib
from typing import TYPE_CHECKING, Any

from common.agents.declaration import AgentDeclaration
from common.reporting.budget import Budget
from common.user_error import UserError

if TYPE_CHECKING:
    from common.evidence.tables import OwnNumbers

RESULTS = pathlib.Path(__file__).parents[2] / "results"
"""This repository's; `runs/` is the root of the kept runs."""

DEFAULT_SCALE = "workstation"
"""The scale of new runs, if none is asked for."""
DEFAULT_SEEDS = 3
"""The number of seeds if neither the paper nor a substitute says."""

EPISODE_RETURN = "episode_return_mean"
"""The column of evaluator.csv; values that are read from acting.csv have the same name."""

SMOKE = "smoke"
"""The name of the scale whose runs only show that everything works."""
EARLIER = "_earlier"
"""The end of the name of a scale with runs that others of the same seeds have replaced."""


class UnknownError(UserError):
    """A name of no paper, experiment, scale, task or setting; the message lists those there are."""


class Returns(enum.StrEnum):
    """The episodes that a figure or a table shows."""

    EVALUATOR = "evaluations"
    """Without the actors' exploration: evaluator.csv."""
    GREEDIEST_ACTOR = "the greediest actor in training"
    """The last actor in acting.csv."""
    ALL_ACTORS = "all actors in training"
    """All of acting.csv."""

    @property
    def column(self) -> str:
        """The column of the table of training with their means."""
        return self.name.lower()


class Band(enum.StrEnum):
    """The shade around a paper's curves, or its error bars; here over the seeds of a curve."""

    UNSTATED = "25th to 75th percentile of seeds (the paper does not say)"
    PERCENTILES_20_80 = "20th to 80th percentile of seeds"
    STANDARD_ERROR = "standard error over seeds"


class OverTasks(enum.StrEnum):
    """The way in which a figure or a table combines its tasks."""

    APART = "a panel, bar or row each"
    MEAN = "mean over tasks"
    MEDIAN_NORMALISED = "median over games of human-normalised scores"


@dataclasses.dataclass(frozen=True)
class Run:
    """A curve on one environment; with a scale and a seed it is a run directory.

    Attributes:
      agent: the one that is run.
      setting: name of the curve and of its directory, unique for what `flags` say.
      environment: as given to `common.environments.make`.
      flags: arguments of the program that make the setting. They win over those of a scale, and
        are without environment, seed, workdir and limits.
      budget: the paper's, if it is not that of the whole experiment.
      fixed: flags, without their values, that the setting implies or that must stay the paper's
        for the comparison's sake: a scale leaves them alone.
    """

    agent: AgentDeclaration
    setting: str
    environment: str
    flags: tuple[str, ...]
    budget: Budget | None = None
    fixed: tuple[str, ...] = ()

    @property
    def curve(self) -> tuple[str, str]:
        """Setting and environment."""
        return self.setting, self.environment

    @property
    def agent_setting(self) -> str:
        """The setting among its flags."""
        return flag_values(self.flags).get("setting", "")

    @property
    def choices(self) -> tuple[str, ...]:
        """Flags that no scale changes."""
        return (*self.flags, *self.fixed)


@functools.cache  # a plan asks for each of thousands of runs, and a config is checked when made
def _defaults(agent: AgentDeclaration) -> tuple[dict[str, Any], int]:
    """Returns the hyperparameters of an agent's default setting, and its number of actors."""
    setting = agent.settings.default
    config = agent.settings.configuration(setting)
    return vars(config), agent.num_actors(config, setting)


@dataclasses.dataclass(frozen=True)
class Change:
    """An argument of a run's program that the paper's run does not have.

    Attributes:
      flag: "--num_actors=8".
      agent: whose runs change; None: those of all that the paper has.
    """

    flag: str
    agent: AgentDeclaration | None = None

    @property
    def name(self) -> str:
        """The flag's name: "num_actors"."""
        return flag_name(self.flag)

    @property
    def value(self) -> str:
        """The flag's value: "8"."""
        return self.flag.partition("=")[2]

    def reported(self, agent: AgentDeclaration) -> str:
        """Returns the value that an agent has otherwise; "" for a flag of the program's."""
        values, num_actors = _defaults(agent)
        if self.name == agent.num_actors_flag:
            return str(num_actors)
        return str(values.get(self.name.removeprefix("config."), ""))

    def words(self, agent: AgentDeclaration) -> str:
        """Returns the change of an agent's runs: "num_actors 8 instead of 32"."""
        reported = self.reported(agent)
        return f"{self.name} {self.value}" + f" instead of {reported}" * bool(reported)


@dataclasses.dataclass(frozen=True)
class Scale:
    """A size of runs.

    Attributes:
      name: also of the directory results/runs/<paper>/<name>/.
      title: what it is meant for, a phrase.
      budget: of each run; None leaves each experiment the paper's.
      changes: what else differs from the paper. A run's own flags win over them.
      flags: of every run, which the paper has so.
      is_compact: its runs are many, so they are thinned when they are kept, and end with an
        evaluation of their final parameters.
    """

    name: str
    title: str
    budget: Budget | None = None
    changes: tuple[Change, ...] = ()
    flags: tuple[str, ...] = ()
    is_compact: bool = False

    def budget_of(self, reported: Budget) -> Budget:
        """Returns the budget of a run whose paper gives it `reported`."""
        return reported if self.budget is None else self.budget

    def changes_of(self, agent: object, run_flags: Sequence[str]) -> tuple[Change, ...]:
        """Returns the changes that apply to a run of `agent` with these flags of its own."""
        own = {flag_name(flag) for flag in run_flags}
        return tuple(
            change
            for change in self.changes
            if change.agent in (None, agent) and change.name not in own
        )

    def differences(
        self,
        reported: Budget,
        agent: AgentDeclaration,
        run_flags: Sequence[str],
        is_stated: bool = True,
    ) -> list[str]:
        """Returns what differs from the paper's run, a phrase each; none at the paper's scale.

        Args:
          reported: the paper's budget.
          agent: of the run.
          run_flags: of the run's own.
          is_stated: whether `reported` is in the paper.
        """
        budget = self.budget_of(reported)
        whose = "" if is_stated else " (not in the paper)"
        words = [] if budget == reported else [f"{budget} instead of {reported}{whose}"]
        return words + [change.words(agent) for change in self.changes_of(agent, run_flags)]


PAPER_SCALE = Scale("paper", "the paper's actors and hours")


@dataclasses.dataclass(frozen=True)
class Reference:
    """A reported number at which a figure has a line.

    Attributes:
      source: of results/reported/<paper>.csv, as `row` and `column` are.
      row: the paper's.
      column: the paper's.
      label: text in the legend.
      days: the paper's column of training times, for a point in place of a line; "": a line.
    """

    source: str
    row: str
    column: str
    label: str
    days: str = ""


@dataclasses.dataclass(frozen=True)
class Part:
    """A half of a figure, or a row of it, with panels of its own.

    Attributes:
      name: "left" or "N = 1", for the text below the figure and, if it has curves of its own, above
        its panels.
      settings: the settings that this part shows; empty shows all.
      environments: the tasks that this part shows; empty shows all.
      overrides: fields of `Experiment` to replace in this part.
    """

    name: str
    settings: tuple[str, ...] = ()
    environments: tuple[str, ...] = ()
    overrides: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Substitute:
    """Runs that replace an experiment's at a scale for which those are too many or too large.

    Attributes:
      runs: as `Experiment.runs`.
      note: which these are, a phrase.
      budget: of each run; None: the scale's.
      seeds: the default number of seeds; None: as many as the experiment has.
      overrides: fields of `Experiment` to replace at this scale.
      is_evidence: whether its runs can decide claims; they cannot where they are one of many tasks.
    """

    runs: tuple[Run, ...]
    note: str = ""
    budget: Budget | None = None
    seeds: int | None = None
    overrides: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    is_evidence: bool = True


@dataclasses.dataclass(frozen=True)
class Experiment:
    """A figure or a table of a paper, or a result that a section tells without either.

    Attributes:
      name: "figure 2", "table 1", "section E".
      title: what it shows, a phrase.
      runs: of one seed, in the order of the paper's legend and panels; empty if there is nothing
        to run.
      budget: the paper's for a run.
      states_budget: whether the budget is in the paper; else it is ours.
      returns: which episodes it shows: the evaluator's, the greediest actor's or all actors'.
      x: column of evaluator.csv on the horizontal axis; "" for a table or final values.
      sizes: a number of each setting, called `size_name`, which is then on the horizontal axis of
        final values.
      size_name: in words.
      y: quantity on the vertical axis, `EPISODE_RETURN` or a column of learner.csv.
      over_tasks: how tasks are combined.
      is_of_ends: whether it shows a point for each method, its time and its final evaluations.
      smoothed: the number of points over which curves are smoothed.
      seeds: the paper's number; None if it does not say.
      references: lines of reported numbers.
      levels: of an environment, lines at numbers that are known, as (value, label).
      parts: its halves or rows, as the paper arranges it; empty: it is one whole.
      substitutes: by the names of scales.
      ours: of a table: our numbers for the paper's columns.
      note: what the paper's text leaves open, and what was taken.
      unavailable: why it cannot be run here, or why there is nothing to run; "" if it can be.
    """

    name: str
    title: str
    runs: tuple[Run, ...] = ()
    budget: Budget = Budget()
    states_budget: bool = True
    returns: Returns = Returns.EVALUATOR
    x: str = "wall_seconds"
    sizes: Mapping[str, float] = dataclasses.field(default_factory=dict)
    size_name: str = ""
    y: str = EPISODE_RETURN
    over_tasks: OverTasks = OverTasks.APART
    is_of_ends: bool = False
    smoothed: int = 1
    seeds: int | None = None
    references: tuple[Reference, ...] = ()
    levels: Mapping[str, tuple[tuple[float, str], ...]] = dataclasses.field(default_factory=dict)
    parts: tuple[Part, ...] = ()
    substitutes: Mapping[str, Substitute] = dataclasses.field(default_factory=dict)
    ours: "OwnNumbers | None" = None
    note: str = ""
    unavailable: str = ""

    @property
    def flag(self) -> str:
        """The argument that asks a program for it: "--figure=2", "--section=match"."""
        return f"--{self.name.replace(' ', '=')}"

    @property
    def is_of_returns(self) -> bool:
        """True if it shows returns, not a column of learner.csv."""
        return self.y == EPISODE_RETURN

    def budget_of(self, run: Run) -> Budget:
        """Returns the paper's budget of one of the runs."""
        return self.budget if run.budget is None else run.budget

    @property
    def every_run(self) -> tuple[Run, ...]:
        """`runs`, and those that replace them at some scales."""
        return self.runs + tuple(run for other in self.substitutes.values() for run in other.runs)

    def substitute(self, scale: str) -> Substitute:
        """Returns what replaces the runs at a scale; by default the runs themselves."""
        return self.substitutes.get(scale, Substitute(self.runs))

    def seeds_at(self, scale: str) -> int:
        """Returns the number of seeds at a scale."""
        return self.substitute(scale).seeds or self.seeds or DEFAULT_SEEDS

    def scaled(self, scale: Scale) -> Scale:
        """Returns a scale with the budget that it has for this experiment."""
        own = self.substitute(scale.name).budget
        return scale if own is None else dataclasses.replace(scale, budget=own)

    def at(self, scale: str) -> "Experiment":
        """Returns the experiment with the runs that it has at a scale."""
        substitute = self.substitute(scale)
        note = "; ".join(filter(None, [self.note, substitute.note]))
        return dataclasses.replace(
            self, runs=substitute.runs, substitutes={}, note=note, **substitute.overrides
        )

    def divided(self) -> tuple["Experiment", ...]:
        """Returns each part as an experiment; itself if it has none."""
        if not self.parts:
            return (self,)
        found = []
        for part in self.parts:
            settings = part.settings or self.settings
            tasks = part.environments or self.environments
            of_part = (run for run in self.runs if run.setting in settings)
            runs = tuple(run for run in of_part if run.environment in tasks)
            own = {"runs": runs, "parts": (), **part.overrides}
            found.append(dataclasses.replace(self, **own))
        return tuple(found)

    @property
    def settings(self) -> tuple[str, ...]:
        """The curves, in their order."""
        return tuple(dict.fromkeys(run.setting for run in self.runs))

    @property
    def environments(self) -> tuple[str, ...]:
        """The panels, in their order."""
        return tuple(dict.fromkeys(run.environment for run in self.runs))


@dataclasses.dataclass(frozen=True)
class Style:
    """The style of a line.

    Attributes:
      color: "#RRGGBB".
      line: matplotlib's name of the dashes.
      width: points.
    """

    color: str
    line: str = "-"
    width: float = 1.3


@dataclasses.dataclass(frozen=True)
class Look:
    """The look of a setting in figures.

    Attributes:
      label: text in legends.
      style: the same in all figures, but with other dashes where a setting before it has the same;
        None: in each figure the next free colour.
    """

    label: str
    style: Style | None = None


@dataclasses.dataclass(frozen=True)
class Paper:
    """A paper with its experiments.

    Attributes:
      name: of its directories in `reproductions` and results/runs, and of its file in
        results/reported.
      title: of the agent.
      citation: "Author et al. 2018".
      agents: all that its runs use.
      experiments: figures, tables and sections, in the paper's order.
      scales: that its runs can have, the paper's own first.
      looks: of its settings in figures, by name.
      band: the shade of its figures.
    """

    name: str
    title: str
    citation: str
    agents: tuple[AgentDeclaration, ...]
    experiments: tuple[Experiment, ...]
    scales: tuple[Scale, ...]
    looks: Mapping[str, Look]
    band: Band = Band.UNSTATED

    def experiment(self, name: str) -> Experiment:
        """Returns the experiment called `name`, such as "figure 2".

        Raises:
          UnknownError: there is none; the message lists all.
        """
        return _named(name, self.experiments, f"{self.title} has no {name}")

    def of_kind(self, kind: str) -> tuple[Experiment, ...]:
        """Returns the experiments of a kind: "figure", "table" or "section"."""
        return tuple(of for of in self.experiments if of.name.startswith(kind))

    def scale(self, name: str) -> Scale:
        """Returns the scale called `name`.

        Raises:
          UnknownError: there is none; the message lists all.
        """
        return _named(name, self.scales, f"{self.title} has no scale {name}")

    def label(self, setting: str) -> str:
        """Returns the setting's text in legends."""
        return self.looks[setting].label if setting in self.looks else setting


def flag_name(flag: str) -> str:
    """Returns "num_actors" for "--num_actors=8"."""
    return flag.removeprefix("--").partition("=")[0]


def flag_values(flags: Iterable[str]) -> dict[str, str]:
    """Returns the values of flags by name, of arguments such as "--config.n_step=3"."""
    return dict(flag.removeprefix("--").partition("=")[::2] for flag in flags)


def same_value(value: Any, text: str) -> bool:
    """Returns whether a value of JSON is the one that a flag's text says."""
    if isinstance(value, list):  # as "(128, 128)", "128,128" or "(128,)"
        texts = [part for part in text.strip("() ").split(",") if part]
        return len(texts) == len(value) and all(map(same_value, value, texts))
    try:
        return float(value) == float(text)
    except (TypeError, ValueError):
        return str(value).replace(" ", "").lower() == text.replace(" ", "").lower()


def run_path(paper: str, scale: str, setting: str, environment: str, seed: int) -> pathlib.PurePath:
    """Returns where a run is, below `RESULTS / "runs"` or any other root of runs."""
    return pathlib.PurePath(paper, scale, setting, run_folder(environment), f"seed_{seed}")


def run_folder(environment: str) -> str:
    """Returns the name of an environment's directories."""
    return environment.replace(":", "-")


def _named(name: str, candidates: tuple, problem: str):
    for candidate in candidates:
        if candidate.name == name:
            return candidate
    names = ", ".join(candidate.name for candidate in candidates)
    raise UnknownError(f"{problem}: there are {names}")
