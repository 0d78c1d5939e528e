"""Copies the CSV and JSON files of finished runs to where figures, tables and claims look."""

import filecmp
import pathlib
import shutil

from common.experiments.paper import run_path
from common.experiments.plan import Plan
from common.experiments.status import State

_FILES = ("config.json", "learner.csv", "acting.csv", "evaluator.csv", "run.json")
"""The record comes last, so that an interrupted copy is no finished run."""


def keep(plan: Plan, root: pathlib.Path) -> list[pathlib.Path]:
    """Copies the files of the plan's finished runs below `root`.

    Returns:
      The run directories that changed.
    """
    kept = []
    for planned in plan.of(State.FINISHED):
        run = planned.run
        target = root / run_path(
            plan.paper.name, planned.scale, run.setting, run.environment, planned.seed
        )
        names = [name for name in _FILES if (planned.directory / name).exists()]
        _, changed, missing = filecmp.cmpfiles(planned.directory, target, names, shallow=False)
        if changed or missing:
            target.mkdir(parents=True, exist_ok=True)
            for name in names:
                shutil.copyfile(planned.directory / name, target / name)
            kept.append(target)
    return kept
