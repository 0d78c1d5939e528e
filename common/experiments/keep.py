"""Keeps finished runs where figures, tables and claims look."""

from collections.abc import Iterator, Mapping, Sequence
import filecmp
import json
import pathlib
import shutil
from typing import Any

import numpy as np

from common.experiments.compact import CURVES, RUNS, CompactFolder, as_csv, cells_of, quantity_of
from common.experiments.paper import Paper, Returns, run_path
from common.experiments.plan import Plan, PlannedRun
from common.experiments.runs import KeptRun
from common.experiments.status import Progress, State
from common.reporting.columns import EVALUATOR
from common.reporting.csv_rows import numbered_rows, read_numbers
from common.reporting.differences import differences
from common.reporting.run_directory import (
    RunDirectory,
    RunDirectoryError,
    replace_file,
    write_new_file,
)

_FILES = (
    *("config.json", "learner.csv", "acting.csv", "evaluator.csv"),
    *("evaluation.json", "run.json"),
)
"""The record comes last, so that an interrupted copy is no finished run."""
_POINTS = 20
"""The number of points to which a curve is thinned: 1 kB."""


def keep(plan: Plan, root: pathlib.Path) -> list[pathlib.Path]:
    """Keeps the plan's finished runs below `root`; see `keep_run`.

    Returns:
      The places that changed, one a run.
    """
    finished = plan.of(State.FINISHED)
    return [place for one in finished if (place := keep_run(plan.paper, one, root))]


def keep_run(paper: Paper, planned: PlannedRun, root: pathlib.Path) -> pathlib.Path | None:
    """Keeps a finished run below `root`: its CSV and JSON files, or what its scale keeps of them.

    Args:
      paper: of the run.
      planned: the run.
      root: of the kept runs.

    Returns:
      The place if anything changed there, else None.

    Raises:
      RunDirectoryError: runs of another config are kept there.
      CsvError: a file of the run, or one that is kept, is malformed.
    """
    run = planned.run
    target = root / run_path(
        paper.name, planned.scale.name, run.setting, run.environment, planned.seed
    )
    if planned.directory == target:
        return None
    if planned.scale.is_compact:
        return target if _add(paper, planned, CompactFolder(target.parent)) else None
    names = [name for name in _FILES if (planned.directory / name).exists()]
    _, changed, missing = filecmp.cmpfiles(planned.directory, target, names, shallow=False)
    if not changed and not missing:
        return None
    target.mkdir(parents=True, exist_ok=True)
    for name in names:
        shutil.copyfile(planned.directory / name, target / name)
    return target


def _add(paper: Paper, planned: PlannedRun, folder: CompactFolder) -> bool:
    """Adds a run to a folder, or replaces it there; returns whether anything changed."""
    files, seed = RunDirectory(planned.directory), planned.seed
    config = files.read_config()
    shared = {name: value for name, value in config.items() if name != "seed"}
    folder.path.mkdir(parents=True, exist_ok=True)
    if not folder.config_json.exists():
        write_new_file(folder.config_json, json.dumps(shared, indent=1) + "\n")
    with RunDirectory(folder.path).hold():
        kept = folder.read_config(seed)
        if newer := config.get("config", {}).keys() - kept.setdefault("config", {}).keys():
            defaults = planned.run.program.defaults  # which the runs there had
            kept["config"] |= {name: defaults[name] for name in newer & defaults.keys()}
        if found := differences(kept, config):
            changes = ", ".join(f"{name} {old} -> {new}" for name, (old, new) in found.items())
            raise RunDirectoryError(
                f"{folder.path} has runs of another config than {files.path} ({changes}): move "
                "one of them away"
            )
        folder.read_rows()  # an error of a file there is not to be copied
        evaluations = [cells for _, cells in numbered_rows(files.evaluator_csv, EVALUATOR)]
        row = cells_of(seed, files.read_starts(), planned.look().progress)
        changed = _merge(folder.evaluator_csv, EVALUATOR, seed, evaluations)
        changed |= _merge(folder.curves_csv, CURVES, seed, list(_curves(paper, planned, config)))
        return _merge(folder.runs_csv, RUNS, seed, [row]) or changed


def _merge(
    path: pathlib.Path, names: Sequence[str], seed: int, new: Sequence[Mapping[str, Any]]
) -> bool:
    """Replaces the rows of a seed in a CSV file; returns whether anything changed."""
    before = path.read_text(errors="replace") if path.exists() else ""
    rows = [cells for _, cells in numbered_rows(path, names)] if before else []
    rows = [cells for cells in rows if cells["seed"] != str(seed)]
    after = as_csv(names, sorted([*rows, *new], key=lambda cells: int(cells["seed"])))
    if after == before or not (rows or new):
        return False
    replace_file(path, after)
    return True


def _curves(
    paper: Paper, planned: PlannedRun, config: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """Yields the rows of curves.csv for what figures show of a run besides evaluations."""
    run, scale = planned.run, planned.scale.name
    kept = KeptRun(
        planned.directory, paper.name, scale, run.setting, run.environment, planned.seed, config, ()
    )
    shown = {
        (one.y, one.returns)
        for experiment in paper.experiments
        for one in experiment.at(scale).divided()
        if (run.setting, run.environment) in {(it.setting, it.environment) for it in one.runs}
        if not one.is_of_returns or one.returns is not Returns.EVALUATOR
    }
    clock = read_numbers(RunDirectory(planned.directory).learner_csv, Progress._fields).dropna()
    for y, returns in sorted(shown):
        curve = kept.points("wall_seconds", y, returns)
        if not len(curve):
            continue
        stretch = np.ceil(np.linspace(0, _POINTS, len(curve) + 1)[1:])
        thinned = curve.groupby(stretch).mean()
        for seconds, value in thinned.itertuples(index=False):
            at = (np.interp(seconds, clock["wall_seconds"], clock[x]) for x in Progress._fields)
            yield {
                "seed": planned.seed,
                "quantity": quantity_of(y, returns),
                **{x: f"{where:.1f}" for x, where in zip(Progress._fields, at)},
                "value": f"{value:.6g}",
            }
