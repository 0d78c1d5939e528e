"""The runs that a figure, a table or a claim uses, their final values, and captions."""

import collections
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import pandas

from common.evidence.effects import LATE
from common.evidence.paper import (
    EARLIER,
    PAPER_SCALE,
    SMOKE,
    Experiment,
    OverTasks,
    Paper,
    UnknownError,
)
from common.evidence.runs import KeptRun, KeptRuns
from common.reporting.budget import Budget, duration
from common.reporting.run_directory import RunDirectoryError

ALL_RUNS = "runs"
"""The name of the figure that shows all runs of a scale."""
FINAL = "the mean of the values in the last third of a run"
"""The definition of a final return; see `effects.late_mean`."""
_FINAL_SPEED = "the mean over the last third of a run's time"
_CLOCKS = ("wall_seconds", "actor_steps", "learner_steps", "environment_frames")
_FINAL_CLOCK = "a run's last value"
FEWEST_SEEDS = 3
"""The minimum number of seeds of a curve with a band."""
LISTED = 6
"""The maximum number of tasks that are named; more tasks are only counted."""
_SUITES = {"atari": "Atari", "control": "Control Suite", "gym": "Gym", "minatar": "MinAtar"}


def runs_of(experiment: Experiment, runs: Iterable[KeptRun]) -> tuple[KeptRun, ...]:
    """Returns the runs that the experiment lists, in the order of its curves and by seed.

    Raises:
      RunDirectoryError: the setting in a run's config is not that of its curve.
    """
    order = {
        run.curve: (number, run.agent_setting) for number, run in enumerate(experiment.every_run)
    }
    listed = [run for run in runs if run.curve in order]
    for run in listed:
        wanted = order[run.curve][1]
        if not str(run.config.get("setting")).startswith(wanted):
            raise RunDirectoryError(
                f"{run.where}: its config has the setting {run.config.get('setting')}, not "
                f"{wanted}: move the run to a curve of its setting"
            )
    return tuple(sorted(listed, key=lambda run: (order[run.curve], run.seed)))


def shown_tasks(experiment: Experiment, curves: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Returns the tasks to show, in the order of the figure.

    A figure that averages over tasks shows only tasks that every setting has.

    Args:
      experiment: the figure, or a part of it.
      curves: the (setting, environment) of each curve that has runs.
    """
    there, shown = set(curves), set()
    for part in experiment.divided():
        drawn = there & {run.curve for run in part.runs}
        settings = {setting for setting, _ in drawn}
        having = collections.Counter(task for _, task in drawn)
        fewest = 1 if part.over_tasks is OverTasks.APART else len(settings)
        shown |= {task for task, number in having.items() if number >= fewest}
    return tuple(task for task in experiment.environments if task in shown)


def scales_of(paper: Paper, kept: KeptRuns) -> tuple[str, ...]:
    """Returns the scales with runs: the paper's list in its order, then any others."""
    there = kept.scales(paper.name)
    listed = [scale.name for scale in paper.scales if scale.name in there]
    return (*listed, *(name for name in there if name not in listed))


def deciding_scales(paper: Paper, kept: KeptRuns) -> tuple[str, ...]:
    """Returns the scales with runs that are evidence for the paper's claims.

    Replaced runs are not evidence, so that nobody can choose between two runs of a seed.
    """
    there = scales_of(paper, kept)
    return tuple(scale for scale in there if scale != SMOKE and not scale.endswith(EARLIER))


def check_scale(papers: Sequence[Paper], kept: KeptRuns, scale: str | None) -> None:
    """Checks that the directory of runs exists, and that a paper lists the scale or has runs of it.

    Raises:
      RunDirectoryError: the directory does not exist.
      UnknownError: no paper has the scale; the message lists the known scales.
    """
    if not kept.root.is_dir():
        raise RunDirectoryError(
            f"there are no runs: {kept.root} is not a directory; give another --runs"
        )
    listed = [scale.name for paper in papers for scale in paper.scales]
    known = dict.fromkeys(listed + [name for paper in papers for name in kept.scales(paper.name)])
    if scale is not None and scale not in known:
        titles = ", ".join(paper.title for paper in papers)
        raise UnknownError(f'{titles}: no scale "{scale}", there are {", ".join(known)}')


def nearest_scale(paper: Paper, kept: KeptRuns, experiment: Experiment | None = None) -> str | None:
    """Returns the scale nearest to the paper's that has runs (of the experiment), or None."""
    for scale in scales_of(paper, kept):
        runs = kept.of(paper.name, scale)
        if runs_of(experiment, runs) if experiment else runs:
            return scale
    return None


def final(values: pandas.Series) -> float:
    """Returns the final value of a run, as `FINAL` defines it, given its values by position."""
    return float(values[values.index > LATE * values.index[-1]].mean())


def final_speed(values: pandas.Series) -> float:
    """Returns the final value of a run's speed: the mean over the last third of its time.

    Args:
      values: speeds by wall-clock seconds; each is a mean over the time since the previous one.
    """
    ends = values.index.to_numpy()
    is_late = ends > LATE * ends[-1]
    return float(np.average(values[is_late], weights=np.diff(ends, prepend=0.0)[is_late]))


def final_of(column: str) -> tuple[Callable[[pandas.Series], float], str]:
    """Returns the function that computes a column's final value, and its definition in words."""
    if column in _CLOCKS:
        return lambda values: float(values.iloc[-1]), _FINAL_CLOCK
    return (final_speed, _FINAL_SPEED) if column.endswith("_per_second") else (final, FINAL)


def file_name(paper: str, name: str, scale: str | None) -> str:
    """Returns "PAPER_figure_2", or "PAPER_figure_2_smoke" for a scale other than the paper's."""
    stem = paper if name == ALL_RUNS else f"{paper}_{name.replace(' ', '_')}"
    return stem if scale in (None, PAPER_SCALE.name) else f"{stem}_{scale}"


def title(paper: Paper, experiment: Experiment, scale: str, tasks: Sequence[str]) -> str:
    """Returns the title of a figure: paper, figure, scale, and what is drawn.

    If the experiment's title starts with a suite, the suites of the drawn tasks replace it.
    """
    head, colon, rest = experiment.title.partition(": ")
    if colon and head in _SUITES.values():
        suites = dict.fromkeys(task.partition(":")[0] for task in tasks)
        names = [_SUITES.get(suite, "environments of this repository") for suite in suites]
        head = ", ".join(names) or head
    name = "" if experiment.name == ALL_RUNS else f", {experiment.name}"
    return f"{paper.title}{name}, scale {scale}. {head[:1].upper()}{head[1:]}{colon}{rest}"


def caption(
    paper: Paper,
    experiment: Experiment,
    runs: Sequence[KeptRun],
    settings: Sequence[str],
    left_out: Sequence[KeptRun] = (),
) -> str:
    """Returns the text below a figure.

    Args:
      paper: the paper of the figure.
      experiment: the figure.
      runs: the runs that are drawn.
      settings: the settings of the curves that are drawn.
      left_out: other runs of the figure.
    """
    curves = {run.curve for run in runs}
    shown = shown_tasks(experiment, curves)
    runs = [run for run in runs if run.environment in shown]
    counts = collections.Counter(run.curve for run in runs)
    seeds, spread = counts.values(), {"shaded" if experiment.x else "bars": str(paper.band)}
    has_names = experiment.over_tasks is not OverTasks.APART and len(shown) <= LISTED
    there = {*settings, *(run.setting for run in left_out)}
    others = [f'"{paper.label(name)}"' for name in experiment.settings if name not in there]
    tasks = [task_title(name) for name in experiment.environments if name not in shown]
    return joined(
        {
            **contents(experiment),
            "tasks": ", ".join(map(task_title, shown)) if has_names else "",
            "seeds": range_text(f"{min(seeds)}", f"{max(seeds)}"),
            "the paper's seeds": str(experiment.seeds or ""),
            **(spread if _has_band(experiment, counts) else {}),
            "smoothed": f"over {experiment.smoothed} points" * (experiment.smoothed > 1),
            "runs": _length(experiment, runs),
            "left out": f"{len(left_out)} runs, evaluated at other intervals" * bool(left_out),
            "the paper's runs": _budget(experiment),
            "curves not run": _few(others, len(experiment.settings)),
            "tasks not run": _few(tasks, len(experiment.environments)),
            "note": experiment.note,
        }
    )


def _has_band(experiment: Experiment, seeds: Mapping[tuple[str, str], int]) -> bool:
    """Returns whether any curve has enough seeds for a band on each of its tasks."""
    for part in experiment.divided():
        tasks, fewest = shown_tasks(part, seeds), dict[tuple[str, str], int]()
        for setting, task in (run.curve for run in part.runs if run.curve in seeds):
            curve = (setting, task if part.over_tasks is OverTasks.APART else "")
            if task in tasks:
                fewest[curve] = min(seeds[setting, task], fewest.get(curve, FEWEST_SEEDS))
        if FEWEST_SEEDS in fewest.values():
            return True
    return False


def contents(experiment: Experiment) -> dict[str, str]:
    """Returns whose returns are shown, and how tasks and values are combined, part by part."""
    parts = experiment.divided()
    found = [
        {
            "returns of": str(part.returns) if part.is_of_returns else "",
            "over tasks": "" if part.over_tasks is OverTasks.APART else str(part.over_tasks),
            "final": "" if part.x else final_of(part.y)[1],
        }
        for part in parts
    ]
    names = [part.name for part in experiment.parts] or [""]
    return {key: _by_part(names, [each[key] for each in found]) for key in found[0]}


def joined(items: Mapping[str, str]) -> str:
    """Returns the items with a text, joined: "returns of: evaluations; seeds: 3"."""
    return "; ".join(f"{name}: {text}" for name, text in items.items() if text)


def task_title(environment: str) -> str:
    """Returns a task in words: "cartpole swingup sparse", "Humanoid", "ms pacman".

    An environment that is a Python function has only its distinguishing words: "match 21".
    """
    suite, _, name = environment.partition(":")
    words = (name or suite).replace(":", " ").replace("_", " ").removesuffix("-v4").split()
    if suite == "python":
        words = [word.rpartition(".")[2] for word in words if word != "make"]
    return " ".join(words)


def _by_part(names: Iterable[str], texts: Sequence[str]) -> str:
    """Returns the text that all parts share, or each part's text if they differ."""
    if len(set(texts)) == 1:
        return texts[0]
    return ", ".join(f"{name} {text}" for name, text in zip(names, texts) if text)


def _few(names: Sequence[str], of: int) -> str:
    """Returns the names, or their number if they are many: "7/9"."""
    return ", ".join(names) if len(names) <= LISTED // 2 else f"{len(names)}/{of}"


def _budget(experiment: Experiment) -> str:
    """Returns the paper's limits of a run, in brackets if the paper does not state them."""
    if experiment.budget == Budget():
        return ""
    return str(experiment.budget) if experiment.states_budget else f"({experiment.budget})"


def _length(experiment: Experiment, runs: Sequence[KeptRun]) -> str:
    """Returns the runs' length in the paper's quantity: "5 to 15 minutes", "9,000 actor steps"."""
    x = experiment.clock
    if x != "wall_seconds":
        column = "learner_steps" if x == "learner_steps" else "actor_steps"
        steps = [getattr(run.progress, column) for run in runs]
        return (
            f"{range_text(f'{min(steps):,.0f}', f'{max(steps):,.0f}')} {column.replace('_', ' ')}"
        )
    minutes = [run.progress.wall_seconds / 60 for run in runs]
    longest = duration(round(max(minutes)) if max(minutes) >= 2 else max(minutes))
    shortest = duration(round(min(minutes))) if round(max(minutes)) >= 60 else f"{min(minutes):.0f}"
    return longest if round(min(minutes)) == round(max(minutes)) else f"{shortest} to {longest}"


def range_text(low: str, high: str) -> str:
    """Returns "1 to 3", or "3" if both ends are the same."""
    return high if low == high else f"{low} to {high}"
