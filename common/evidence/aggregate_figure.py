"""A paper's figure of aggregates, for the experiment with the most runs of several methods."""

from collections.abc import Iterator, Sequence
import itertools
import pathlib
from typing import NamedTuple

import numpy as np

from common.evidence import aggregates, drawing, effects, figures
from common.evidence.claims import Evidence, planned_budget
from common.evidence.paper import Paper
from common.evidence.selection import range_text, task_title

AGGREGATES = "aggregates"
"""The end of the figure's file names."""
_POINTS = 201
_FEWEST = 2
"""Minimum number of runs of a method on a task, needed for an interval."""
_ROW_HEIGHT = 0.2


class _Grid(NamedTuple):
    """The scores of methods that all have runs on the same tasks.

    Attributes:
      where: the experiment and the scale, in words.
      tasks: the tasks.
      methods: the scores of each setting.
      num_runs: number of runs, over all methods and tasks.
    """

    where: str
    tasks: list[str]
    methods: dict[str, aggregates.Scores]
    num_runs: int


def draw(
    paper: Paper, evidence: Evidence, directory: pathlib.Path, suffixes: Sequence[str]
) -> tuple[pathlib.Path, ...]:
    """Draws the aggregates of a paper's methods, and returns the files; none with too few runs.

    Args:
      paper: the paper of the figure.
      evidence: provides the runs.
      directory: the directory for the files.
      suffixes: suffixes of the files, ".png" and ".pdf".
    """
    grid = max(_grids(paper, evidence), key=lambda found: found.num_runs, default=None)
    if grid is None:
        return ()
    means = {
        name: aggregates.estimate(aggregates.interquartile_mean, scores)
        for name, scores in grid.methods.items()
    }
    highest = max(task.max() for scores in grid.methods.values() for task in scores)
    above = np.linspace(0, max(1.0, highest), _POINTS)
    best = max(means, key=lambda name: float(means[name].value))
    height = max(1.8, _ROW_HEIGHT * len(means) + 0.4)
    page = drawing.Page([(1, 3, False)], wide=True, panel_height=height)
    ((left, middle, right),) = page.blocks
    for row, (name, style) in enumerate(figures.styles(list(means), paper.looks).items()):
        look = {"color": style.color, "linestyle": style.line, "linewidth": 1.3}
        _interval(left, -row, means[name], look)
        profile = aggregates.estimate(
            lambda scores: aggregates.performance_profile(scores, above), grid.methods[name]
        )
        middle.plot(100 * above, 100 * profile.value, **look)
        band = {"color": style.color, "alpha": 0.1, "linewidth": 0}
        middle.fill_between(100 * above, 100 * profile.low, 100 * profile.high, **band)
        if name != best:
            pair = grid.methods[best], grid.methods[name]
            chance = aggregates.estimate(aggregates.probability_of_improvement, *pair)
            _interval(right, -row, chance, look)
    rows = [-row for row in range(len(means))]
    left.set_yticks(rows, [paper.label(name) for name in means])
    right.set_yticks(rows, [""] * len(rows))
    right.set_ylim(left.get_ylim())
    right.axvline(50, color="0.35", linewidth=0.9)
    titles = ("interquartile mean", "runs above a score (%)", "probability of improvement (%)")
    for place, words, axis in zip(page.blocks[0], titles, ("score", "score", "probability")):
        place.set_title(words, fontsize=drawing.SMALL)
        place.set_xlabel(axis, fontsize=drawing.NORMAL)
    runs = sorted({len(task) for scores in grid.methods.values() for task in scores})
    caption = (
        "Left: the mean of the middle half of all runs. Middle: performance profiles. Right: the "
        f"probability that a run of {paper.label(best)}, which has the highest interquartile mean, "
        "is better than a run of each other method. Intervals of 95% are from stratified "
        "bootstraps. Scores: the mean over the last third of a run, in percent of the task's "
        f"scale. Tasks: {', '.join(map(task_title, grid.tasks))}. Runs of a method on a task: "
        f"{range_text(f'{runs[0]}', f'{runs[-1]}')}."
    )
    names = (directory / f"{paper.name}_{AGGREGATES}{suffix}" for suffix in suffixes)
    return page.save(f"{paper.title}, {grid.where}: aggregates over tasks", caption, *names)


def _interval(place, row: int, found: aggregates.Estimate, look: dict) -> None:
    """Draws an estimate with its interval, in percent, as a row."""
    value, *ends = (100 * float(number) for number in found)
    place.plot(ends, [row, row], **look)
    place.plot(value, row, "o", color=look["color"], markersize=4)


def _grids(paper: Paper, evidence: Evidence) -> Iterator[_Grid]:
    """Yields methods and tasks with enough runs per experiment, scale and kind of evaluation."""
    listed = {scale.name for scale in paper.scales}.intersection(evidence.scales(paper))
    of_returns = (experiment for experiment in paper.experiments if experiment.is_of_returns)
    for scale, experiment in itertools.product(sorted(listed), list(of_returns)):
        there, frame = experiment.at(scale), evidence.frame(paper, scale)
        is_equal = frame["budget"] == str(planned_budget(paper, experiment, scale))
        found = frame[is_equal & frame["setting"].isin(there.settings)]
        for _, runs in found.groupby("by_rule"):
            counts = runs.groupby(["setting", "task"])["seed"].nunique().unstack(fill_value=0)
            counts = counts.reindex(there.settings, fill_value=0)
            lacking = evidence.reported.without_scale(there.environments)
            counts = counts.reindex(columns=there.environments, fill_value=0).drop(columns=lacking)
            has_enough = counts >= _FEWEST
            methods = has_enough.sum()
            tasks = list(methods.index[methods == methods.max()])
            chosen = list(has_enough.index[has_enough[tasks].all(axis=1)])
            if tasks and len(chosen) > 1:
                runs = runs[runs["task"].isin(tasks)]
                runs = effects.by_run(effects.normalised(runs, evidence.reported.scales(tasks)))
                scores = {name: aggregates.scores_of(runs, [name], tasks) for name in chosen}
                num_runs = int(counts.loc[chosen, tasks].to_numpy().sum())
                yield _Grid(f"{experiment.name}, scale {scale}", tasks, scores, num_runs)
