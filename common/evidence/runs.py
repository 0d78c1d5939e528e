"""The kept runs, as figures, tables and claims read them: four tables for each paper and scale.

    <root>/<paper>/<scale>.runs.jsonl         a line a run: who made it, when, how far it went
    <root>/<paper>/<scale>.configs.jsonl      a line for each distinct configuration
    <root>/<paper>/<scale>.evaluations.csv    a row for each evaluation
    <root>/<paper>/<scale>.training.csv       a row for each stretch of a run: means of learner.csv

`keep` writes them, and checks what it writes. Two branches that both keep runs are merged line by
line, so lines may be in any order, and may be there twice.
"""

import collections
from collections.abc import Iterator, Sequence
import dataclasses
import math
import pathlib
from typing import Any, NamedTuple

import numpy as np
import pandas

from common.environments import frames_per_step
from common.environments.spec import q_bound
from common.evidence.effects import EPISODES, is_by_rule
from common.evidence.paper import EPISODE_RETURN, Returns
from common.reporting import csv_rows, records
from common.reporting.budget import Budget
from common.reporting.csv_rows import CsvError, read_numbers
from common.reporting.run_directory import RunDirectoryError, require_config, require_starts
from common.user_error import UserError

_RUNS = pathlib.Path("results/runs")
IN_ORDER = ("finished", "stopped")
"""Outcomes of starts that wrote complete files."""
KEYS = ("setting", "environment", "seed")
"""The columns that identify the run of a row."""
EVALUATIONS = (*KEYS, *csv_rows.RESULT)
"""The columns of the table of evaluations."""
_NO_ROWS = pandas.DataFrame(columns=EVALUATIONS, dtype=float)
_RUNS_FILE = ".runs.jsonl"
_RECORD = {
    **{"setting": str, "environment": str, "seed": int, "config": str, "rows": str},
    "progress": dict.fromkeys(csv_rows.PROGRESS, float),
}
"""The types of the values in a line of the table of runs, as `records.require_keys` takes them."""

Key = tuple[str, str, int]
"""Setting, environment and seed of a run."""


def words_of(key: Key) -> str:
    """Returns "SETTING on ENVIRONMENT, seed 0"."""
    return f"{key[0]} on {key[1]}, seed {key[2]}"


class Progress(NamedTuple):
    """The time that a run has taken, and the steps that it has done."""

    wall_seconds: float = 0
    actor_steps: float = 0
    learner_steps: float = 0


class Tables(NamedTuple):
    """The files of a scale.

    Attributes:
      runs: the lines of the runs.
      configs: the lines of the configurations.
      evaluations: the rows of all evaluations.
      training: the rows of all stretches.
    """

    runs: pathlib.Path
    configs: pathlib.Path
    evaluations: pathlib.Path
    training: pathlib.Path

    @classmethod
    def of(cls, root: pathlib.Path, paper: str, scale: str) -> "Tables":
        """Returns the files of a paper and a scale below a root."""
        names = (_RUNS_FILE, ".configs.jsonl", ".evaluations.csv", ".training.csv")
        return cls(*(root / paper / f"{scale}{name}" for name in names))

    def read_configs(self) -> dict[str, dict[str, Any]]:
        """Returns the configurations by id: config.json without environment and seed.

        Raises:
          JsonError: a line is malformed.
        """
        found = {}
        for where, config in _json_lines(self.configs):
            found[str(require_config(where, config).pop("id", ""))] = config
        return found

    def read_records(self) -> dict[Key, tuple[str, dict[str, Any]]]:
        """Returns the line of each run, as its place "FILE:LINE" and its content, sorted by key.

        Raises:
          JsonError, RunDirectoryError: a line is malformed, or a run has two different lines.
        """
        found: dict[Key, tuple[str, dict[str, Any]]] = {}
        for where, record in _json_lines(self.runs):
            records.require_keys(where, record, _RECORD)
            records.require_keys(where, record.get("evaluation") or {}, {EPISODE_RETURN: float})
            require_starts(where, record.get("starts"))
            members = [(record, _RECORD), (record.get("progress") or {}, _RECORD["progress"])]
            if any(there.get(name) is None for there, names in members for name in names):
                raise RunDirectoryError(f"{where}: is not a record of a run: correct or remove it")
            key = (record["setting"], record["environment"], record["seed"])
            if key in found:
                raise RunDirectoryError(
                    f"{where}: {found[key][0]} has the same setting, environment and seed: "
                    "remove one of these lines, and its rows in the other tables"
                )
            found[key] = (where, record)
        return dict(sorted(found.items()))


@dataclasses.dataclass(frozen=True)
class KeptRun:
    """A kept run.

    Attributes:
      where: "FILE:LINE" of its line, for messages.
      paper: name of the paper.
      scale: name of the scale.
      setting: name of the curve, not of the agent's setting.
      environment: name of the environment, as given to `common.environments.make`.
      seed: seed of the run.
      config: content of config.json.
      starts: the starts in run.json, with the hash of a diff instead of the diff.
      progress: its time and steps, over all starts together.
      evaluations: its rows of the table of evaluations, by wall-clock time.
      training: its rows of the table of training, by wall-clock time.
      from_start_states: origin, episode_return_mean and episode_returns of the last evaluation's
        episodes from a file of start states; None if the run had no such file.
    """

    where: str
    paper: str
    scale: str
    setting: str
    environment: str
    seed: int
    config: dict[str, Any]
    starts: tuple[dict[str, Any], ...]
    progress: Progress
    evaluations: pandas.DataFrame = dataclasses.field(repr=False, compare=False)
    training: pandas.DataFrame = dataclasses.field(repr=False, compare=False)
    from_start_states: dict[str, Any] | None = None

    @property
    def curve(self) -> tuple[str, str]:
        """Setting and environment."""
        return self.setting, self.environment

    @property
    def key(self) -> Key:
        """Setting, environment and seed."""
        return self.setting, self.environment, self.seed

    @property
    def has_ended(self) -> bool:
        """True if its last start ended in order: it was not killed."""
        return self._last_start.get("outcome") in IN_ORDER

    @property
    def is_by_rule(self) -> bool:
        """True if it was evaluated as often as claims require, with enough episodes."""
        rows = self.evaluations
        return is_by_rule(rows[self.budget.clock][rows["episodes"] >= EPISODES])

    @property
    def final_evaluation(self) -> pandas.Series | None:
        """The evaluation of its final parameters, a row of its table; None if that was cut off."""
        last = self.evaluations.iloc[-1] if self.has_ended and len(self.evaluations) else None
        return last if last is not None and last.learner_steps >= self.progress[-1] else None

    @property
    def budget(self) -> Budget:
        """The limits of its last start; the minutes that it took if it stopped before them."""
        limits = Budget(**self._last_start.get("budget", {}))
        is_finished = self._last_start.get("outcome") == "finished" and limits != Budget()
        if is_finished or limits.reached(*self.progress):
            return limits
        return Budget(minutes=float(f"{self.progress.wall_seconds / 60:.2g}"))

    @property
    def overestimates(self) -> bool | None:
        """True if its mean Q ends above the largest possible return; None if either is unknown."""
        bound = q_bound(self.environment, self.config["config"])
        if "mean_q" not in self.training or bound == math.inf:
            return None
        last = self.training.dropna(subset="mean_q").tail(1)
        scale = last["reward_scale"].fillna(1.0) if "reward_scale" in last else 1.0
        return bool((last["mean_q"] > bound / scale).any()) if len(last) else None

    @property
    def commit(self) -> str:
        """The commit of the code of its last start; "" if its line does not say."""
        return str(self._last_start.get("git", {}).get("commit", ""))

    @property
    def started(self) -> str:
        """The date and time of its first start; "" if its line does not say."""
        return str(self.starts[0].get("start_time", ""))

    @property
    def cores(self) -> int:
        """The number of cores that its machine let it use; 1 if its line does not say."""
        return self._machine.get("usable_cores") or 1

    @property
    def gpus(self) -> int:
        """The number of GPUs of its machine; 0 if its line does not say."""
        return len(self._machine.get("gpus") or ())

    @property
    def _machine(self) -> dict[str, Any]:
        return self._last_start.get("machine", {})

    @property
    def _last_start(self) -> dict[str, Any]:
        return self.starts[-1]

    def points(self, x: str, y: str, returns: Returns) -> pandas.DataFrame:
        """Returns the points that a figure draws of this run.

        Args:
          x: "wall_seconds", "actor_steps", "learner_steps" or "environment_frames".
          y: `EPISODE_RETURN`, or a column of learner.csv.
          returns: the episodes whose returns to take, if y is a return.

        Returns:
          columns x and y, float64, sorted by x; empty if the run has nothing to show. Columns of
          learner.csv and returns of training episodes are means over the stretches of the run.
        """
        rows, source = self.evaluations, y
        if y != EPISODE_RETURN or returns is not Returns.EVALUATOR:
            rows = pandas.concat([self.training, pandas.DataFrame([self.progress], dtype=float)])
            source = returns.column if y == EPISODE_RETURN else y
        of_frames = x == "environment_frames"
        columns = ["actor_steps" if of_frames else x, source]
        curve = rows.reindex(columns=columns).to_numpy(float, copy=True).T
        curve[0] *= frames_per_step(self.environment) if of_frames else 1
        curve = curve[:, np.isfinite(curve).all(axis=0)]
        curve = curve[:, np.argsort(curve[0], kind="stable")]
        return pandas.DataFrame({x: curve[0], y: curve[1]})


def frame(
    paper: str, scale: str, kept: "KeptRuns | None" = None, y: str = EPISODE_RETURN, clock: str = ""
) -> pandas.DataFrame:
    """Returns the values of all ended runs of a scale as one long table.

    Args:
      paper: name of the paper.
      scale: name of the scale.
      kept: the kept runs; None: those in results/runs.
      y: `EPISODE_RETURN` for evaluations, or a column of learner.csv.
      clock: the column of x; "": the column of each run's limit, see `Budget.clock`.

    Returns:
      columns setting, task, seed, x, value, budget, commit, started and by_rule, with a row for
      each value. started is the date and time of the first start. by_rule is whether the run was
      evaluated as often as claims require. Runs without the column y have no row.
    """
    rows: list[tuple] = []
    for run in (kept or KeptRuns(_RUNS)).of(paper, scale):
        if run.has_ended:
            points = run.points(clock or run.budget.clock, y, Returns.EVALUATOR).to_numpy().tolist()
            made = (str(run.budget), run.commit, run.started, run.is_by_rule)
            rows += [(*run.key, *point, *made) for point in points]
    names = ["setting", "task", "seed", "x", "value", "budget", "commit", "started", "by_rule"]
    kinds = {"x": float, "value": float, "by_rule": bool}
    return pandas.DataFrame(rows, columns=names).astype(kinds)


class KeptRuns:
    """All kept runs below a root, by paper and scale.

    Args:
      root: root of the tables.
    """

    def __init__(self, root: pathlib.Path):
        self.root = root
        self._read: dict[Tables, tuple[tuple[int, int], dict[Key, KeptRun]]] = {}

    def scales(self, paper: str) -> tuple[str, ...]:
        """Returns the scales that have runs, sorted."""
        files = (self.root / paper).glob(f"*{_RUNS_FILE}")
        return tuple(sorted(file.name.removesuffix(_RUNS_FILE) for file in files))

    def of(self, paper: str, scale: str) -> tuple[KeptRun, ...]:
        """Returns the runs of a scale, sorted by setting, environment and seed.

        Raises:
          UserError: a line is malformed, or a run has two different lines.
        """
        return tuple(self._by_key(paper, scale).values())

    def find(self, paper: str, scale: str, key: Key) -> KeptRun | None:
        """Returns a run as it is in its table at this moment; None if it is not there."""
        return self._by_key(paper, scale).get(key)

    def _by_key(self, paper: str, scale: str) -> dict[Key, KeptRun]:
        tables = Tables.of(self.root, paper, scale)
        no_runs: tuple[tuple[int, int], dict[Key, KeptRun]] = ((0, 0), {})
        while self._read.get(tables, no_runs)[0] != (stamp := _stamp(tables.runs)):
            try:
                runs = {run.key: run for run in _read_runs(tables, paper, scale)}
            except UserError:
                if stamp == _stamp(tables.runs):  # else `keep` replaced the files meanwhile
                    raise
            else:
                self._read[tables] = (stamp, runs)
        return self._read.get(tables, no_runs)[1]


def _stamp(path: pathlib.Path) -> tuple[int, int]:
    """Returns inode and time of a file, to notice its replacement; zeros if there is no file."""
    try:
        state = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return 0, 0
    return state.st_ino, state.st_mtime_ns


def _read_runs(tables: Tables, paper: str, scale: str) -> Iterator[KeptRun]:
    configs = tables.read_configs()
    evaluations = read_rows(tables.evaluations, EVALUATIONS)
    training = read_rows(tables.training, (*KEYS, *csv_rows.PROGRESS))
    for key, (where, record) in tables.read_records().items():
        if record["config"] not in configs:
            raise RunDirectoryError(
                f"{where}: {tables.configs} lacks the config of this run: restore the file"
            )
        environment, seed = key[1:]
        yield KeptRun(
            where,
            paper,
            scale,
            *key,
            config=configs[record["config"]] | {"environment": environment, "seed": seed},
            starts=tuple(record["starts"]),
            progress=Progress(**record["progress"]),
            evaluations=evaluations.get(key, _NO_ROWS),
            training=training.get(key, _NO_ROWS),
            from_start_states=(record.get("evaluation") or {}).get("from_start_states"),
        )


def _json_lines(path: pathlib.Path) -> Iterator[tuple[str, Any]]:
    """Yields the place "FILE:LINE" and the content of each distinct line."""
    try:
        lines = path.read_bytes().splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return
    for line, number in {line: number for number, line in enumerate(lines, 1)}.items():
        yield f"{path}:{number}", records.parse_json(line, f"{path}:{number}")


def read_rows(
    path: pathlib.Path, columns: Sequence[str], kind: type = float
) -> dict[tuple[str, str, Any], pandas.DataFrame]:
    """Returns the distinct rows of each run in a table; empty cells are NaN.

    Args:
      path: path of the table; a file that does not exist has no rows.
      columns: the columns that the table must have.
      kind: type of its numbers; str leaves them as they are written.

    Raises:
      CsvError: the table is malformed.
    """
    if not path.exists():
        return {}
    kinds = collections.defaultdict(lambda: kind, {"setting": str, "environment": str})
    try:
        table = pandas.read_csv(
            path, dtype=kinds, lineterminator="\n", keep_default_na=False, na_values=["", "nan"]
        )
        numbers = table[["seed", *csv_rows.PROGRESS]].astype(float)
        if table[[*KEYS]].isna().any(axis=None) or not np.isfinite(numbers).all(axis=None):
            raise ValueError("a row is cut")
        if not set(columns) <= set(table):
            raise ValueError("a column is missing")
        rows = table.drop_duplicates().sort_values("wall_seconds", kind="stable")
        return dict(iter(rows.groupby(list(KEYS))))
    except (ValueError, KeyError, OverflowError):
        # The strict reader names the line.
        read_numbers(path, [name for name in columns if name not in ("setting", "environment")])
        raise CsvError(f"{path}: is not a table of kept runs: restore the file") from None
