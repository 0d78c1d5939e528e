"""How far the run in a directory is, as its files say."""

from collections.abc import Iterable, Mapping
import dataclasses
import enum
import json
import pathlib
from typing import Any

from common.reporting import csv_rows
from common.reporting.budget import Budget
from common.reporting.run_directory import RunDirectory, RunDirectoryError

_PROGRESS = ("wall_seconds", "actor_steps", "learner_steps")
IN_ORDER = ("finished", "stopped")
"""Outcomes of starts whose files are whole."""


class State(enum.StrEnum):
    """How far a run is."""

    FINISHED = "finished"
    CUT = "cut"
    MISSING = "missing"
    UNUSABLE = "unusable"


@dataclasses.dataclass(frozen=True)
class Progress:
    """What a run has done: the last row of its learner.csv."""

    wall_seconds: float = 0
    actor_steps: float = 0
    learner_steps: float = 0


@dataclasses.dataclass(frozen=True)
class Status:
    """What is in a run directory; note: why it is unusable, one line that says what to do."""

    state: State
    progress: Progress = Progress()
    note: str = ""


def look(directory: pathlib.Path, budget: Budget, identity: Mapping[str, str]) -> Status:
    """How far the run in a directory is; changes nothing.

    A run is finished if its newest start ended in order and its budget is used up: one whose budget
    has grown since is cut, and can go on. It is unusable if it is another run, if one of its files
    is damaged, or if another program runs it at this moment.

    Args:
      identity: what its config.json has to say, see `identity_of`.
    """
    files = RunDirectory(directory)
    if not files.config_json.exists():
        return Status(State.MISSING)
    try:
        _check_identity(files, identity)
        progress = read_progress(directory)
        if _outcome(files) in IN_ORDER and budget.reached(**dataclasses.asdict(progress)):
            return Status(State.FINISHED, progress)
        with files.hold():  # whoever runs it holds it
            return Status(State.CUT, progress)
    except RunDirectoryError as error:
        return Status(State.UNUSABLE, note=str(error))


def read_progress(directory: pathlib.Path) -> Progress:
    """What the run in `directory` has done so far.

    Raises:
      RunDirectoryError: the last row of its learner.csv is damaged.
    """
    path = RunDirectory(directory).learner_csv
    row = csv_rows.last_row(path)
    if row is None:
        return Progress()
    for name in _PROGRESS:
        if not isinstance(row.get(name), int | float):
            raise RunDirectoryError(
                f"{path}, last whole line: {name} is {row.get(name)!r}, not a number: mend it, or "
                f"move {directory} away"
            )
    return Progress(**{name: row[name] for name in _PROGRESS})


def identity_of(flags: Iterable[str]) -> dict[str, str]:
    """What config.json has to say of a run with these arguments, by dotted names.

    That is environment, seed, actors and each hyperparameter that is among them. Those that
    `--setting` stands for are left to the program, which compares them when it goes on with a run.
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
        if not _same(there, wanted):
            raise RunDirectoryError(
                f"{files.config_json} is of another run, {name} is {there}, not {wanted}: move "
                f"{files.path} away, or give other --runs"
            )


def _same(there: Any, flag: str) -> bool:
    """Whether a value of config.json is the one that a flag's text says."""
    if isinstance(there, list):
        there = str(tuple(there))
    try:
        return float(there) == float(flag)
    except (TypeError, ValueError):
        return str(there).replace(" ", "").lower() == flag.replace(" ", "").lower()


def _outcome(files: RunDirectory) -> str | None:
    """How the newest start ended; None if it was killed, or there is none."""
    try:
        return json.loads(files.run_json.read_text())["starts"][-1]["outcome"]
    except FileNotFoundError:
        return None
    except (ValueError, LookupError, TypeError) as error:
        raise RunDirectoryError(
            f"{files.run_json} is not the record of a run ({error}): mend it, or move "
            f"{files.path} away"
        ) from None
