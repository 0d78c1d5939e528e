"""The text below a figure or a table: named cells, such as whose returns and how many seeds."""

import collections
from collections.abc import Iterable, Mapping, Sequence

from common.evidence import selection
from common.evidence.paper import Band, Experiment, OverTasks, Paper
from common.evidence.runs import KeptRun
from common.reporting.budget import Budget, duration

FEWEST_SEEDS = 3
"""The least number of seeds with a shade."""
LISTED = 6
"""The most tasks that are named; of more there is the number."""
_SUITES = {"atari": "Atari", "control": "Control Suite", "gym": "Gym", "minatar": "MinAtar"}


def title(paper: Paper, experiment: Experiment, scale: str, tasks: Sequence[str]) -> str:
    """Returns the title of a figure: paper, figure, scale, and what is drawn.

    A title that begins with a suite has those of the tasks that are drawn in its place.
    """
    head, colon, rest = experiment.title.partition(": ")
    if colon and head in _SUITES.values():
        suites = dict.fromkeys(task.partition(":")[0] for task in tasks)
        head = ", ".join(_SUITES.get(suite, "environments of ours") for suite in suites) or head
    name = "" if experiment.name == "runs" else f", {experiment.name}"
    return f"{paper.title}{name}, scale {scale}. {head[:1].upper()}{head[1:]}{colon}{rest}"


def caption(
    paper: Paper, experiment: Experiment, runs: Sequence[KeptRun], settings: Sequence[str]
) -> str:
    """Returns the text below a figure, of which these runs and curves are drawn."""
    curves = {(run.setting, run.environment) for run in runs}
    shown = selection.shown_tasks(experiment, curves)
    runs = [run for run in runs if run.environment in shown]
    seeds = collections.Counter((run.setting, run.environment) for run in runs).values()
    spread = {"shaded" if experiment.x else "bars": "interquartile range"}
    if experiment.band is not Band.UNSTATED:
        spread["the paper's"] = str(experiment.band)
    has_names = experiment.over_tasks is not OverTasks.APART and len(shown) <= LISTED
    others = [paper.label(name) for name in experiment.settings if name not in settings]
    tasks = [task_title(name) for name in experiment.environments if name not in shown]
    return joined(
        {
            **contents(experiment),
            "tasks": ", ".join(map(task_title, shown)) if has_names else "",
            "seeds": _range(f"{min(seeds)}", f"{max(seeds)}"),
            "the paper's seeds": str(experiment.seeds or ""),
            **(spread if max(seeds) >= FEWEST_SEEDS else {}),
            "runs": _length(experiment, runs),
            "the paper's runs": _budget(experiment),
            "curves not run": _few(others, len(experiment.settings)),
            "tasks not run": _few(tasks, len(experiment.environments)),
            "note": experiment.note,
        }
    )


def contents(experiment: Experiment) -> dict[str, str]:
    """Returns whose episodes are shown, and how tasks and values are combined, part by part."""
    parts = experiment.divided()
    found = [
        {
            "returns of": str(part.returns) if part.is_of_returns else "",
            "over tasks": "" if part.over_tasks is OverTasks.APART else str(part.over_tasks),
            "final": "" if part.x else selection.final_of(part.y)[1],
        }
        for part in parts
    ]
    names = [part.name for part in experiment.parts] or [""]
    return {key: _by_part(names, [each[key] for each in found]) for key in found[0]}


def joined(items: Mapping[str, str]) -> str:
    """Returns what there is: "returns of: evaluations; seeds: 3"."""
    return "; ".join(f"{name}: {text}" for name, text in items.items() if text)


def task_title(environment: str) -> str:
    """Returns a task in words: "cartpole swingup sparse", "Humanoid", "ms pacman".

    Of an environment's own module and function only what tells it apart: "match 21".
    """
    suite, _, name = environment.partition(":")
    words = (name or suite).replace(":", " ").replace("_", " ").removesuffix("-v4").split()
    if suite == "python":
        words = [word.rpartition(".")[2] for word in words if word != "make"]
    return " ".join(words)


def _by_part(names: Iterable[str], texts: Sequence[str]) -> str:
    """Returns the text of all parts, or that of each if they differ."""
    if len(set(texts)) == 1:
        return texts[0]
    return ", ".join(f"{name} {text}" for name, text in zip(names, texts) if text)


def _few(names: Sequence[str], of: int) -> str:
    """Returns names, or of many the number: "7/9"."""
    return ", ".join(names) if len(names) <= LISTED // 2 else f"{len(names)}/{of}"


def _budget(experiment: Experiment) -> str:
    """Returns the paper's limits of a run; those that it does not state are in brackets."""
    if experiment.budget == Budget():
        return ""
    return str(experiment.budget) if experiment.states_budget else f"({experiment.budget})"


def _length(experiment: Experiment, runs: Sequence[KeptRun]) -> str:
    """Returns the runs' length in the paper's quantity: "5 to 15 minutes", "9,000 actor steps"."""
    clock = selection.clock(experiment)
    if clock != "wall_seconds":
        column = "learner_steps" if clock == "learner_steps" else "actor_steps"
        steps = [run.reached(column) for run in runs]
        return f"{_range(f'{min(steps):,.0f}', f'{max(steps):,.0f}')} {column.replace('_', ' ')}"
    minutes = [run.reached("wall_seconds") / 60 for run in runs]
    longest = duration(round(max(minutes)) if max(minutes) >= 2 else max(minutes))
    shortest = duration(round(min(minutes))) if round(max(minutes)) >= 60 else f"{min(minutes):.0f}"
    return longest if round(min(minutes)) == round(max(minutes)) else f"{shortest} to {longest}"


def _range(low: str, high: str) -> str:
    return high if low == high else f"{low} to {high}"
