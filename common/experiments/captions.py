"""The text below a figure, and beside a table: whose returns, of how many seeds, how long."""

import collections
from collections.abc import Sequence

from common.experiments import selection
from common.experiments.paper import Band, Experiment, OverTasks, Paper
from common.experiments.runs import KeptRun
from common.reporting.budget import Budget, duration

FEWEST_SEEDS = 3
"""The least number of seeds with a shade."""
LISTED = 6
"""The most tasks that a sentence names."""
_SUITES = {"atari": "Atari", "control": "Control Suite", "gym": "Gym", "minatar": "MinAtar"}


def title(paper: Paper, experiment: Experiment, scale: str, tasks: Sequence[str]) -> str:
    """Returns the title of a figure: paper, figure, what is drawn, and the scale.

    A title that begins with a suite has those of the tasks that are drawn in its place.
    """
    head, colon, rest = experiment.title.partition(": ")
    if colon and head in _SUITES.values():
        suites = dict.fromkeys(task.partition(":")[0] for task in tasks)
        head = ", ".join(_SUITES.get(suite, "environments of ours") for suite in suites) or head
    name = "" if experiment.name == "runs" else f", {experiment.name}"
    return f"{paper.title}{name}, scale {scale}. {capital(head)}{colon}{rest}"


def caption(
    paper: Paper, experiment: Experiment, runs: Sequence[KeptRun], settings: Sequence[str]
) -> str:
    """Returns sentences for below a figure, of which these runs and curves are drawn."""
    curves = {(run.setting, run.environment) for run in runs}
    shown = selection.shown_tasks(experiment, curves)
    runs = [run for run in runs if run.environment in shown]
    sentences = [
        _parts(experiment),
        _combined_tasks(experiment, shown),
        _seeds(experiment, runs),
        _limits(experiment, runs),
        _missing(paper, experiment, settings, shown),
        f"{capital(experiment.note)}." if experiment.note else "",
    ]
    return " ".join(filter(None, sentences))


def what(experiment: Experiment) -> str:
    """Returns sentences that say whose episodes are shown, and how tasks are combined."""
    words = []
    if experiment.is_of_returns:
        words.append(f"Returns of {experiment.returns}.")
    if experiment.over_tasks is not OverTasks.APART:
        words.append(f"{str(experiment.over_tasks).capitalize()}.")
    if not experiment.x:
        words.append(f"Final: {selection.final_of(experiment.y)[1]}.")
    return " ".join(words)


def task_title(environment: str) -> str:
    """Returns a task in words: "cartpole swingup sparse", "Humanoid", "ms pacman".

    Of an environment's own module and function only what tells it apart: "match 21".
    """
    suite, _, name = environment.partition(":")
    words = (name or suite).replace(":", " ").replace("_", " ").removesuffix("-v4").split()
    if suite == "python":
        words = [word.rpartition(".")[2] for word in words if word != "make"]
    return " ".join(words)


def capital(text: str) -> str:
    """Returns the text with its first letter in upper case."""
    return text[:1].upper() + text[1:]


def small(text: str) -> str:
    """Returns the text with its first letter in lower case."""
    return text[:1].lower() + text[1:]


def _parts(experiment: Experiment) -> str:
    """Returns `what` is shown, of each part if they differ in it."""
    found = [what(part) for part in experiment.divided()]
    if len(set(found)) == 1:
        return found[0]
    return " ".join(
        f"{capital(part.name)}: {small(words)}" for part, words in zip(experiment.parts, found)
    )


def _combined_tasks(experiment: Experiment, shown: Sequence[str]) -> str:
    """Returns the names of the tasks that are combined, where they are few."""
    if experiment.over_tasks is OverTasks.APART or not 0 < len(shown) <= LISTED:
        return ""
    return f"Tasks: {', '.join(map(task_title, shown))}."


def _seeds(experiment: Experiment, runs: Sequence[KeptRun]) -> str:
    counts = collections.Counter((run.setting, run.environment) for run in runs).values()
    papers = f" (the paper: {experiment.seeds})" if experiment.seeds else ""
    number = _range(str(min(counts)), str(max(counts)))
    if number == "1":
        return f"One seed each{papers}."
    words = f"{number} seeds each{papers}"
    if max(counts) >= FEWEST_SEEDS:
        drawn = "shaded" if experiment.x else "error bars"
        of_paper = "" if experiment.band is Band.UNSTATED else f" (the paper: {experiment.band})"
        words += f"; {drawn}: interquartile range of {FEWEST_SEEDS} seeds or more{of_paper}"
    return f"Mean over {words}{'' if experiment.x else '; dots: seeds'}."


def _limits(experiment: Experiment, runs: Sequence[KeptRun]) -> str:
    words = f"Runs of {_length(experiment, runs)}"
    if experiment.budget != Budget():
        stated = "" if experiment.states_budget else "not said, at its scale "
        words += f" (the paper: {stated}{experiment.budget})"
    return f"{words}."


def _missing(
    paper: Paper, experiment: Experiment, settings: Sequence[str], shown: Sequence[str]
) -> str:
    labels = [paper.label(name) for name in experiment.settings if name not in settings]
    tasks = [task_title(name) for name in experiment.environments if name not in shown]
    words = [
        "; ".join(names) if len(names) <= LISTED // 2 else f"{len(names)} of the {what_they_are}"
        for names, what_they_are in ((labels, "curves"), (tasks, "tasks"))
        if names
    ]
    return f"Not run: {'; '.join(words)}." if words else ""


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
