"""The progress of the run in a directory, as its files say."""

from collections.abc import Iterable, Mapping
import dataclasses
import enum
import pathlib
from typing import Any, NamedTuple

from common.experiments.scales import same_value
from common.reporting import csv_rows
from common.reporting.budget import Budget
from common.reporting.run_directory import RunDirectory, RunDirectoryError
from common.reporting.user_error import UserError

IN_ORDER = ("finished", "stopped")
"""Outcomes of starts whose files are whole."""


class State(enum.StrEnum):
    """The state of a run."""

    FINISHED = "finished"
    CUT = "cut"
    MISSING = "missing"
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
      note: why it is unusable, one line that says what to do.
    """

    state: State
    progress: Progress = Progress()
    note: str = ""


def look(directory: pathlib.Path, budget: Budget, identity: Mapping[str, str]) -> Status:
    """Returns the status of the run in a directory; changes nothing.

    A run is finished if its newest start ended in order and its budget is reached. With a larger
    budget it is cut, and can be resumed. It is unusable if it is another run, if one of its files
    is damaged, or if another program runs it now.

    Args:
      directory: of the run.
      budget: of the run.
      identity: what its config.json must say, see `identity_of`.
    """
    files = RunDirectory(directory)
    if not files.config_json.exists():
        return Status(State.MISSING)
    try:
        _check_identity(files, identity)
        progress = read_progress(directory)
        starts = files.read_starts()
        has_ended = bool(starts) and starts[-1].get("outcome") in IN_ORDER
        if has_ended and budget.reached(*progress):
            return Status(State.FINISHED, progress)
        with files.hold():  # fails while another program runs it
            return Status(State.CUT, progress)
    except UserError as error:
        return Status(State.UNUSABLE, note=str(error))


def read_progress(directory: pathlib.Path) -> Progress:
    """Returns what the run in `directory` has done so far.

    Raises:
      CsvError: the last row of its learner.csv is damaged.
    """
    row = csv_rows.last_row(RunDirectory(directory).learner_csv, Progress._fields)
    return Progress() if row is None else Progress(*(row[name] for name in Progress._fields))


def identity_of(flags: Iterable[str]) -> dict[str, str]:
    """Returns what config.json must say of a run with these arguments, by dotted names.

    That is environment, seed, actors and each hyperparameter that is among the arguments. Those
    that `--setting` implies are left to the program, which compares them when it resumes a run.
    """
    values = (flag.removeprefix("--").partition("=")[::2] for flag in flags)
    return {
        name: value
        for name, value in values
        if name in ("environment", "seed", "num_actors") or name.startswith("config.")
    }


def _check_identity(files: RunDirectory, identity: Mapping[str, str]) -> None:
    config = files.read_config()
    for name, wanted in identity.items():
        there: Any = config
        for part in name.split("."):
            there = there.get(part) if isinstance(there, dict) else None
        if not same_value(there, wanted):
            raise RunDirectoryError(
                f"{files.config_json} is of another run, {name} is {there}, not {wanted}: move "
                f"{files.path} away, or give other --runs"
            )
