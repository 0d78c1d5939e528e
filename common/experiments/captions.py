"""The text below a figure, and beside a table: what it shows, of how many seeds, at which scale."""

import collections
from collections.abc import Iterable, Sequence

from common.experiments import selection
from common.experiments.paper import Band, Experiment, OverTasks, Paper, UnknownError
from common.experiments.runs import KeptRun
from common.reporting.budget import Budget, duration

_SHADED = {
    Band.UNSTATED: "lowest to highest seed (the paper does not say what it shades)",
    Band.PERCENTILES_20_80: "20th to 80th percentile of the seeds, as in the paper",
    Band.PERCENTILES_20_80_OF_EPISODES: (
        "20th to 80th percentile of the seeds (the paper: of all their episodes)"
    ),
    Band.STANDARD_ERROR: "standard error over seeds, as in the paper",
}

LISTED = 6
"""The most tasks that a sentence names."""


def caption(
    paper: Paper,
    experiment: Experiment,
    scale: str,
    runs: Sequence[KeptRun],
    settings: Sequence[str],
) -> str:
    """Returns sentences for below a figure, of which these runs and curves are drawn."""
    missing = [paper.label(name) for name in experiment.settings if name not in settings]
    curves = {(run.setting, run.environment) for run in runs}
    there = {environment for _, environment in curves}
    shown = selection.shown_tasks(experiment, curves)
    tasks = [
        f"{task_title(name)} (some curves)" if name in there else task_title(name)
        for name in experiment.environments
        if name not in shown
    ]
    missing += tasks if len(tasks) <= LISTED else [f"{len(tasks)} of the tasks"]
    runs = [run for run in runs if run.environment in shown]
    sentences = [
        _parts(experiment),
        _combined_tasks(experiment, curves),
        _seeds(experiment, runs),
        _scale(paper, experiment, scale, runs),
        f"Not run: {', '.join(missing)}." if missing else "",
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


def _combined_tasks(experiment: Experiment, curves: Iterable[tuple[str, str]]) -> str:
    """Returns the names of the tasks that are combined, of each part, where they are few."""
    words = []
    names = [capital(part.name) for part in experiment.parts] or ["Tasks"]
    for name, part in zip(names, experiment.divided()):
        tasks = selection.shown_tasks(part, curves)
        if part.over_tasks is not OverTasks.APART and 0 < len(tasks) <= LISTED:
            words.append(f"{name}: {', '.join(map(task_title, tasks))}.")
    return " ".join(words)


def _seeds(experiment: Experiment, runs: Sequence[KeptRun]) -> str:
    counts = collections.Counter((run.setting, run.environment) for run in runs).values()
    papers = f" (the paper: {experiment.seeds})" if experiment.seeds else ""
    if max(counts) == 1:
        return f"One seed each{papers}."
    number = _range(str(min(counts)), str(max(counts)))
    drawn = "shaded" if experiment.x else "error bars"
    thin = "; thin: one seed" if experiment.x and min(counts) == 1 else ""
    return f"Mean over {number} seeds{papers}{thin}; {drawn}: {_SHADED[experiment.band]}."


def _scale(paper: Paper, experiment: Experiment, scale: str, runs: Sequence[KeptRun]) -> str:
    words = f"Scale {scale}: runs of {_length(experiment, runs)}"
    if experiment.budget != Budget():
        papers = (
            f"the paper: {experiment.budget}"
            if experiment.states_budget
            else f"the paper does not say; at its scale {experiment.budget}"
        )
        words += f" ({papers})"
    changes = _changes(paper, experiment, scale, runs)
    if len(changes) == 1:
        return "; ".join([words, *next(iter(changes.values()))]) + "."
    agents = [f"{title}: {'; '.join(texts)}." for title, texts in changes.items() if texts]
    return " ".join([f"{words}.", *agents])


def _changes(
    paper: Paper, experiment: Experiment, scale: str, runs: Sequence[KeptRun]
) -> dict[str, list[str]]:
    """Returns the scale's changes by agent, except those that a run by hand overrode."""
    try:
        listed = paper.scale(scale)
    except UnknownError:  # made by hand: their records have a phrase for their size
        sizes = dict.fromkeys(run.size for run in runs if run.size not in ("", scale))
        return {paper.title: list(sizes)}
    drawn = collections.defaultdict(list)
    for run in runs:
        drawn[run.setting, run.environment].append(run)
    curves: collections.Counter[str] = collections.Counter()
    made: dict[str, dict[str, list[bool]]] = {}
    for planned in experiment.runs:
        kept = drawn[planned.setting, planned.environment]
        if not kept:
            continue
        of_agent = made.setdefault(planned.agent.title, {})
        curves[planned.agent.title] += 1
        for change in listed.changes_of(planned.agent, planned.choices):
            by_all = all(change.matches(run.value_of(change.name)) for run in kept)
            of_agent.setdefault(change.text, []).append(by_all)
    return {
        title: [
            text if len(by_all) == curves[title] else f"{text} (some curves)"
            for text, by_all in texts.items()
            if all(by_all)
        ]
        for title, texts in made.items()
    }


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
