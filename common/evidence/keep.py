"""Keeps finished runs in the tables that figures, tables and claims read.

Everything that the readers rely on is checked here: that a run matches its key, that the seeds of a
curve have the same configuration, that numbers are finite, and that the rows have not changed since
they were kept.
"""

from collections.abc import Iterable, Iterator, Mapping
import contextlib
import hashlib
import json
import pathlib
from typing import Any

import numpy as np
import pandas

from common.config import Config
from common.evidence.paper import EARLIER, EPISODE_RETURN, Returns
from common.evidence.plan import Plan, PlannedRun, State, last_progress
from common.evidence.runs import IN_ORDER, KEYS, Key, Tables, read_rows, words_of
from common.reporting import csv_rows
from common.reporting import records as records_lib
from common.reporting.records import replace_file
from common.reporting.run_directory import (
    RunDirectory,
    RunDirectoryError,
    RunInUseError,
    differences,
    hold,
    listed,
)
from common.user_error import UserError

STRETCHES = 50
"""Number of parts of a run whose means are kept. For ReF-ER's 1e7 steps, a part is 2e5 steps."""
_PATIENCE_SECONDS = 600.0
"""Time to wait for other processes that keep runs. Keeping one takes about a second."""

Rows = list[dict[str, str]]
"""A run's rows, as cells by column, without the columns `KEYS` and without empty cells."""


def keep(plan: Plan, root: pathlib.Path) -> list[PlannedRun]:
    """Keeps the plan's finished runs below `root`; returns the runs that are new or have changed.

    Raises:
      UserError: see `keep_run`. All other runs are kept first, unless the tables are in use.
    """
    new, refused = [], []
    for planned in plan.of(State.FINISHED):
        try:
            if not planned.status.is_kept and keep_run(planned, root):
                new.append(planned)
        except RunInUseError:
            raise
        except UserError as error:
            refused.append(str(error))
    if refused:
        raise RunDirectoryError("; ".join(refused))
    return new


def keep_run(planned: PlannedRun, root: pathlib.Path) -> bool:
    """Keeps a run that is finished in its directory; returns whether anything changed below `root`.

    A run that was continued replaces its kept version. If this is interrupted, readers see the old
    version, the new version or no run. Processes that keep runs wait for each other.

    Args:
      planned: the run.
      root: root of the tables.

    Raises:
      RunDirectoryError: a different run of the same seed is kept there, or seeds of another config.
      CsvError: a file of the run, or a table, is malformed.
    """
    with _held(root):
        writer = TableWriter(root, planned.paper, planned.scale.name)
        is_new = writer.add(planned)
        if is_new:
            writer.write()
    return is_new


def set_aside(plan: Plan, root: pathlib.Path) -> dict[Key, str]:
    """Moves the plan's kept runs to scales for replaced runs; returns the new scale of each.

    For the scale "small" it is "small_earlier", or "small_earlier_earlier" if the first has another
    run of the seed or runs of another config.
    """
    name, moved = plan.scale.name, dict[Key, str]()
    with _held(root):
        writers = {name: TableWriter(root, plan.paper.name, name)}
        for key in (planned.key for planned in plan.runs):
            scale = name
            while key in writers[name]:
                scale += EARLIER
                if scale not in writers:
                    writers[scale] = TableWriter(root, plan.paper.name, scale)
                with contextlib.suppress(RunDirectoryError):  # another run or config is there
                    writers[scale].take(key, writers[name])
                    moved[key] = scale
        for writer in reversed(writers.values()) if moved else ():
            writer.write()
    return moved


@contextlib.contextmanager
def _held(root: pathlib.Path) -> Iterator[None]:
    """Locks the tables below a root until the context ends."""
    root.mkdir(parents=True, exist_ok=True)
    with hold(root / ".keep.lock", "program that keeps runs", root, "root", _PATIENCE_SECONDS):
        yield


class TableWriter:
    """A writer of a scale's tables, which replaces each file as a whole.

    Args:
      root: root of the tables.
      paper: name of the paper.
      scale: name of the scale.

    Raises:
      UserError: a table is malformed, rows have changed since they were kept, or the seeds of a
        curve have several configurations.
    """

    def __init__(self, root: pathlib.Path, paper: str, scale: str):
        self._tables = Tables.of(root, paper, scale)
        self._configs = self._tables.read_configs()
        found = self._tables.read_records()
        self._records = {key: record for key, (_, record) in found.items()}
        self._evaluations = _RowTable(self._tables.evaluations, csv_rows.RESULT)
        self._training = _RowTable(self._tables.training, csv_rows.PROGRESS)
        self._outdated: set[Key] = set()
        self._check()

    def add(self, planned: PlannedRun) -> bool:
        """Adds a finished run from its directory; returns whether anything is new.

        Raises:
          UserError: see `keep_run`.
        """
        run = RunDirectory(planned.directory)
        config, starts = run.read_config(), run.read_starts()
        identity = {name: str(config.get(name)) for name in csv_rows.IDENTITY}
        if identity["paper"] != planned.paper:
            raise RunDirectoryError(
                f"{run.config_json} does not belong to {planned.name}: move it away"
            )
        csv_rows.read_numbers(run.evaluator_csv, csv_rows.RESULT, identity)
        evaluations = [
            {name: cells[name] for name in csv_rows.RESULT}
            for _, cells in csv_rows.numbered_rows(run.evaluator_csv)
        ]
        if starts[-1].get("outcome") not in IN_ORDER:  # killed after its last evaluation
            starts[-1]["outcome"] = "stopped"
        ends = map(last_progress, (run.learner_csv, run.evaluator_csv))
        record = {
            "progress": dict(zip(csv_rows.PROGRESS, map(max, *ends))),
            "starts": [_without_diff(start) for start in starts],
        }
        evaluation = records_lib.read_json(run.evaluation_json)
        if evaluation is not None and planned.has_final_evaluation:
            records_lib.require_keys(run.evaluation_json, evaluation, {EPISODE_RETURN: float})
            record["evaluation"] = evaluation
        training = _training(run, config.get("num_actors") or 1)
        config_class = planned.run.agent.settings.config_class
        return self.put(planned.key, config, record, evaluations, training, config_class)

    def put(
        self,
        key: Key,
        config: Mapping[str, Any],
        record: Mapping[str, Any],
        evaluations: Rows,
        training: Rows,
        config_class: type[Config] | None = None,
    ) -> bool:
        """Adds a run; returns whether anything is new.

        Args:
          key: setting, environment and seed of the run.
          config: as in config.json.
          record: progress, starts and, where there is one, the final evaluation.
          evaluations: the run's rows in the table of evaluations.
          training: the run's rows in the table of training.
          config_class: see `common.reporting.run_directory.differences`.

        Raises:
          RunDirectoryError: a different run of the seed is kept, or seeds of another config.
        """
        old = self._records.get(key)
        begun = [str(run["starts"][0].get("start_time")) for run in (old, record) if run]
        if begun[0] != begun[-1]:
            raise RunDirectoryError(
                f"{self._tables.runs} already has another run of {words_of(key)}, started "
                f"{begun[0]}; this one started {begun[1]}: to keep both, set the other aside first"
            )
        config = {name: value for name, value in config.items() if name not in KEYS[1:]}
        evaluations, training = _in_order(evaluations), _in_order(training)
        rows = _digest(evaluations, training)
        used = self._used_config(key, config, config_class)
        new = dict(zip(KEYS, key)) | {"config": used, **record, "rows": rows}
        if new == old:
            return False
        self._outdated |= {key} & self._records.keys()
        self._records[key] = new
        self._evaluations.rows[key], self._training.rows[key] = evaluations, training
        return True

    def __contains__(self, key: Key) -> bool:
        return key in self._records

    def take(self, key: Key, other: "TableWriter") -> None:
        """Moves a run here from another scale's tables; raises the same errors as `put`."""
        record = other._records[key]
        config = other._configs[record["config"]]
        kept = {name: record[name] for name in record if name not in (*KEYS, "config", "rows")}
        self.put(key, config, kept, *other._rows(key))
        del other._records[key]
        other._outdated.add(key)

    def write(self) -> None:
        """Replaces the files; if interrupted, replaced and new runs are missing from them."""
        self._tables.runs.parent.mkdir(parents=True, exist_ok=True)
        records = dict(sorted(self._records.items()))
        if not records:
            for path in self._tables:
                path.unlink(missing_ok=True)
            return
        if self._outdated:
            others = records.keys() - self._outdated
            _write_lines(self._tables.runs, (records[key] for key in others))
        used = sorted({record["config"] for record in records.values()})
        _write_lines(self._tables.configs, ({"id": name, **self._configs[name]} for name in used))
        self._evaluations.write(records)
        self._training.write(records)
        _write_lines(self._tables.runs, records.values())
        self._outdated = set()

    def _rows(self, key: Key) -> tuple[Rows, Rows]:
        return self._evaluations.rows.get(key, []), self._training.rows.get(key, [])

    def _used_config(
        self, key: Key, config: dict[str, Any], config_class: type[Config] | None
    ) -> str:
        """Returns the id of the curve's kept config; else a new id.

        The kept config may lack newer fields and the agent's name, and differ in what may change.
        """
        for (setting, environment, _), record in self._records.items():
            if (setting, environment) == key[:2]:
                kept = self._configs[record["config"]]
                new = {name: config[name] for name in config if name != "agent" or name in kept}
                if found := differences(kept, new, config_class):
                    raise RunDirectoryError(
                        f"{self._tables.runs} has seeds with another config than "
                        f"{words_of(key)} ({listed(found)}): set them aside first"
                    )
                return record["config"]
        name = _id(config)
        self._configs[name] = config
        return name

    def _check(self) -> None:
        """Raises RunDirectoryError unless the tables are as they were kept."""
        configs: dict[tuple[str, str], str] = {}
        for key, record in self._records.items():
            name = record["config"]
            if not (
                configs.setdefault(key[:2], name) == name == _id(self._configs.get(name, {}))
                and _digest(*self._rows(key)) == record["rows"]
            ):
                raise RunDirectoryError(
                    f"{self._tables.runs}: the rows or the config of {words_of(key)} have changed "
                    "since it was kept, or other seeds have another config: restore the tables"
                )


def _write_lines(path: pathlib.Path, members: Iterable[Mapping[str, Any]]) -> None:
    """Replaces a file of JSON lines."""
    replace_file(path, "".join(f"{json.dumps(each)}\n" for each in members))


def _id(config: Mapping[str, Any]) -> str:
    """Returns the id of a configuration: the first 12 digits of its hash."""
    return hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()[:12]


def _digest(evaluations: Rows, training: Rows) -> str:
    """Returns the hash of a run's rows, whatever the order of the columns."""
    text = json.dumps([evaluations, training], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _without_diff(start: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a start of a run with the diff of its code replaced by the diff's hash."""
    git = dict(start.get("git") or {})
    if diff := git.pop("diff", ""):
        git["diff_sha256"] = hashlib.sha256(str(diff).encode()).hexdigest()
    return {**start, "git": {name: git[name] for name in git if name != "diff_truncated"}}


def _training(run: RunDirectory, num_actors: int) -> Rows:
    """Returns the means of learner.csv and of the training episodes over each stretch of a run."""
    if not run.learner_csv.exists():
        return []
    (_, header), *_ = csv_rows.read_lines(run.learner_csv)
    names = dict.fromkeys([*csv_rows.PROGRESS, *header])
    rows = csv_rows.read_numbers(run.learner_csv, list(names))
    stretch = np.ceil(np.linspace(0, STRETCHES, len(rows) + 1)[1:])
    means = rows.drop(columns="parameter_version", errors="ignore").groupby(stretch).mean()
    episodes = csv_rows.read_numbers(run.acting_csv, ("wall_seconds", "actor", "episode_return"))
    if len(rows):
        row = np.searchsorted(rows["wall_seconds"], episodes["wall_seconds"])
        episodes["stretch"] = stretch[np.minimum(row, len(rows) - 1)]
        greediest = episodes[episodes["actor"] == num_actors - 1]
        for returns, of in ((Returns.GREEDIEST_ACTOR, greediest), (Returns.ALL_ACTORS, episodes)):
            means[returns.column] = of.groupby("stretch")["episode_return"].mean()
    return [
        {str(name): f"{value:.6g}" for name, value in row.items() if np.isfinite(value)}
        for row in means.to_dict("records")
    ]


def _in_order(rows: Rows) -> Rows:
    """Returns the distinct rows by wall-clock time: git's union merge repeats and reorders them."""
    distinct = {json.dumps(row, sort_keys=True): row for row in rows}
    by_time = sorted(distinct.items(), key=lambda pair: (float(pair[1]["wall_seconds"]), pair[0]))
    return [row for _, row in by_time]


class _RowTable:
    """A table of rows by run, as text.

    Args:
      path: the file.
      names: the columns that it must have, in addition to `KEYS`.

    Attributes:
      rows: the rows of each run, by wall-clock time.
    """

    def __init__(self, path: pathlib.Path, names: Iterable[str]):
        self._path = path
        self._names = [*KEYS, *names]
        self.rows: dict[Key, Rows] = {}
        for (setting, environment, seed), table in read_rows(path, self._names, str).items():
            self._names = list(table)
            cells = table.drop(columns=[*KEYS]).to_dict("records")
            rows = [{n: cell for n, cell in row.items() if isinstance(cell, str)} for row in cells]
            self.rows[setting, environment, int(float(seed))] = _in_order(rows)

    def write(self, keys: Iterable[Key]) -> None:
        """Replaces the file with the rows of these runs."""
        rows = [dict(zip(KEYS, key)) | row for key in keys for row in self.rows.get(key, [])]
        names = dict.fromkeys([*self._names, *(name for row in rows for name in row)])
        table = pandas.DataFrame(rows, columns=list(names))
        replace_file(self._path, table.to_csv(index=False, lineterminator="\n"))
