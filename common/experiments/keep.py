"""Keeps finished runs where figures, tables and claims look."""

from collections.abc import Mapping, Sequence
import filecmp
import json
import pathlib
import shutil
from typing import Any

import numpy as np

from common.experiments.compact import RUNS, CompactFolder, as_csv, cells_of, column_of
from common.experiments.paper import EPISODE_RETURN, Paper, Returns, run_path
from common.experiments.plan import Plan, PlannedRun
from common.experiments.runs import KeptRun
from common.experiments.scales import EARLIER
from common.experiments.status import State
from common.reporting.columns import EVALUATOR
from common.reporting.csv_rows import numbered_rows, read_rows
from common.reporting.differences import differences, listed
from common.reporting.run_directory import (
    RunDirectory,
    RunDirectoryError,
    hold,
    replace_file,
    write_new_file,
)

_FILES = (
    *("config.json", "learner.csv", "acting.csv", "evaluator.csv"),
    *("evaluation.json", "run.json"),
)
_POINTS = 20
"""The number of rows to which learner.csv is thinned: 3 kB."""
_PATIENCE_SECONDS = 600.0
"""The time to wait for other processes that keep runs, which need a second for one."""


def keep(plan: Plan, root: pathlib.Path) -> list[pathlib.Path]:
    """Keeps the plan's finished runs below `root`; see `keep_run`.

    Returns:
      The places that changed, one a run.
    """
    finished = plan.of(State.FINISHED)
    return [place for one in finished if (place := keep_run(plan.paper, one, root))]


def keep_run(paper: Paper, planned: PlannedRun, root: pathlib.Path) -> pathlib.Path | None:
    """Keeps a finished run below `root`: its CSV and JSON files, or what its scale keeps of them.

    A run that went on replaces what was kept of it. Whatever stops that, readers see the run as it
    was, as it is, or not at all. Processes that keep runs wait for each other.

    Args:
      paper: of the run.
      planned: the run.
      root: of the kept runs.

    Returns:
      The place if anything changed there, else None.

    Raises:
      RunDirectoryError: another run of the same seed is kept there, or runs of another config.
      CsvError: a file of the run, or one that is kept, is malformed.
    """
    run, scale = planned.run, planned.scale
    target = root / run_path(paper.name, scale.name, run.setting, run.environment, planned.seed)
    if planned.directory == target:
        return None
    root.mkdir(parents=True, exist_ok=True)
    with hold(root / ".keep.lock", "program that keeps runs", root, "root", _PATIENCE_SECONDS):
        if scale.is_compact:
            is_changed = _add(paper, planned, CompactFolder(target.parent))
        else:
            is_changed = _copy(planned, target)
    return target if is_changed else None


def _copy(planned: PlannedRun, target: pathlib.Path) -> bool:
    """Copies a run's files to a directory; returns whether anything changed there."""
    new, old = (target.with_name(f".{target.name}.{one}") for one in ("new", "old"))
    if old.exists() and not target.exists():  # another copy was cut between its renames
        old.rename(target)
    for remains in (new, old):
        shutil.rmtree(remains, ignore_errors=True)
    names = [name for name in _FILES if (planned.directory / name).exists()]
    _, changed, missing = filecmp.cmpfiles(planned.directory, target, names, shallow=False)
    if not changed and not missing:
        return False
    starts = (RunDirectory(path).read_starts() for path in (target, planned.directory))
    _check_is_same_run(planned, target, *(one[0] if one else {} for one in starts))
    new.mkdir(parents=True)
    for name in names:
        shutil.copyfile(planned.directory / name, new / name)
    if target.exists():
        target.rename(old)
    new.rename(target)
    shutil.rmtree(old, ignore_errors=True)
    return True


def _check_is_same_run(
    planned: PlannedRun, place: pathlib.Path, kept: Mapping[str, Any], now: Mapping[str, Any]
) -> None:
    """Raises RunDirectoryError if another run of the seed is kept: both are to be compared.

    Args:
      planned: the run.
      place: of the kept run.
      kept: first start of the kept run, empty if there is none; `start_time` tells runs apart.
      now: first start of the run.
    """
    there, here = (start.get("start_time") or "" for start in (kept, now))
    if kept and there != here:
        scale = planned.scale.name
        raise RunDirectoryError(
            f"{place} has another run of seed {planned.seed}, begun {there}, than "
            f"{planned.directory}, begun {here}: to keep both, first move {place} to a scale of "
            f"its own, {scale}{EARLIER} in place of {scale}"
        )


def _add(paper: Paper, planned: PlannedRun, folder: CompactFolder) -> bool:
    """Adds a run to a folder, or renews it there; returns whether anything changed."""
    files, seed = RunDirectory(planned.directory), planned.seed
    config = files.read_config()
    shared = {name: value for name, value in config.items() if name != "seed"}
    folder.path.mkdir(parents=True, exist_ok=True)
    if not folder.config_json.exists():
        write_new_file(folder.config_json, json.dumps(shared, indent=1) + "\n")
    kept = folder.read_config(seed)
    if newer := config.get("config", {}).keys() - kept.setdefault("config", {}).keys():
        defaults = vars(planned.run.agent.settings.config_class())  # which the runs there had
        kept["config"] |= {name: defaults[name] for name in newer & defaults.keys()}
    if found := differences(kept, config):
        raise RunDirectoryError(
            f"{folder.path} has runs of another config than {files.path} ({listed(found)}): move "
            "one of them away"
        )
    folder.read_rows()  # an error of a file there is not to be copied
    row = cells_of(seed, files.read_starts(), planned.read_status().progress)
    for cells in _rows(folder.runs_csv, RUNS):
        if cells["seed"] == str(seed):
            _check_is_same_run(planned, folder.path, cells, row)
    merged = (
        (folder.evaluator_csv, EVALUATOR, _rows(files.evaluator_csv, EVALUATOR)),
        (folder.learner_csv, ("seed",), _learner_rows(paper, planned, config)),
        (folder.runs_csv, RUNS, [row]),
    )
    if not any(_merged(path, names, seed, rows) for path, names, rows in merged):
        return False
    # Without its row here, the rows of a seed in the other files do not count.
    for path, names, rows in ((folder.runs_csv, RUNS, []), *merged):
        if text := _merged(path, names, seed, rows):
            replace_file(path, text)
    return True


def _merged(
    path: pathlib.Path, names: Sequence[str], seed: int, new: Sequence[Mapping[str, Any]]
) -> str:
    """Returns a CSV file with other rows of a seed, "" if that changes nothing.

    Args:
      path: the file, which need not exist.
      names: of the columns that the file must have; it may have more, as may the new rows.
      seed: of the new rows.
      new: the rows.

    Raises:
      CsvError: the file is malformed, or lacks one of the columns.
    """
    old = _rows(path, names)
    columns = dict.fromkeys(name for row in (*old[:1], names, *new[:1]) for name in row)
    rows = [cells for cells in old if cells["seed"] != str(seed)]
    after = as_csv(columns, sorted([*rows, *new], key=lambda cells: int(cells["seed"])))
    before = path.read_text(errors="replace") if path.exists() else as_csv(columns, ())
    return "" if after == before else after


def _rows(path: pathlib.Path, names: Sequence[str]) -> list[dict[str, str]]:
    """Returns the rows of a CSV file, none if there is no such file."""
    return [cells for _, cells in numbered_rows(path, names)] if path.exists() else []


def _learner_rows(
    paper: Paper, planned: PlannedRun, config: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Returns the rows of learner.csv, thinned, with the returns of training episodes, as text."""
    run, scale = planned.run, planned.scale.name
    kept = KeptRun(
        planned.directory, paper.name, scale, run.setting, run.environment, planned.seed, config, ()
    )
    rows = read_rows(RunDirectory(planned.directory).learner_csv).astype(float)
    stretch = np.ceil(np.linspace(0, _POINTS, len(rows) + 1)[1:])
    thinned = rows.drop(columns="parameter_version").groupby(stretch).mean()
    for returns in (Returns.GREEDIEST_ACTOR, Returns.ALL_ACTORS):
        episodes = kept.points("wall_seconds", EPISODE_RETURN, returns)
        row = np.searchsorted(rows["wall_seconds"], episodes["wall_seconds"])
        ends = stretch[np.minimum(row, len(rows) - 1)]
        thinned[column_of(returns)] = episodes[EPISODE_RETURN].groupby(ends).mean()
    thinned = thinned.map("{:.6g}".format).replace("nan", "")
    return thinned.assign(seed=str(planned.seed)).to_dict("records")
