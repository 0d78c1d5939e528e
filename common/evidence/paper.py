"""A paper's figures and tables as named lists of runs, and the scales of the runs.

The lists are in `reproductions/<paper>/figures.toml`. The directory of a run is

    <root>/<paper>/<scale>/<setting>/<environment, "-" for ":">/seed_<n>/

Kept runs of different scales are in different tables, and never in the same figure.
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
"""The directory of this repository's results. Its `runs/` is the root of the kept runs."""

DEFAULT_SCALE = "workstation"
"""The scale of new runs if the user names none."""
DEFAULT_SEEDS = 3
"""The number of seeds if neither the paper nor a substitute states it."""

EPISODE_RETURN = "episode_return_mean"
"""The column of returns in evaluator.csv. Returns that are read from acting.csv have this name."""

SMOKE = "smoke"
"""The name of the scale whose runs only show that everything works."""
EARLIER = "_earlier"
"""The suffix of a scale whose runs have been replaced by other runs of the same seeds."""


class UnknownError(UserError):
    """An unknown paper, experiment, scale, task or setting; the message lists the known names."""


class Returns(enum.StrEnum):
    """The episodes whose returns a figure or a table shows."""

    EVALUATOR = "evaluations"
    """The evaluator's episodes, without exploration, in evaluator.csv."""
    GREEDIEST_ACTOR = "the greediest actor in training"
    """The episodes of the last actor in acting.csv."""
    ALL_ACTORS = "all actors in training"
    """All episodes in acting.csv."""

    @property
    def column(self) -> str:
        """The column of the means of these returns in the table of training."""
        return self.name.lower()


class Band(enum.StrEnum):
    """The band around a paper's curves, or its error bars; ours are over the seeds of a curve."""

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
    """A curve on one environment. With a scale and a seed it identifies a run directory.

    Attributes:
      agent: the agent that is run.
      setting: name of the curve and of its directory; different `flags` have different names.
      environment: name of the environment, as given to `common.environments.make`.
      flags: arguments of the program that select the setting, without environment, seed, workdir
        and limits. They override a scale's flags.
      budget: the paper's limits of this run; None: the experiment's.
      fixed: flags, without values, that a scale must not change: the setting implies them, or the
        comparison needs the paper's values.
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
        """The agent's setting, from `flags`; "" if they have none."""
        return flag_values(self.flags).get("setting", "")

    @property
    def choices(self) -> tuple[str, ...]:
        """Flags that no scale changes."""
        return (*self.flags, *self.fixed)


@functools.cache  # called for each of thousands of runs, and each new config is validated
def _defaults(agent: AgentDeclaration) -> tuple[dict[str, Any], int]:
    """Returns the hyperparameters of an agent's default setting, and its number of actors."""
    setting = agent.settings.default
    config = agent.settings.configuration(setting)
    return vars(config), agent.num_actors(config, setting)


@dataclasses.dataclass(frozen=True)
class Change:
    """A program argument of a scale's runs that the paper's runs do not have.

    Attributes:
      flag: the argument, such as "--num_actors=8".
      agent: the agent whose runs change; None: all agents of the paper.
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
        """Returns an agent's default for the flag; "" for a flag of the program, not the agent."""
        values, num_actors = _defaults(agent)
        if self.name == agent.num_actors_flag:
            return str(num_actors)
        return str(values.get(self.name.removeprefix("config."), ""))

    def words(self, agent: AgentDeclaration) -> str:
        """Returns the change of an agent's runs in words: "num_actors 8 instead of 32"."""
        reported = self.reported(agent)
        return f"{self.name} {self.value}" + f" instead of {reported}" * bool(reported)


@dataclasses.dataclass(frozen=True)
class Scale:
    """A size of runs, relative to the paper's.

    Attributes:
      name: name of the scale, also of its run directories and tables of kept runs.
      title: a phrase that says what the scale is for.
      budget: limits of each run; None: the paper's limits of the experiment.
      changes: other differences from the paper. A run's own flags override them.
      flags: flags of every run that are not counted as differences from the paper.
      is_compact: whether the scale has many runs. They are finished only once their final
        parameters are evaluated, a campaign removes their directories once they are kept, and only
        an experiment with a `Substitute` has such runs.
    """

    name: str
    title: str
    budget: Budget | None = None
    changes: tuple[Change, ...] = ()
    flags: tuple[str, ...] = ()
    is_compact: bool = False

    def budget_of(self, reported: Budget) -> Budget:
        """Returns the budget at this scale of a run with the budget `reported` in the paper."""
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
        """Returns a phrase for each difference from the paper's run; none at the paper's scale.

        Args:
          reported: the paper's budget.
          agent: the agent of the run.
          run_flags: the run's own flags, which the scale does not change.
          is_stated: whether the paper states `reported`.
        """
        budget = self.budget_of(reported)
        whose = "" if is_stated else " (not in the paper)"
        words = [] if budget == reported else [f"{budget} instead of {reported}{whose}"]
        return words + [change.words(agent) for change in self.changes_of(agent, run_flags)]


PAPER_SCALE = Scale("paper", "the paper's actors and hours")


@dataclasses.dataclass(frozen=True)
class Reference:
    """A reported number that a figure shows as a line or a point.

    Attributes:
      source: where the paper reports it, as in the column source of results/reported/<paper>.csv.
      row: row of the paper's table.
      column: column of the paper's table.
      label: text in the legend.
      days: column of the paper's training times in days; the number is then a point at its time.
        "": it is a line.
    """

    source: str
    row: str
    column: str
    label: str
    days: str = ""


@dataclasses.dataclass(frozen=True)
class Part:
    """A half or a row of a figure, with its own panels.

    Attributes:
      name: "left" or "N = 1", for the text below the figure and, if the part names its `settings`,
        above its panels.
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
    """Runs that replace an experiment's runs where these are too many or too large for a scale.

    Attributes:
      runs: as `Experiment.runs`.
      note: a phrase that says which runs these are.
      budget: limits of each run; None: the scale's.
      seeds: default number of seeds; None: the experiment's.
      overrides: fields of `Experiment` to replace at this scale.
      is_evidence: whether the runs can decide claims; False where they cover one of many tasks.
    """

    runs: tuple[Run, ...]
    note: str = ""
    budget: Budget | None = None
    seeds: int | None = None
    overrides: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    is_evidence: bool = True


@dataclasses.dataclass(frozen=True)
class Experiment:
    """A figure or a table of a paper, or a result that a section reports without either.

    Attributes:
      name: "figure 2", "table 1", "section E".
      title: a phrase that says what it shows.
      runs: the runs of one seed, in the order of the paper's legend and panels; empty if there is
        nothing to run.
      budget: the paper's limits of a run.
      states_budget: whether the paper states the budget; otherwise we chose it.
      returns: which episodes it shows: the evaluator's, the greediest actor's or all actors'.
      x: column of evaluator.csv on the horizontal axis; "" for a table or final values.
      sizes: {setting: size} if final values are drawn over sizes; else empty.
      size_name: label of the axis of sizes.
      y: quantity on the vertical axis, `EPISODE_RETURN` or a column of learner.csv.
      over_tasks: how tasks are combined.
      is_of_ends: whether it shows a point for each method: its final evaluations at its run time.
      smoothed: the number of points over which curves are smoothed.
      seeds: the paper's number of seeds; None if it is not stated.
      references: reported numbers to draw.
      levels: {environment: (value, label) of each known number at which to draw a line}.
      parts: its halves or rows, as the paper arranges it; empty: it is not divided.
      substitutes: {scale: the runs that replace `runs` at the scale}.
      ours: source of our numbers for a table's columns; None if there are none.
      note: what the paper's text leaves open, and what we chose.
      unavailable: why it cannot be run here, or why there is nothing to run; "" if it can be run.
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
        """The program argument that selects it: "--figure=2", "--section=match"."""
        return f"--{self.name.replace(' ', '=')}"

    @property
    def is_of_returns(self) -> bool:
        """True if it shows returns, not a column of learner.csv."""
        return self.y == EPISODE_RETURN

    @property
    def clock(self) -> str:
        """The column along which its runs are followed, also without a horizontal axis."""
        return self.x or self.budget.clock

    def budget_of(self, run: Run) -> Budget:
        """Returns the paper's budget for a run."""
        return self.budget if run.budget is None else run.budget

    @property
    def every_run(self) -> tuple[Run, ...]:
        """All `runs`, and the runs that replace them at some scales."""
        return self.runs + tuple(run for other in self.substitutes.values() for run in other.runs)

    def substitute(self, scale: str) -> Substitute:
        """Returns the substitute at a scale; if there is none, one with the same runs."""
        return self.substitutes.get(scale, Substitute(self.runs))

    def seeds_at(self, scale: str) -> int:
        """Returns the number of seeds at a scale."""
        return self.substitute(scale).seeds or self.seeds or DEFAULT_SEEDS

    def scaled(self, scale: Scale) -> Scale:
        """Returns a scale with the budget of this experiment's substitute, if that has one."""
        own = self.substitute(scale.name).budget
        return scale if own is None else dataclasses.replace(scale, budget=own)

    def at(self, scale: str) -> "Experiment":
        """Returns the experiment with its runs and fields at a scale."""
        substitute = self.substitute(scale)
        note = "; ".join(filter(None, [self.note, substitute.note]))
        return dataclasses.replace(
            self, runs=substitute.runs, substitutes={}, note=note, **substitute.overrides
        )

    def divided(self) -> tuple["Experiment", ...]:
        """Returns each part as an experiment; the experiment itself if it has no parts."""
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
        """The settings of the curves, in order."""
        return tuple(dict.fromkeys(run.setting for run in self.runs))

    @property
    def environments(self) -> tuple[str, ...]:
        """The environments of the panels, in order."""
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
      style: style in all figures, with other dashes where an earlier setting has the same style;
        None: the next free colour of each figure.
    """

    label: str
    style: Style | None = None


@dataclasses.dataclass(frozen=True)
class Paper:
    """A paper with its experiments.

    Attributes:
      name: name of its directories in `reproductions` and results/runs, and of its file in
        results/reported.
      title: the agent's name for readers, such as "D4PG".
      citation: "Author et al. 2018".
      agents: all agents that its runs use.
      experiments: figures, tables and sections, each kind in the paper's order.
      scales: the scales that its runs can have, the paper's own first.
      looks: {setting: its look in figures}.
      band: the bands or error bars of its figures.
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
          UnknownError: there is no such experiment; the message lists all.
        """
        return _named(name, self.experiments, f"{self.title} has no {name}")

    def of_kind(self, kind: str) -> tuple[Experiment, ...]:
        """Returns the experiments of a kind: "figure", "table" or "section"."""
        return tuple(of for of in self.experiments if of.name.startswith(kind))

    def scale(self, name: str) -> Scale:
        """Returns the scale called `name`.

        Raises:
          UnknownError: there is no such scale; the message lists all.
        """
        return _named(name, self.scales, f"{self.title} has no scale {name}")

    def label(self, setting: str) -> str:
        """Returns the setting's text in legends."""
        return self.looks[setting].label if setting in self.looks else setting


def flag_name(flag: str) -> str:
    """Returns "num_actors" for "--num_actors=8"."""
    return flag.removeprefix("--").partition("=")[0]


def flag_values(flags: Iterable[str]) -> dict[str, str]:
    """Returns {name: value} of flags such as "--config.n_step=3"."""
    return dict(flag.removeprefix("--").partition("=")[::2] for flag in flags)


def same_value(value: Any, text: str) -> bool:
    """Returns whether a JSON value equals the value in a flag's text."""
    if isinstance(value, list | tuple):  # as "(128, 128)", "128,128" or "(128,)"
        texts = [part for part in text.strip("() ").split(",") if part]
        return len(texts) == len(value) and all(map(same_value, value, texts))
    try:
        return float(value) == float(text)
    except (TypeError, ValueError):
        return str(value).replace(" ", "").lower() == text.replace(" ", "").lower()


def run_path(paper: str, scale: str, setting: str, environment: str, seed: int) -> pathlib.PurePath:
    """Returns a run's directory relative to the root of the run directories."""
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
