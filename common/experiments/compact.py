"""The compact form of kept runs: a folder holds all seeds of a setting on an environment.

    <root>/<paper>/<scale>/<setting>/<environment, "-" for ":">/
      config.json     of every run, without the seed
      runs.csv        a row a run: how it went, and what made it
      evaluator.csv   the evaluations of all runs
      learner.csv     their learners' rows, thinned, with the returns of training episodes

`common.experiments.keep` replaces files whole, runs.csv last. Rows of a seed that is not in
runs.csv are those of an interrupted copy and do not count.
"""

from collections.abc import Iterable, Mapping, Sequence
import csv
import dataclasses
import hashlib
import io
import json
import pathlib
from typing import Any

import pandas

from common.experiments import status
from common.experiments.paper import Returns
from common.experiments.status import IN_ORDER, Progress, State, Status
from common.reporting import csv_rows, json_file
from common.reporting.budget import Budget
from common.reporting.columns import COUNTS, LIMITS
from common.reporting.csv_rows import CsvError, numbered_rows
from common.reporting.run_directory import RunDirectory
from common.reporting.user_error import UserError

RUNS = (
    "seed",
    "outcome",
    "starts",
    "start_time",
    "end_time",
    *Progress._fields,
    *LIMITS,
    "scale",
    "changed",
    "commit",
    "changes_hash",
    "versions",
    "cpu",
    "usable_cores",
)
"""The columns of runs.csv; results/README.md explains each."""


@dataclasses.dataclass(frozen=True)
class CompactRow:
    """A row of runs.csv.

    Attributes:
      seed: of the run.
      progress: how far it went.
      start: what is known of its last start, as an entry of run.json.
    """

    seed: int
    progress: Progress
    start: Mapping[str, Any]


class CompactFolder:
    """The files of a folder; the constructor touches nothing.

    Args:
      path: of the folder.
    """

    def __init__(self, path: pathlib.Path):
        files = RunDirectory(path)
        self.path = path
        self.config_json = files.config_json
        self.evaluator_csv = files.evaluator_csv
        self.learner_csv = files.learner_csv
        self.runs_csv = path / "runs.csv"
        self._numbers: dict[tuple, pandas.DataFrame] = {}

    def read_config(self, seed: int) -> dict[str, Any]:
        """Returns the config of a run; raises as `RunDirectory.read_config`."""
        return RunDirectory(self.path).read_config() | {"seed": seed}

    def read_rows(self) -> list[CompactRow]:
        """Returns the rows of runs.csv in the order of seeds; none if there is no such file.

        Raises:
          CsvError, JsonError: the file is malformed; names the line.
        """
        try:
            numbered = numbered_rows(self.runs_csv, RUNS, ("seed",))
        except (FileNotFoundError, NotADirectoryError):
            return []
        rows: dict[int, CompactRow] = {}
        for number, cells in numbered:
            row = _row(f"{self.runs_csv}:{number}", cells)
            if row.seed in rows:
                raise CsvError(f"{self.runs_csv}:{number}: seed {row.seed} is there twice")
            rows[row.seed] = row
        return [rows[seed] for seed in sorted(rows)]

    def read_numbers(
        self,
        path: pathlib.Path,
        names: Sequence[str],
        seed: int,
        identity: Mapping[str, str] | None = None,
    ) -> pandas.DataFrame:
        """Returns columns of the rows of a seed; a file is read once.

        Args:
          path: of one of the folder's files.
          names: of the columns.
          seed: of the run.
          identity: as of `csv_rows.read_numbers`, which raises.
        """
        key = (path, *names)
        if key not in self._numbers:
            self._numbers[key] = csv_rows.read_numbers(path, ("seed", *names), identity)
        rows = self._numbers[key]
        return rows.loc[rows["seed"] == seed, list(names)]

    def read_status(self, seed: int, budget: Budget, identity: Mapping[str, str]) -> Status:
        """Returns the status of a run, missing if it is not kept; see `status.read_status`.

        A kept run of a smaller budget is missing, too: it has no checkpoint to go on from.
        """
        try:
            row = next((row for row in self.read_rows() if row.seed == seed), None)
            if row is None:
                return Status(State.MISSING)
            status.check_identity(RunDirectory(self.path), self.read_config(seed), identity)
        except UserError as error:
            return Status(State.UNUSABLE, note=str(error))
        is_whole = row.start["outcome"] in IN_ORDER and budget.reached(*row.progress)
        return Status(State.FINISHED, row.progress) if is_whole else Status(State.MISSING)


def column_of(returns: Returns) -> str:
    """Returns the column of a folder's learner.csv with the returns of training episodes."""
    return returns.name.lower()


def cells_of(seed: int, starts: list[dict[str, Any]], progress: Progress) -> dict[str, Any]:
    """Returns the row of runs.csv for a run.

    Args:
      seed: of the run.
      starts: of its run.json, one or more.
      progress: how far it went.
    """
    last = starts[-1]
    git = [start.get("git", {}) for start in starts]
    machine = last.get("machine", {})
    budget = last.get("budget") or Budget().to_json()
    versions = (f"{name} {one}" for name, one in last.get("versions", {}).items() if one)
    return {
        "seed": seed,
        "outcome": "finished",  # even if a signal came after the last evaluation
        "starts": len(starts),
        "start_time": starts[0].get("start_time"),
        "end_time": last.get("end_time"),
        **progress._asdict(),
        **{f"max_{name}": limit for name, limit in budget.items()},
        "scale": last.get("scale"),
        "changed": json.dumps(last.get("changed", {})),
        "commit": _distinct(one.get("commit") for one in git),
        "changes_hash": _distinct(map(_hash_of_changes, git)),
        "versions": "; ".join(versions),
        "cpu": machine.get("cpu"),
        "usable_cores": machine.get("usable_cores"),
    }


def as_csv(columns: Iterable[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """Returns a whole CSV file; None, or no cell, is an empty one."""
    columns, text = list(columns), io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([row.get(name) for name in columns] for row in rows)
    return text.getvalue()


def _row(where: str, cells: Mapping[str, str]) -> CompactRow:
    if not cells["seed"].isdecimal():
        raise CsvError(f"{where}: seed is {cells['seed']!r}, not a whole number")
    numbers = {name: float(cells[name]) for name in RUNS if name in COUNTS and cells[name]}
    minutes, *steps = map(numbers.get, LIMITS)
    limits = [minutes, *(None if number is None else int(number) for number in steps)]
    changed = json_file.parse(cells["changed"], f"{where}: changed")
    start = {
        "outcome": cells["outcome"],
        "scale": cells["scale"],
        "budget": dict(zip(Budget().to_json(), limits)),
        "changed": json_file.require(where, changed, {}, "changed"),
        "git": {"commit": str(cells["commit"])},
        "machine": {"usable_cores": int(numbers.get("usable_cores", 1))},
    }
    progress = Progress(*(numbers[name] for name in Progress._fields))
    return CompactRow(int(cells["seed"]), progress, start)


def _distinct(values: Iterable[Any]) -> str:
    return " ".join(dict.fromkeys(str(one) for one in values if one))


def _hash_of_changes(git: Mapping[str, Any]) -> str:
    """Returns a name for a tree's changes against its commit, "" if there are none."""
    if not git.get("dirty"):
        return ""
    text = "\n".join([*git.get("status", []), str(git.get("diff", ""))])
    return hashlib.sha256(text.encode()).hexdigest()[:12]
