"""The progress of the run in a directory, as its files say."""

from collections.abc import Iterable, Mapping
import dataclasses
import enum
import pathlib
import reprlib
from typing import Any, NamedTuple

from common.experiments.scales import same_value
from common.reporting import csv_rows
from common.reporting.budget import Budget
from common.reporting.run_directory import RunDirectory, RunDirectoryError, RunInUseError
from common.reporting.user_error import UserError

IN_ORDER = ("finished", "stopped")
"""Outcomes of starts whose files are whole."""


class State(enum.StrEnum):
    """The state of a run."""

    FINISHED = "finished"
    CUT = "cut"
    MISSING = "missing"
    RUNNING = "running"
    UNUSABLE = "unusable"


class Progress(NamedTuple):
    """The last row of a run's learner.csv."""

    wall_seconds: float = 0
    actor_steps: float = 0
    learner_steps: float = 0


@dataclasses.dataclass(frozen=True)
class Status:
    """The status of a run directory.

    Attributes:
      state: of the run.
      progress: of the run.
      note: why it is unusable, or cannot be started since it runs; one line that says what to do.
    """

    state: State
    progress: Progress = Progress()
    note: str = ""


def read_status(
    directory: pathlib.Path, budget: Budget, flags: Iterable[str], needs_evaluation: bool = False
) -> Status:
    """Returns the status of the run in a directory; changes nothing.

    A run is finished if its newest start ended in order and its budget is reached. With a larger
    budget it is cut, and can be resumed. It is unusable if it is another run, or if one of its
    files is damaged.

    A run that needs an evaluation is finished if its last one is of parameters that reached the
    budget, whatever happened to it afterwards.

    Args:
      directory: of the run.
      budget: of the run.
      flags: arguments of its program. Environment, seed, actors and each hyperparameter that is
        among them must stand in its config.json. Those that `--setting` implies are left to the
        program, which compares them when it resumes a run.
      needs_evaluation: see above.
    """
    files = RunDirectory(directory)
    if not files.config_json.exists():
        return Status(State.MISSING)
    try:
        _check_identity(files, flags)
        progress = read_progress(directory)
        starts = files.read_starts()
        has_ended = bool(starts) and starts[-1].get("outcome") in IN_ORDER
        if needs_evaluation:
            evaluated = _last_row(files.evaluator_csv)
            is_over, progress = budget.reached(*evaluated), Progress(*map(max, progress, evaluated))
        else:
            is_over = has_ended and budget.reached(*progress)
        if is_over and has_ended:
            return Status(State.FINISHED, progress)
        with files.hold():
            return Status(State.FINISHED if is_over else State.CUT, progress)
    except RunInUseError as error:
        return Status(State.RUNNING, progress, str(error))
    except UserError as error:
        return Status(State.UNUSABLE, note=str(error))


def read_progress(directory: pathlib.Path) -> Progress:
    """Returns what the run in `directory` has done so far.

    Raises:
      CsvError: the last row of its learner.csv is damaged.
    """
    return _last_row(RunDirectory(directory).learner_csv)


def _check_identity(files: RunDirectory, flags: Iterable[str]) -> None:
    """Raises RunDirectoryError if the config is not one of a run with these arguments."""
    config = files.read_config()
    for flag in flags:
        name, _, wanted = flag.removeprefix("--").partition("=")
        if name not in ("environment", "seed", "num_actors") and not name.startswith("config."):
            continue
        there: Any = config
        for part in name.split("."):
            there = there.get(part) if isinstance(there, Mapping) else None
        if not same_value(there, wanted):
            raise RunDirectoryError(
                f"{files.config_json} is of another run, {name} is {reprlib.repr(there)}, not "
                f"{wanted}: move {files.path} away, or give other --runs"
            )


def _last_row(path: pathlib.Path) -> Progress:
    row = csv_rows.last_row(path, Progress._fields)
    return Progress() if row is None else Progress(*(row[name] for name in Progress._fields))
