"""Copies the CSV and JSON files of finished runs to where figures, tables and claims look."""

import pathlib
import shutil

from common.experiments.paper import run_path
from common.experiments.plan import Plan, PlannedRun
from common.experiments.status import State
from common.reporting.run_directory import RunDirectory


def keep(plan: Plan, root: pathlib.Path) -> list[pathlib.Path]:
    """Copies the files of the plan's finished runs below `root`.

    Returns:
      The run directories that changed.
    """
    kept = []
    for planned in plan.of(State.FINISHED):
        run = planned.run
        path = run_path(plan.paper.name, planned.scale, run.setting, run.environment, planned.seed)
        if _copy(planned, root / path):
            kept.append(root / path)
    return kept


def _copy(planned: PlannedRun, target: pathlib.Path) -> bool:
    source = RunDirectory(planned.directory)
    # The record comes last, so that a copy that was interrupted is no finished run.
    files = [
        source.config_json,
        source.learner_csv,
        source.acting_csv,
        source.evaluator_csv,
        source.run_json,
    ]
    changed = [file for file in files if file.exists() and _differs(file, target / file.name)]
    if changed:
        target.mkdir(parents=True, exist_ok=True)
        for file in changed:
            shutil.copyfile(file, target / file.name)
    return bool(changed)


def _differs(file: pathlib.Path, other: pathlib.Path) -> bool:
    return not other.exists() or file.read_bytes() != other.read_bytes()
