"""The plan of an experiment: which runs are finished, cut or missing, and the time they take."""

from collections.abc import Callable, Iterable, Sequence
import contextlib
import dataclasses
import operator
import pathlib
import sys

from common.experiments import status
from common.experiments.paper import Experiment, Paper, Run, UnknownError, run_folder, run_path
from common.experiments.scales import Scale
from common.experiments.status import Progress, State, Status
from common.reporting.budget import Budget
from common.reporting.records import as_typed
from common.reporting.user_error import UserError

DEFAULT_SCALE = "workstation"
"""The scale of new runs, if none is asked for."""
_START_MINUTES = 0.5
"""The time of each run beside its budget: starting processes, compiling, the last evaluation."""


class Speeds:
    """The measured speeds of runs at a scale.

    Args:
      folders: of the scale, below each root of runs.
    """

    def __init__(self, folders: Iterable[pathlib.Path]):
        self._done: dict[tuple[str, ...], Progress] = {}
        for folder in folders:
            for path in folder.glob("*/*/seed_*/learner.csv"):
                with contextlib.suppress(UserError):  # the plan of this run names the error
                    self._add(path.parts[-4:-2], status.read_progress(path.parent))

    def add(self, run: Run, progress: Progress) -> None:
        """Adds a run that has just ended."""
        self._add((run.setting, run_folder(run.environment)), progress)

    def of(self, setting: str, environment: str) -> tuple[float, float]:
        """Returns actor and learner steps a minute, 0 if they are unknown.

        Those of runs of the same setting and environment; else of the same setting; else of all.
        """
        keys = ((setting, run_folder(environment)), (setting,), ())
        seconds, *steps = next((self._done[key] for key in keys if key in self._done), Progress())
        return tuple(60 * one / seconds if seconds else 0.0 for one in steps)

    def _add(self, place: tuple[str, ...], progress: Progress) -> None:
        for key in (place, place[:1], ()):
            before = self._done.get(key, Progress())
            self._done[key] = Progress(*map(operator.add, before, progress))


@dataclasses.dataclass(frozen=True)
class PlannedRun:
    """A run of a scale and a seed.

    Attributes:
      run: curve and environment.
      seed: of the run.
      directory: where it will be made; where it is, if it is finished.
      scale: of the run.
      budget: its limits.
      flags: arguments of its program, except limits, workdir and what only run.json shows.
      changes: what differs from the paper's run, a phrase each.
      status: how far it was when the plan was made.
      minutes: that it still needs; None if that is unknown.
    """

    run: Run
    seed: int
    directory: pathlib.Path
    scale: Scale
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
            self.run.agent.module,
            *self.flags,
            *self.budget.flags,
            f"--scale={self.scale.name}",
            *changes,
            f"--workdir={self.directory}",
        ]

    def read_status(self) -> Status:
        """Returns the status of the run at this moment."""
        return status.read_status(self.directory, self.budget, self.flags, self.scale.is_compact)


@dataclasses.dataclass(frozen=True)
class Plan:
    """An experiment's runs at a scale.

    They are in order of seeds and then of tasks, so that there is soon something to see.

    Attributes:
      paper: of the experiment.
      experiment: with the runs that it has at the scale.
      scale: with the budget that it has for the experiment.
      runs: in order.
      speeds: by which minutes are estimated.
    """

    paper: Paper
    experiment: Experiment
    scale: Scale
    runs: tuple[PlannedRun, ...]
    speeds: Speeds

    def of(self, *states: State) -> tuple[PlannedRun, ...]:
        """Returns the runs that are in one of these states."""
        return tuple(run for run in self.runs if run.status.state in states)

    def minutes_of(self, planned: PlannedRun, progress: Progress) -> float | None:
        """Returns the time that a run needs which has done so much; None if it is unknown."""
        speeds = self.speeds.of(planned.run.setting, planned.run.environment)
        return minutes_left(planned.budget, progress, speeds, self.scale)

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
      num_seeds: seeds are 0 to num_seeds - 1; None: as many as the experiment has at the scale.

    Raises:
      UnknownError: the experiment has no such task or setting, and the message lists all.
    """
    scale, num_seeds = experiment.scaled(scale), num_seeds or experiment.seeds_at(scale.name)
    experiment = experiment.at(scale.name)
    tasks = _chosen(experiment, "task", tasks, experiment.environments, _without_suite)
    settings = _chosen(experiment, "setting", settings, experiment.settings, str)
    runs = sorted(
        (run for run in experiment.runs if run.environment in tasks and run.setting in settings),
        key=lambda run: experiment.environments.index(run.environment),
    )
    speeds = Speeds([root / paper.name / scale.name for root in roots])
    planned = (
        _plan_run(paper, experiment, scale, roots, speeds, run, seed)
        for seed in range(num_seeds)
        for run in runs
    )
    return Plan(paper, experiment, scale, tuple(planned), speeds)


def _plan_run(
    paper: Paper,
    experiment: Experiment,
    scale: Scale,
    roots: Sequence[pathlib.Path],
    speeds: Speeds,
    run: Run,
    seed: int,
) -> PlannedRun:
    reported = experiment.budget_of(run)
    budget = scale.budget_of(reported)
    flags = (
        f"--environment={run.environment}",
        f"--seed={seed}",
        *run.flags,
        *scale.flags,
        *(change.flag for change in scale.changes_of(run.agent, run.choices)),
    )
    path = run_path(paper.name, scale.name, run.setting, run.environment, seed)
    places = [root / path for root in roots]
    found = [(one, status.read_status(one, budget, flags, scale.is_compact)) for one in places]
    decisive = (
        (State.FINISHED, State.UNUSABLE)
        if found[0][1].state is State.MISSING
        else (State.FINISHED,)
    )
    directory, seen = next((one for one in found if one[1].state in decisive), found[0])
    changes = tuple(scale.differences(reported, run.agent, run.choices, experiment.states_budget))
    speed = speeds.of(run.setting, run.environment)
    minutes = minutes_left(budget, seen.progress, speed, scale)
    return PlannedRun(run, seed, directory, scale, budget, flags, changes, seen, minutes)


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


def minutes_left(
    budget: Budget, progress: Progress, speeds: tuple[float, float], scale: Scale
) -> float | None:
    """Returns the time that a run needs; None if it is unknown.

    Args:
      budget: of the run.
      progress: what it has done.
      speeds: as of `Speeds.of`.
      scale: of the run, which may say the minutes of one until a speed is measured.
    """
    left = []
    if budget.minutes is not None:
        left.append(budget.minutes - progress.wall_seconds / 60)
    limits = (budget.actor_steps, budget.learner_steps)
    left += [
        (limit - done) / speed
        for limit, done, speed in zip(limits, progress[1:], speeds)
        if limit is not None and speed
    ]
    return max(0.0, min(left)) + _START_MINUTES if left else scale.tried_minutes
