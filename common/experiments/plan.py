"""The plan of an experiment: which runs are finished, cut or missing, and the time they take."""

from collections.abc import Callable, Iterable, Sequence
import dataclasses
import pathlib
import sys

from common.experiments import status
from common.experiments.paper import Experiment, Paper, Run, UnknownError, run_path
from common.experiments.scales import Scale
from common.experiments.status import Progress, State, Status
from common.reporting.budget import Budget
from common.reporting.provenance import as_typed
from common.reporting.user_error import UserError

DEFAULT_SCALE = "workstation"
"""The scale of new runs, if none is asked for."""
DEFAULT_SEEDS = 3
"""The number of seeds if the paper does not say."""
_START_MINUTES = 0.5
"""The time of each run beside its budget: starting processes, compiling, the last evaluation."""


@dataclasses.dataclass(frozen=True)
class PlannedRun:
    """A run of a scale and a seed.

    Attributes:
      run: curve and environment.
      seed: of the run.
      directory: where it will be made; where it is, if it is finished.
      scale: name of the scale.
      budget: its limits.
      flags: arguments of its program, except limits, workdir and what only run.json shows.
      changes: what differs from the paper's run, a phrase each.
      status: how far it was when the plan was made.
      minutes: that it still needs; None if that is unknown.
    """

    run: Run
    seed: int
    directory: pathlib.Path
    scale: str
    budget: Budget
    flags: tuple[str, ...]
    changes: tuple[str, ...]
    status: Status
    minutes: float | None

    @property
    def name(self) -> str:
        """Setting, environment and seed in words."""
        return f"{self.run.setting} on {self.run.environment}, seed {self.seed}"

    @property
    def command(self) -> list[str]:
        """The command that starts or resumes the run."""
        changes = ["--scale_changes=" + "; ".join(self.changes)] if self.changes else []
        return [
            *as_typed([sys.executable]),
            "-m",
            self.run.program.module,
            *self.flags,
            *self.budget.flags,
            f"--scale={self.scale}",
            *changes,
            f"--workdir={self.directory}",
        ]

    def look(self) -> Status:
        """Returns how far it is now."""
        return status.look(self.directory, self.budget, status.identity_of(self.flags))


@dataclasses.dataclass(frozen=True)
class Plan:
    """An experiment's runs at a scale.

    They are in order of seeds and then of tasks, so that there is soon something to see.
    """

    paper: Paper
    experiment: Experiment
    scale: Scale
    runs: tuple[PlannedRun, ...]

    def of(self, *states: State) -> tuple[PlannedRun, ...]:
        """Returns the runs that are in one of these states."""
        return tuple(run for run in self.runs if run.status.state in states)

    @property
    def to_do(self) -> tuple[PlannedRun, ...]:
        """The cut and the missing runs, in order."""
        return self.of(State.CUT, State.MISSING)

    @property
    def minutes(self) -> float | None:
        """The time of the runs to do, one after the other; None if it is unknown."""
        parts = [run.minutes for run in self.to_do]
        return None if None in parts else sum(parts)


def make_plan(
    paper: Paper,
    experiment: Experiment,
    scale: Scale,
    roots: Sequence[pathlib.Path],
    tasks: Sequence[str] | None = None,
    settings: Sequence[str] | None = None,
    num_seeds: int | None = None,
) -> Plan:
    """Looks at the run directories and plans the rest; changes nothing.

    Args:
      paper: of the experiment.
      experiment: to run.
      scale: one of the paper's, or any other.
      roots: where runs are looked for; new and resumed ones are in the first.
      tasks: environments, with or without their suite; None: all.
      settings: curves; None: all.
      num_seeds: seeds are 0 to num_seeds - 1; None: the scale's number, else the paper's, else
        `DEFAULT_SEEDS`.

    Raises:
      UnknownError: the experiment has no such task or setting; the message lists all.
    """
    substitute = experiment.substitute(scale.name)
    if substitute.budget is not None:
        scale = dataclasses.replace(scale, budget=substitute.budget)
    experiment = experiment.at(scale.name)
    tasks = _chosen(experiment, "task", tasks, experiment.environments, _without_suite)
    settings = _chosen(experiment, "setting", settings, experiment.settings, str)
    seeds = range(num_seeds or substitute.seeds or experiment.seeds or DEFAULT_SEEDS)
    runs = sorted(
        (run for run in experiment.runs if run.environment in tasks and run.setting in settings),
        key=lambda run: experiment.environments.index(run.environment),
    )
    speeds = _speeds([root / paper.name / scale.name for root in roots])
    planned = (
        _plan_run(paper, experiment, scale, roots, speeds, run, seed)
        for seed in seeds
        for run in runs
    )
    return Plan(paper, experiment, scale, tuple(planned))


def _plan_run(
    paper: Paper,
    experiment: Experiment,
    scale: Scale,
    roots: Sequence[pathlib.Path],
    speeds: tuple[float, float],
    run: Run,
    seed: int,
) -> PlannedRun:
    reported = experiment.budget_of(run)
    budget = scale.budget_of(reported)
    module, choices = run.program.module, run.choices
    flags = (
        f"--environment={run.environment}",
        f"--seed={seed}",
        *run.flags,
        *(change.flag for change in scale.changes_of(module, choices)),
    )
    path = run_path(paper.name, scale.name, run.setting, run.environment, seed)
    identity = status.identity_of(flags)
    found = [(root / path, status.look(root / path, budget, identity)) for root in roots]
    finished = (one for one in found if one[1].state is State.FINISHED)
    directory, seen = next(finished, found[0])
    changes = tuple(scale.differences(reported, module, choices, experiment.states_budget))
    minutes = _minutes_left(budget, seen.progress, speeds)
    return PlannedRun(run, seed, directory, scale.name, budget, flags, changes, seen, minutes)


def _chosen(
    experiment: Experiment,
    what: str,
    wanted: Sequence[str] | None,
    there: Sequence[str],
    short: Callable[[str], str],
) -> Sequence[str]:
    if wanted is None:
        return there
    names = {short(name): name for name in there} | {name: name for name in there}
    for name in wanted:
        if name not in names:
            known = ", ".join(map(short, there))
            raise UnknownError(f'{experiment.name} has no {what} "{name}": there are {known}')
    return [names[name] for name in wanted]


def _without_suite(environment: str) -> str:
    return environment.partition(":")[2]


def _speeds(folders: Iterable[pathlib.Path]) -> tuple[float, float]:
    """Returns actor and learner steps a minute over all runs below; 0 if there are none."""
    runs = []
    for path in (path for folder in folders for path in folder.glob("*/*/seed_*/learner.csv")):
        try:
            runs.append(status.read_progress(path.parent))
        except UserError:
            continue  # the plan of this run names the error
    minutes = sum(run.wall_seconds for run in runs) / 60
    if not minutes:
        return 0.0, 0.0
    return tuple(sum(steps) / minutes for steps in list(zip(*runs))[1:])


def _minutes_left(budget: Budget, progress: Progress, speeds: tuple[float, float]) -> float | None:
    left = []
    if budget.minutes is not None:
        left.append(budget.minutes - progress.wall_seconds / 60)
    limits = (budget.actor_steps, budget.learner_steps)
    left += [
        (limit - done) / speed
        for limit, done, speed in zip(limits, progress[1:], speeds)
        if limit is not None and speed
    ]
    return max(0.0, min(left)) + _START_MINUTES if left else None
