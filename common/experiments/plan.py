"""What of an experiment is there, what is cut or missing, and what the rest will take."""

from collections.abc import Callable, Iterable, Sequence
import dataclasses
import pathlib
import sys

from common.experiments import registry, status
from common.experiments.registry import Experiment, Paper, Run, UnknownError
from common.experiments.scales import Scale
from common.experiments.status import Progress, State, Status
from common.program import available, resources
from common.reporting.budget import Budget
from common.reporting.provenance import as_typed
from common.reporting.run_directory import RunDirectoryError

DEFAULT_SCALE = "workstation"
"""Of runs to make, where none is asked for."""
DEFAULT_SEEDS = 3
"""Where the paper does not say how many."""
_START_MINUTES = 0.5
"""Of each run, beside its budget: starting processes, compiling, the last evaluation."""
_DISK_AT_START = 2 * 10**6
_DISK_AN_HOUR = 5 * 10**6
"""Bytes of CSV rows, TensorBoard events and logs; four times what was seen."""
_DEFAULT_HOURS = 24.0
"""The length of a run without a limit, for the estimate of its disk."""


class PlanError(ValueError):
    """The plan cannot be carried out; one line that says what to do."""


@dataclasses.dataclass(frozen=True)
class PlannedRun:
    """A run of a scale and a seed.

    directory: where it works; where it is, if it is finished.
    flags: arguments of its program, all but limits, workdir and the words for run.json.
    changes: what differs from the paper's run, a phrase each.
    minutes: that it still needs, None if that cannot be told. disk: bytes that it still needs.
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
    disk: int

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.run.setting} on {self.run.environment}, seed {self.seed}"

    @property
    def command(self) -> list[str]:
        """Starts the run, or goes on with it."""
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
        """How far it is by now."""
        return status.look(self.directory, self.budget, status.identity_of(self.flags))


@dataclasses.dataclass(frozen=True)
class Plan:
    """An experiment's runs at a scale.

    Seed by seed, and task by task within, so that there soon is something to see.
    """

    paper: Paper
    experiment: Experiment
    scale: Scale
    runs: tuple[PlannedRun, ...]

    def of(self, *states: State) -> tuple[PlannedRun, ...]:
        """The runs that are in one of these states."""
        return tuple(run for run in self.runs if run.status.state in states)

    @property
    def to_do(self) -> tuple[PlannedRun, ...]:
        """What is cut or missing, in order."""
        return self.of(State.CUT, State.MISSING)

    @property
    def minutes(self) -> float | None:
        """What the rest takes, one run after the other; None if that cannot be told."""
        parts = [run.minutes for run in self.to_do]
        return None if None in parts else sum(parts)

    @property
    def disk(self) -> int:
        """Bytes that the rest takes."""
        return sum(run.disk for run in self.to_do)


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
      scale: one of the paper's, or any other.
      roots: where runs are looked for; new ones, and those to go on with, are in the first.
      tasks: environments, with or without their suite; all if None.
      settings: curves; all if None.
      num_seeds: 0 to so many; if None the scale's number, else the paper's, or `DEFAULT_SEEDS`.

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


def disk_line(plan: Plan, root: pathlib.Path) -> str:
    """What the rest takes of the disk where `root` is, for people."""
    free = available.disk(root)
    needed = f"{resources.size(plan.disk)} of disk"
    return needed if free is None else f"{needed} of {resources.size(free)} free"


def check_disk(plan: Plan, root: pathlib.Path) -> None:
    """Checks that the rest fits on the disk where `root` is.

    Raises:
      PlanError: it would not fit.
    """
    free = available.disk(root)
    if free is not None and plan.disk > free:
        raise PlanError(
            f"not enough disk for {plan.experiment.name} of {plan.paper.title}: it needs about "
            f"{disk_line(plan, root)} at {root}: give --runs=DIR on another disk, or fewer "
            "--tasks, --settings or --seeds"
        )


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
    flags = (
        f"--environment={run.environment}",
        f"--seed={seed}",
        *run.flags,
        *(change.flag for change in scale.changes_of(run.program.module, run.choices)),
    )
    path = registry.run_path(paper.name, scale.name, run.setting, run.environment, seed)
    identity = status.identity_of(flags)
    found = [(root / path, status.look(root / path, budget, identity)) for root in roots]
    finished = (one for one in found if one[1].state is State.FINISHED)
    directory, seen = next(finished, found[0])
    minutes = _minutes_left(budget, seen.progress, speeds)
    return PlannedRun(
        run,
        seed,
        directory,
        scale.name,
        budget,
        flags,
        tuple(
            scale.differences(reported, run.program.module, run.choices, experiment.states_budget)
        ),
        seen,
        minutes,
        _disk_bytes(run.program.parameters, minutes),
    )


def _disk_bytes(parameters: int, minutes: float | None) -> int:
    """Returns the bytes of three checkpoints (two kept, one being written), rows and logs."""
    checkpoint = 4 * 4 * parameters  # networks, targets and two moments, float32
    hours = _DEFAULT_HOURS if minutes is None else minutes / 60
    return round(_DISK_AT_START + 3 * checkpoint + hours * _DISK_AN_HOUR)


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
    """Actor and learner steps a minute over all runs that are below; 0 where there are none."""
    runs = []
    for path in (path for folder in folders for path in folder.glob("*/*/seed_*/learner.csv")):
        try:
            runs.append(status.read_progress(path.parent))
        except RunDirectoryError:
            continue  # whoever plans this run is told
    minutes = sum(run.wall_seconds for run in runs) / 60
    if not minutes:
        return 0.0, 0.0
    return (
        sum(run.actor_steps for run in runs) / minutes,
        sum(run.learner_steps for run in runs) / minutes,
    )


def _minutes_left(budget: Budget, progress: Progress, speeds: tuple[float, float]) -> float | None:
    left = []
    if budget.minutes is not None:
        left.append(budget.minutes - progress.wall_seconds / 60)
    limits = (budget.actor_steps, budget.learner_steps)
    done = (progress.actor_steps, progress.learner_steps)
    left += [
        (limit - so_far) / speed
        for limit, so_far, speed in zip(limits, done, speeds)
        if limit is not None and speed
    ]
    return max(0.0, min(left)) + _START_MINUTES if left else None
