"""Plans of an experiment: which runs are finished, cut or missing, and the time still needed."""

from collections.abc import Iterable, Mapping, Sequence
import contextlib
import dataclasses
import enum
import itertools
import operator
import pathlib
import reprlib
import sys
from typing import Any

from common.config import changeable
from common.evidence.paper import (
    Experiment,
    Paper,
    Run,
    Scale,
    UnknownError,
    flag_name,
    flag_values,
    run_folder,
    run_path,
    same_value,
)
from common.evidence.runs import IN_ORDER, KeptRun, KeptRuns, Key, Progress, words_of
from common.reporting import csv_rows
from common.reporting.budget import Budget
from common.reporting.records import as_typed
from common.reporting.run_directory import (
    RunDirectory,
    RunDirectoryError,
    RunInUseError,
    differences,
    listed,
    with_earlier,
)
from common.user_error import UserError

_START_MINUTES = 0.5
"""Minutes of a run in addition to its budget: starting processes, compiling, a last evaluation."""


class State(enum.StrEnum):
    """The state of a run."""

    FINISHED = "finished"
    CUT = "cut"
    MISSING = "missing"
    RUNNING = "running"
    UNUSABLE = "unusable"


@dataclasses.dataclass(frozen=True)
class Status:
    """The status of a run.

    Attributes:
      state: whether the run is finished, cut, missing, running or unusable.
      progress: the time and steps that the run has done; zeros where they are unknown.
      note: why the run is unusable or already running, and what to do, in one line; else "".
      is_kept: whether this is the status of a kept run rather than of a run directory.
    """

    state: State
    progress: Progress = Progress()
    note: str = ""
    is_kept: bool = False


def last_progress(path: pathlib.Path) -> Progress:
    """Returns the progress in the last row of learner.csv or evaluator.csv; zeros without a row.

    Raises:
      CsvError: the row is damaged.
    """
    row = csv_rows.last_row(path, Progress._fields)
    return Progress() if row is None else Progress(*(row[name] for name in Progress._fields))


class Speeds:
    """The measured speeds of runs at a scale.

    Args:
      kept: the kept runs of the scale.
      folder: root of the scale's run directories; None if there are none.
    """

    def __init__(self, kept: Iterable[KeptRun], folder: pathlib.Path | None = None):
        self._done: dict[tuple[str, ...], Progress] = {}
        for run in kept:
            self.add(run, run.progress)
        for path in folder.glob("*/*/seed_*/learner.csv") if folder else ():
            with contextlib.suppress(UserError):  # planning this run reports the error
                self._add(path.parts[-4:-2], last_progress(path))

    def add(self, run: Run | KeptRun, progress: Progress) -> None:
        """Adds the time and the steps of a run that has ended."""
        self._add((run.setting, run_folder(run.environment)), progress)

    def minutes_left(
        self, curve: tuple[str, str], budget: Budget, progress: Progress
    ) -> float | None:
        """Returns the minutes that a run with this progress still needs; None if unknown.

        The estimate uses the speeds of runs of the same setting and environment. If there are none
        it uses those of the same setting, else those of all runs.
        """
        setting, environment = curve
        keys = ((setting, run_folder(environment)), (setting,), ())
        spent, *steps = next((self._done[key] for key in keys if key in self._done), Progress())
        left = [] if budget.minutes is None else [budget.minutes - progress.wall_seconds / 60]
        for limit, before, done in zip(
            (budget.actor_steps, budget.learner_steps), progress[1:], steps
        ):
            if limit is not None and spent and done:
                left.append((limit - before) / (60 * done / spent))
        return max(0.0, min(left)) + _START_MINUTES if left else None

    def _add(self, place: tuple[str, ...], progress: Progress) -> None:
        for key in (place, place[:1], ()):
            before = self._done.get(key, Progress())
            self._done[key] = Progress(*map(operator.add, before, progress))


@dataclasses.dataclass(frozen=True)
class PlannedRun:
    """A run of an experiment at a scale, with a seed.

    Attributes:
      run: its agent, setting, environment and flags.
      seed: its seed.
      directory: its run directory, which may not exist yet.
      paper: name of its paper.
      scale: its scale, with the experiment's own budget at that scale if there is one.
      budget: its limits.
      flags: arguments of its program, except limits, --scale, --scale_changes and --workdir.
      changes: the differences from the paper's run, a phrase each.
      kept: the kept runs, which may include this one; None if there are none.
      status: its status when the plan was made.
      minutes: the time that it still needs; None if unknown.
    """

    run: Run
    seed: int
    directory: pathlib.Path
    paper: str
    scale: Scale
    budget: Budget
    flags: tuple[str, ...]
    changes: tuple[str, ...]
    kept: KeptRuns | None
    status: Status = Status(State.MISSING)
    minutes: float | None = None

    @property
    def key(self) -> Key:
        """Setting, environment and seed."""
        return self.run.setting, self.run.environment, self.seed

    @property
    def name(self) -> str:
        """Setting, environment and seed in words."""
        return words_of(self.key)

    @property
    def has_final_evaluation(self) -> bool:
        """True if its last evaluation, for the paper's tables, has its own number of episodes."""
        return "final_episodes" in flag_values(self.flags)

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
        """Returns the current status of the run, from its directory or from the kept runs."""
        here = self._read_directory_status()
        if here.state is State.FINISHED:
            return here
        there = self.read_kept_status()
        is_decisive = there.state is State.FINISHED or here.state is State.MISSING
        return there if is_decisive else here

    def read_kept_status(self) -> Status:
        """Returns the status of the kept run, which is unusable if its budget is smaller.

        A run that is not kept is unusable if it could not be kept next to the curve's other seeds.
        """
        try:
            run = self.kept and self.kept.find(self.paper, self.scale.name, self.key)
            if run:
                self._check_identity(run.where, run.config)
            elif self.kept:
                self._check_other_seeds(self.kept.of(self.paper, self.scale.name))
        except UserError as error:
            return Status(State.UNUSABLE, note=str(error), is_kept=True)
        if not (run and run.has_ended):
            return Status(State.MISSING)
        if self.budget.reached(*run.progress):
            return Status(State.FINISHED, run.progress, is_kept=True)
        note = f"{run.where} has not reached {self.budget}: set it aside to make another run"
        return Status(State.UNUSABLE, run.progress, note, is_kept=True)

    def _read_directory_status(self) -> Status:
        """Returns the status of the run in its directory; changes nothing.

        The run is finished if its newest start ended cleanly and its budget is reached. Otherwise
        it is cut and can be resumed, even if it finished with a smaller budget. It is unusable if
        the directory holds a different run or a damaged file.

        If tables or claims need the run's final evaluation, it is finished once an evaluation's
        parameters have reached the budget, whatever happened afterwards.
        """
        files = RunDirectory(self.directory)
        if not files.config_json.exists():
            return Status(State.MISSING)
        try:
            self._check_identity(files.config_json, files.read_config())
            progress = last_progress(files.learner_csv)
            starts = files.read_starts()
            has_ended = bool(starts) and starts[-1].get("outcome") in IN_ORDER
            if self.scale.is_compact or self.has_final_evaluation:
                evaluated = last_progress(files.evaluator_csv)
                is_over = self.budget.reached(*evaluated)
                progress = Progress(*map(max, progress, evaluated))
            else:
                is_over = has_ended and self.budget.reached(*progress)
            if is_over and has_ended:
                return Status(State.FINISHED, progress)
            with files.hold():
                return Status(State.FINISHED if is_over else State.CUT, progress)
        except RunInUseError as error:
            return Status(State.RUNNING, progress, str(error))
        except UserError as error:
            return Status(State.UNUSABLE, note=str(error))

    def _check_identity(self, where: pathlib.Path | str, config: Mapping[str, Any]) -> None:
        """Raises RunDirectoryError unless the config agrees with this run's flags.

        Environment, seed, number of actors and each hyperparameter among the flags are compared,
        except for those that may change. A hyperparameter that did not exist when the config was
        written has its `earlier` value. The program itself compares what `--setting` implies when
        it resumes.
        """
        config_class = self.run.agent.settings.config_class
        config = with_earlier(config, config_class)
        may_change = changeable(config_class, config.get("config", {}))
        for name, wanted in flag_values(self.flags).items():
            group, _, field = name.rpartition(".")
            is_fixed = group == "config" and field not in may_change
            if not is_fixed and name not in ("environment", "seed", "num_actors"):
                continue
            there: Any = config
            for part in name.split("."):
                there = there.get(part) if isinstance(there, Mapping) else None
            if not same_value(there, wanted):
                raise RunDirectoryError(
                    f"{where} belongs to another run, whose {name} is {reprlib.repr(there)}, not "
                    f"{wanted}: move that run away, or give another --runs"
                )

    def _check_other_seeds(self, kept: Iterable[KeptRun]) -> None:
        """Raises RunDirectoryError if the curve has a seed with another config than this run's."""
        other = next((run for run in kept if run.key[:2] == self.key[:2]), None)
        if other is None:
            return
        settings, flags = self.run.agent.settings, flag_values(self.flags)
        there = with_earlier(other.config, settings.config_class)
        setting = settings.configuration(self.run.agent_setting or settings.default)

        def wanted(kept: Mapping[str, Any], name: str, text: str) -> Any:
            return kept[name] if same_value(kept.get(name), text) else text

        values = {
            name: wanted(there.get("config", {}), name, flags.get(f"config.{name}", str(value)))
            for name, value in vars(setting).items()
        }
        here = {**there, "config": values}
        if num_actors := flags.get("num_actors"):
            here["num_actors"] = wanted(there, "num_actors", num_actors)
        if found := differences(there, here, settings.config_class):
            raise RunDirectoryError(
                f"{other.where}, another seed, has another config ({listed(found)}): set the "
                "curve's seeds aside first"
            )


@dataclasses.dataclass(frozen=True)
class Plan:
    """An experiment's runs at a scale.

    The runs are ordered by seed, then by task, so that every task has a first result early.

    Attributes:
      paper: the paper of the experiment.
      experiment: the experiment, with its runs at the scale.
      scale: the scale, with the experiment's own budget if it has one there.
      runs: the planned runs, in order.
      speeds: the measured speeds, from which the runs' minutes are estimated.
    """

    paper: Paper
    experiment: Experiment
    scale: Scale
    runs: tuple[PlannedRun, ...]
    speeds: Speeds

    def of(self, *states: State) -> tuple[PlannedRun, ...]:
        """Returns the runs that are in one of these states."""
        return tuple(run for run in self.runs if run.status.state in states)

    @property
    def to_do(self) -> tuple[PlannedRun, ...]:
        """The cut and the missing runs, in order."""
        return self.of(State.CUT, State.MISSING)


def make_plan(
    paper: Paper,
    experiment: Experiment,
    scale: Scale,
    runs: pathlib.Path,
    kept: KeptRuns | None = None,
    tasks: Sequence[str] | None = None,
    settings: Sequence[str] | None = None,
    num_seeds: int | None = None,
    speeds: Speeds | None = None,
) -> Plan:
    """Plans an experiment's runs from run directories and kept runs; changes nothing.

    Args:
      paper: the paper of the experiment.
      experiment: the experiment to run.
      scale: a scale of the paper, or any other.
      runs: root of the run directories.
      kept: the kept runs; None if there are none.
      tasks: environments, with or without their suite; None: all.
      settings: curves; None: all.
      num_seeds: number of seeds, from seed 0 on; None: the experiment's number at the scale.
      speeds: the speeds of the scale; None: they are measured from its runs.

    Raises:
      UnknownError: the experiment has no such task or setting. The message lists those it has.
    """
    scale, num_seeds = experiment.scaled(scale), num_seeds or experiment.seeds_at(scale.name)
    experiment = experiment.at(scale.name)
    tasks = _chosen(experiment, "task", tasks, experiment.environments)
    settings = _chosen(experiment, "setting", settings, experiment.settings)
    order = {task: number for number, task in enumerate(experiment.environments)}
    chosen = sorted(
        (run for run in experiment.runs if run.environment in tasks and run.setting in settings),
        key=lambda run: order[run.environment],
    )
    there = kept.of(paper.name, scale.name) if kept else ()
    measured = speeds or Speeds(there, runs / paper.name / scale.name)

    every = []
    for seed, run in itertools.product(range(num_seeds), chosen):
        reported, own = experiment.budget_of(run), (run.agent, run.choices)
        chosen_flags = {flag_name(flag) for flag in run.flags}
        of_scale = [flag for flag in scale.flags if flag_name(flag) not in chosen_flags]
        flags = (f"--environment={run.environment}", f"--seed={seed}", *run.flags, *of_scale)
        new = PlannedRun(
            run,
            seed,
            runs / run_path(paper.name, scale.name, run.setting, run.environment, seed),
            paper.name,
            scale,
            budget=scale.budget_of(reported),
            flags=(*flags, *(change.flag for change in scale.changes_of(*own))),
            changes=tuple(scale.differences(reported, *own, experiment.states_budget)),
            kept=kept,
        )
        seen = new.read_status()
        left = measured.minutes_left(run.curve, new.budget, seen.progress)
        every.append(dataclasses.replace(new, status=seen, minutes=left))
    return Plan(paper, experiment, scale, tuple(every), measured)


def _chosen(
    experiment: Experiment, what: str, wanted: Sequence[str] | None, there: Sequence[str]
) -> Sequence[str]:
    """Returns the wanted names, with their suites; all that there are if `wanted` is None."""
    if wanted is None:
        return there
    short = {name.partition(":")[2] or name: name for name in there}
    for name in wanted:
        if name not in short and name not in there:
            known = ", ".join(short)
            raise UnknownError(f'{experiment.name} has no {what} "{name}": there are {known}')
    return [short.get(name, name) for name in wanted]
