"""Keeps finished runs where figures, tables and claims look.

A kept run is a run directory with its CSV and JSON files. At a scale with many runs, learner.csv is
thinned and has the returns of training episodes in the place of acting.csv.
"""

import filecmp
import json
import pathlib
import shutil
from typing import Any

import numpy as np
import pandas

from common.experiments.paper import EPISODE_RETURN, Paper, Returns, run_path
from common.experiments.plan import Plan, PlannedRun
from common.experiments.runs import KeptRun
from common.experiments.scales import EARLIER
from common.experiments.status import State
from common.reporting.csv_rows import read_rows
from common.reporting.run_directory import (
    RunDirectory,
    RunDirectoryError,
    differences,
    hold,
    listed,
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
        return target if _copy(paper, planned, target) else None


def _copy(paper: Paper, planned: PlannedRun, target: pathlib.Path) -> bool:
    """Copies what is kept of a run to a directory; returns whether anything changed there."""
    new, old = (target.with_name(f".{target.name}.{one}") for one in ("new", "old"))
    if old.exists() and not target.exists():  # another copy was cut between its renames
        old.rename(target)
    for remains in (new, old):
        shutil.rmtree(remains, ignore_errors=True)
    _check_is_same_run(planned, target)
    names = [name for name in _FILES if (planned.directory / name).exists()]
    config = _config(planned, target.parent)
    new.mkdir(parents=True)
    for name in names:
        shutil.copyfile(planned.directory / name, new / name)
    _write_json(new / "config.json", config)
    if planned.scale.is_compact:
        _thin(paper, planned, new, config)
    kept = [path.name for path in new.iterdir()]
    _, changed, missing = filecmp.cmpfiles(new, target, kept, shallow=False)
    if not changed and not missing:
        shutil.rmtree(new)
        return False
    if target.exists():
        target.rename(old)
    new.rename(target)
    shutil.rmtree(old, ignore_errors=True)
    return True


def _check_is_same_run(planned: PlannedRun, target: pathlib.Path) -> None:
    """Raises RunDirectoryError if another run of the seed is kept: both are to be compared."""
    kept, now = (RunDirectory(path).read_starts() for path in (target, planned.directory))
    there, here = (one[0].get("start_time") or "" if one else "" for one in (kept, now))
    if kept and there != here:
        scale = planned.scale.name
        raise RunDirectoryError(
            f"{target} has another run of seed {planned.seed}, begun {there}, than "
            f"{planned.directory}, begun {here}: to keep both, first move {target} to a scale of "
            f"its own, {scale}{EARLIER} in place of {scale}"
        )


def _config(planned: PlannedRun, folder: pathlib.Path) -> dict[str, Any]:
    """Returns the config to keep: that of the seeds in the folder, which may lack newer defaults.

    Raises:
      RunDirectoryError: the run is of another config than they.
    """
    config = RunDirectory(planned.directory).read_config()
    for path in sorted(folder.glob("seed_*")):
        kept = RunDirectory(path).read_config() | {"seed": planned.seed}
        shared = kept.get("config", {})
        if newer := config.get("config", {}).keys() - shared.keys():
            defaults = vars(planned.run.agent.settings.config_class())  # which the runs there had
            shared = shared | {name: defaults[name] for name in newer & defaults.keys()}
        if found := differences(kept | {"config": shared}, config):
            raise RunDirectoryError(
                f"{folder} has runs of another config than {planned.directory} ({listed(found)}): "
                "move one of them away"
            )
        return kept
    return config


def _thin(paper: Paper, planned: PlannedRun, new: pathlib.Path, config: dict[str, Any]) -> None:
    """Thins the copy of a run: its learner.csv has the returns of training episodes, too.

    The rows are means over stretches of the run; the last one has only how far the run went.
    """
    run, files = planned.run, RunDirectory(new)
    kept = KeptRun(
        new, paper.name, planned.scale.name, run.setting, run.environment, planned.seed, config, ()
    )
    rows = read_rows(files.learner_csv).astype(float)
    stretch = np.ceil(np.linspace(0, _POINTS, len(rows) + 1)[1:])
    thinned = rows.drop(columns="parameter_version").groupby(stretch).mean()
    for returns in (Returns.GREEDIEST_ACTOR, Returns.ALL_ACTORS):
        episodes = kept.points("wall_seconds", EPISODE_RETURN, returns)
        row = np.searchsorted(rows["wall_seconds"], episodes["wall_seconds"])
        ends = stretch[np.minimum(row, len(rows) - 1)]
        thinned[returns.column] = episodes[EPISODE_RETURN].groupby(ends).mean()
    end = {name: [f"{one:.12g}"] for name, one in planned.read_status().progress._asdict().items()}
    table = pandas.concat([thinned.map("{:.6g}".format), pandas.DataFrame(end)])
    table.replace("nan", "").to_csv(files.learner_csv, index=False, lineterminator="\n")
    files.acting_csv.unlink(missing_ok=True)
    starts = files.read_starts()
    starts[-1]["outcome"] = "finished"  # even if a signal came after the last evaluation
    _write_json(files.run_json, {"starts": starts})


def _write_json(path: pathlib.Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n")
