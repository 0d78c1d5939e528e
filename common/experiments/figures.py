"""The papers' figures, drawn from the kept runs."""

from collections.abc import Mapping, Sequence
import dataclasses
import pathlib

import numpy as np
import pandas

from common.environments import frames_per_step
from common.experiments import scales, selection
from common.experiments.atari_scores import reported_scores
from common.experiments.captions import FEWEST_SEEDS, caption, task_title, title
from common.experiments.paper import EPISODE_RETURN, Experiment, OverTasks, Paper, Returns, Run
from common.experiments.runs import KeptRun
from common.figures import bars, palette, panels, proportion
from common.reporting.reported import Reported, game_of
from common.reporting.user_error import UserError

ALL_RUNS = "runs"
"""The name of the figure of everything that was run at a scale."""

Lines = Mapping[tuple[str, str], Sequence[Sequence[pandas.Series]]]
"""{(panel, setting): for each task of the panel, each seed's values by their positions}."""

Looks = Mapping[str, tuple[str, palette.Style]]
"""{setting: (label, style)}, in the order of the legend."""

References = tuple[tuple[float, str], ...]
"""Reported numbers with their labels, drawn as lines."""

_GRID_POINTS = 200
_MOST_CURVES = 4
_PAPERS_AXIS_FROM = 0.2
"""The paper's horizontal axis is drawn whole if our runs cover this part of it."""
_CONTROL_SUITE_LIMITS = (0.0, 1000.0)
"""Rewards are in [0, 1], episodes have 1000 steps."""
_Y_LABELS = {
    EPISODE_RETURN: "episode return",
    "actor_steps_per_second": "actor steps/s",
    "kl_divergence": "KL divergence",
    "wall_seconds": "training time (s)",
}
_LOGARITHMIC = ("kl_divergence",)


class NothingToDraw(UserError):
    """A figure whose runs have no values yet."""


def file_name(paper: str, figure: str, scale: str) -> str:
    """Returns "PAPER_figure_2" at the paper's scale, "PAPER_figure_2_smoke" at another."""
    name = paper if figure == ALL_RUNS else f"{paper}_{figure.replace(' ', '_')}"
    return name if scale == scales.PAPER.name else f"{name}_{scale}"


def all_runs(paper: Paper, scale: str, runs: Sequence[KeptRun]) -> Experiment:
    """Returns a figure of everything that was run at a scale: a panel a task.

    The horizontal axis is that of the runs' limits if they are all of one kind, otherwise time.
    Runs that were made only for a figure of another quantity, such as a speed, are left out.
    """
    models = {run.setting: run for one in paper.experiments for run in one.every_run}
    listed = {
        (run.setting, run.environment): run
        for one in paper.experiments
        for run in one.at(scale).runs
    }
    for_returns, for_others = set(), set()
    for one in paper.experiments:
        (for_returns if one.is_of_returns else for_others).update(one.at(scale).settings)
    shown = [run for run in runs if run.setting not in for_others - for_returns]
    clocks = {selection.clock(Experiment(ALL_RUNS, ""), run.budget) for run in shown}

    def planned(run: KeptRun) -> Run:
        if (curve := (run.setting, run.environment)) in listed:
            return listed[curve]
        model = models.get(run.setting, Run(paper.agents[0], run.setting, "", ()))
        return dataclasses.replace(model, environment=run.environment)

    return Experiment(
        ALL_RUNS,
        "everything that was run",
        tuple(map(planned, shown)),
        x=clocks.pop() if len(clocks) == 1 else "wall_seconds",
    )


def drawn(paper: Paper, scale: str, runs: Sequence[KeptRun]) -> list[Experiment]:
    """Returns the figures to draw at a scale. Every run appears in at least one of them.

    These are the figures that compare settings, then the sections that compare settings and have
    runs that no figure has. A figure of all runs stands before them if any run is still missing. A
    figure without a comparison is drawn only if the figure of all runs lacks its runs, as it does
    those of a speed.
    """
    everything = all_runs(paper, scale, runs)
    in_everything = {(run.setting, run.environment) for run in everything.runs}
    is_listed = scale in [one.name for one in paper.scales]
    chosen: list[Experiment] = []
    shown: set[tuple[str, str]] = set()
    for kind in ("figure", "section") if is_listed else ():
        having = [
            (one, _curves(one, runs)) for one in (each.at(scale) for each in paper.of_kind(kind))
        ]
        worth = [
            (one, curves)
            for one, curves in having
            if curves - shown and (_compares(one, curves) or curves - in_everything)
        ]
        chosen += [one for one, _ in worth]
        shown.update(*(curves for _, curves in worth))
    alike = [part for one in chosen for part in one.divided() if _is_like_all_runs(part)]
    remaining = in_everything.difference(*(_curves(part, runs) for part in alike))
    return [everything] * bool(remaining) + chosen


def _is_like_all_runs(part: Experiment) -> bool:
    """Returns whether it shows learning curves of evaluations, each task in its panel."""
    is_apart, is_evaluated = part.over_tasks is OverTasks.APART, part.returns is Returns.EVALUATOR
    return bool(part.x) and part.is_of_returns and is_evaluated and is_apart


def _curves(experiment: Experiment, runs: Sequence[KeptRun]) -> set[tuple[str, str]]:
    """Returns the (setting, environment) of each curve that the experiment shows of these runs."""
    curves = {(run.setting, run.environment) for run in selection.runs_of(experiment, runs)}
    tasks = selection.shown_tasks(experiment, curves)
    return {(setting, task) for setting, task in curves if task in tasks}


def _compares(experiment: Experiment, curves: set[tuple[str, str]]) -> bool:
    """Returns whether a task has two settings, or the figure is of the curves of a single one."""
    is_alone = len(experiment.settings) == 1 and bool(experiment.x)
    return is_alone or len(curves) > len({task for _, task in curves})


def draw(
    paper: Paper,
    experiment: Experiment,
    scale: str,
    runs: Sequence[KeptRun],
    directory: pathlib.Path,
    whole_axis: bool = False,
) -> list[pathlib.Path]:
    """Draws a figure from those runs of a scale that it lists, and returns the files.

    With `whole_axis` the paper's horizontal axis is drawn even if our runs cover little of it.

    Raises:
      NothingToDraw: none of the runs has anything to draw.
    """
    experiment, reported = experiment.at(scale), Reported()
    parts = [(part, _lines(part, runs, reported)) for part in experiment.divided()]
    having = {key[1] for _, lines in parts for key in lines}
    shown = {key[0] for _, lines in parts for key in lines}
    if not having:
        raise NothingToDraw(
            f"no run of {experiment.name} at the scale {scale} has anything to draw"
        )
    settings = [name for name in experiment.settings if name in having]
    listed = selection.runs_of(experiment, runs)
    drawn_tasks = dict.fromkeys(run.environment for run in listed)
    head = title(paper, experiment, scale, list(drawn_tasks))
    words = caption(paper, experiment, listed, settings)
    path = directory / file_name(paper.name, experiment.name, scale)
    if not experiment.x:
        groups, names = {}, [f"{part.name}, " for part in experiment.parts] or [""]
        for (part, lines), name in zip(parts, names):
            looks = _looks(paper, part, settings)
            groups |= {
                f"{name}{task_title(panel)}": _bars(lines, panel, looks, part)
                for panel in dict.fromkeys(key[0] for key in lines)
            }
        if experiment.sizes:
            (values,) = groups.values()
            sizes = [experiment.sizes[name] for name in settings]
            label = experiment.size_name
            return proportion.draw(sizes, values, label, _y_label(experiment), head, words, path)
        references = _references(paper, experiment, reported)
        return bars.draw(groups, _y_label(experiment), references, head, words, path)
    drawn_parts = []
    for part, lines in parts:
        alike = (more for one, more in parts if dataclasses.replace(one, runs=part.runs) == part)
        if any(lines.keys() < more.keys() for more in alike):
            continue  # its other curves have not been run
        looks = _looks(paper, part, settings)
        references = _references(paper, part, reported)
        names = tuple(dict.fromkeys(key[0] for key in lines)) or ("",)
        if part.over_tasks is OverTasks.APART:
            names = tuple(name for name in part.environments if name in shown)
        # A part of several is a row: its further curves get a row of their own.
        for row in _divided(looks) if experiment.parts else [looks]:
            grid = tuple(
                one
                for name in names
                for one in _panels(paper, lines, name, row, part, references, reported)
            )
            drawn_parts.append(panels.PanelGroup(grid, _axes(part, lines, whole_axis)))
    return panels.draw(drawn_parts, head, words, path)


def _divided(looks: Looks) -> list[Looks]:
    """Returns the curves by fours: more in a panel cannot be told apart."""
    names = list(looks)
    number = max(1, -(-len(names) // _MOST_CURVES))
    ends = [round(index * len(names) / number) for index in range(number + 1)]
    return [{name: looks[name] for name in names[start:end]} for start, end in zip(ends, ends[1:])]


def _looks(paper: Paper, part: Experiment, settings: Sequence[str]) -> Looks:
    """Returns the looks of those of `settings` that the part has."""
    styles = palette.styles(part.settings, paper.looks)
    return {name: (paper.label(name), styles[name]) for name in part.settings if name in settings}


def _lines(experiment: Experiment, runs: Sequence[KeptRun], reported: Reported) -> Lines:
    x = selection.clock(experiment)
    is_normalised = experiment.over_tasks is OverTasks.MEDIAN_NORMALISED
    human = reported.atari_scores() if is_normalised else None
    curves: dict[tuple[str, str], list[pandas.Series]] = {}
    for run in selection.runs_of(experiment, runs):
        points = run.points(x, experiment.y, experiment.returns).set_index(x)[experiment.y]
        if is_normalised and len(points):
            points = 100 * selection.human_normalised(run.environment, points, human)
        if len(points):
            curves.setdefault((run.setting, run.environment), []).append(points)
    if experiment.over_tasks is OverTasks.APART:
        return {(task, setting): [seeds] for (setting, task), seeds in curves.items()}
    tasks = selection.shown_tasks(experiment, curves)
    panel = f"{len(tasks)} of {len(experiment.environments)} tasks"
    settings = dict.fromkeys(setting for setting, _ in curves) if tasks else ()
    return {(panel, name): [curves[name, task] for task in tasks] for name in settings}


def _end(lines: Lines, panel: str | None = None) -> float | None:
    """Returns where the longest run ends, of one panel or of all; None without runs."""
    shown = (tasks for (name, _), tasks in lines.items() if panel in (None, name))
    ends = [line.index[-1] for tasks in shown for seeds in tasks for line in seeds]
    return max(ends, default=None)


def _on_grid(lines: Sequence[pandas.Series]) -> tuple[np.ndarray, np.ndarray]:
    """Returns positions [P] that all lines have, and their values [len(lines), P] there."""
    if len(lines) == 1:
        return lines[0].index.to_numpy(), lines[0].to_numpy()[np.newaxis]
    start, end = max(line.index[0] for line in lines), min(line.index[-1] for line in lines)
    grid = np.linspace(min(start, end), end, _GRID_POINTS)
    return grid, np.array([np.interp(grid, line.index, line.to_numpy()) for line in lines])


def _over_seeds(
    tasks: Sequence[np.ndarray], part: Experiment
) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
    """Returns means over seeds and the interquartile range, combined over tasks.

    Args:
      tasks: of each task [seeds, P]; tasks may have different numbers of seeds.
      part: says how tasks are combined.

    Returns:
      middle, low and high, [P] each; low and high are None if a task has fewer than three seeds.
    """
    is_median = part.over_tasks is OverTasks.MEDIAN_NORMALISED
    combine = np.median if is_median else np.mean
    middle = combine([seeds.mean(axis=0) for seeds in tasks], axis=0)
    if min(map(len, tasks)) < FEWEST_SEEDS:
        return middle, None, None
    low, high = combine([np.percentile(seeds, (25, 75), axis=0) for seeds in tasks], axis=0)
    return middle, low, high


def _panels(
    paper: Paper,
    lines: Lines,
    name: str,
    looks: Looks,
    part: Experiment,
    references: References,
    reported: Reported,
) -> list[panels.Panel]:
    """Returns the panel of a task, or several if it has more curves than can be told apart."""
    looks = {setting: looks[setting] for setting in looks if (name, setting) in lines}
    divided = _divided(looks)
    if len(divided) > 1:
        found = [
            panel
            for some in divided
            for panel in _panels(paper, lines, name, some, part, references, reported)
        ]
        return [
            dataclasses.replace(panel, title=f"{panel.title}, {number} of {len(found)}")
            for number, panel in enumerate(found, 1)
        ]
    references = (*references, *part.levels.get(name, ()))
    curves = []
    for setting, (label, style) in looks.items():
        tasks = lines[name, setting]
        grid, values = _on_grid([line for seeds in tasks for line in seeds])
        by_task = np.split(values, np.cumsum([len(seeds) for seeds in tasks])[:-1])
        curves.append(panels.Curve(label, style, grid, *_over_seeds(by_task, part)))
    limits = None
    if part.is_of_returns and name.startswith("control:"):
        limits = _CONTROL_SUITE_LIMITS
    elif part.is_of_returns and name.startswith("atari:"):
        there = [setting for panel, setting in lines if panel == name]
        references = (*references, *_atari_references(paper, name, there, reported))
    lines_drawn = references if curves else ()
    words = task_title(name)
    return [panels.Panel(words, tuple(curves), _end(lines, name), lines_drawn, limits, words)]


def _atari_references(
    paper: Paper, environment: str, settings: Sequence[str], reported: Reported
) -> References:
    """Returns the scores of a human, of random play, and the paper's own ones of these settings."""
    game = environment.removeprefix("atari:")
    scores = game_of(reported.atari_scores(), game)
    agents = reported_scores(paper, game, settings, reported)
    return (
        (scores["human"], "a human"),
        (scores["random"], "random play"),
        *((score, f"{agent}, reported") for agent, score in agents.items()),
    )


def _bars(lines: Lines, name: str, looks: Looks, part: Experiment) -> list[bars.Bar]:
    drawn, (take, _) = [], selection.final_of(part.y)
    for setting, (label, style) in looks.items():
        if (name, setting) in lines:
            finals = [np.array([[take(line)] for line in seeds]) for seeds in lines[name, setting]]
            value, *ends = _over_seeds(finals, part)
            low, high = (None if one is None else float(one[0]) for one in ends)
            seeds = tuple(finals[0].ravel()) if len(finals) == 1 else ()
            drawn.append(bars.Bar(label, style, float(value[0]), low, high, seeds))
    return drawn


def _references(paper: Paper, experiment: Experiment, reported: Reported) -> References:
    """Returns the reported numbers as (value, label), the largest first."""
    values = (
        (reported.number(paper.name, one.source, one.row, one.column), one.label)
        for one in experiment.references
    )
    return tuple(
        (value, f"{label}, reported: {value:g}") for value, label in sorted(values, reverse=True)
    )


def _axes(experiment: Experiment, lines: Lines, whole_axis: bool) -> panels.Axes:
    ours = _end(lines)
    papers = papers_limit(experiment)
    limit = None if experiment.name == ALL_RUNS else ours
    if papers is not None and (whole_axis or (ours or 0) >= _PAPERS_AXIS_FROM * papers):
        limit = max(papers, ours or 0)
    return panels.Axes(experiment.x, limit, _y_label(experiment), experiment.y in _LOGARITHMIC)


def papers_limit(experiment: Experiment) -> float | None:
    """Returns where the paper's runs end on the horizontal axis; None if that is not known."""
    budget = experiment.budget
    if experiment.x == "wall_seconds":
        return None if budget.minutes is None else 60 * budget.minutes
    if experiment.x == "learner_steps":
        return budget.learner_steps
    if budget.actor_steps is None or experiment.x == "actor_steps":
        return budget.actor_steps
    return budget.actor_steps * max(map(frames_per_step, experiment.environments))


def _y_label(experiment: Experiment) -> str:
    if experiment.is_of_returns and experiment.over_tasks is OverTasks.MEDIAN_NORMALISED:
        return "median human-normalised score (%)"
    return _Y_LABELS.get(experiment.y, experiment.y.replace("_", " "))
