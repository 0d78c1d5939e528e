"""The papers' figures, drawn from the kept runs, and the effects of a paper's claims."""

import collections
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
import dataclasses
import pathlib
import textwrap

import numpy as np
import pandas
from scipy import stats

from common.environments import frames_per_step
from common.evidence import drawing, panels, selection
from common.evidence.atari_scores import reported_scores
from common.evidence.claims import Claim, Finding
from common.evidence.effects import CONFIDENCE, MARGIN
from common.evidence.paper import (
    EPISODE_RETURN,
    Band,
    Experiment,
    Look,
    OverTasks,
    Paper,
    Returns,
    Run,
    Style,
)
from common.evidence.reported import Reported, human_normalised
from common.evidence.runs import KeptRun
from common.evidence.selection import ALL_RUNS, FEWEST_SEEDS, caption, file_name, task_title, title
from common.reporting.curves import COLORS
from common.user_error import UserError

EFFECTS = "effects"
"""The end of the file names of figures with the effects of a paper's claims."""
PNG = (".png",)
"""The default suffixes of a figure's files."""

Lines = Mapping[tuple[str, str], Sequence[Sequence[pandas.Series]]]
"""{(panel, setting): for each task of the panel, a series of values by position for each seed}."""

Looks = Mapping[str, tuple[str, Style]]
"""{setting: (label, style)}, in the order of the legend."""

References = tuple[tuple[float, str], ...]
"""Reported numbers with their labels, drawn as lines."""

_GRID_POINTS = 200
_PAPERS_AXIS_FROM = 0.2
"""The fraction of the paper's horizontal axis that our runs must cover to have all of it drawn."""
_CONTROL_SUITE_LIMITS = (0.0, 1000.0)
"""The vertical axis: rewards are in [0, 1], and episodes have 1000 steps."""
_Y_LABELS = {
    EPISODE_RETURN: "episode return",
    "actor_steps_per_second": "actor steps/s",
    "kl_divergence": "KL divergence",
    "wall_seconds": "training time (s)",
}
_LOGARITHMIC = ("kl_divergence",)
_EFFECT_WORDS = 52
"""Maximum characters per line of a claim's sentence in the figure of effects."""
_LINES = ("-", "--", ":", "-.")


class NothingToDraw(UserError):
    """A figure whose runs have no values yet."""


def all_runs(paper: Paper, scale: str, runs: Sequence[KeptRun]) -> Experiment:
    """Returns a figure of everything that was run at a scale, with a panel for each task.

    The horizontal axis is the quantity that limits the runs if it is the same for all, else time.
    Runs that only a figure of another quantity needs, such as a speed, are left out.
    """
    models = {run.setting: run for each in paper.experiments for run in each.every_run}
    listed, for_returns, for_others = {}, set(), set()
    for experiment in (each.at(scale) for each in paper.experiments):
        listed |= {run.curve: run for run in experiment.runs}
        (for_returns if experiment.is_of_returns else for_others).update(experiment.settings)
    shown = [run for run in runs if run.setting not in for_others - for_returns]
    clocks = {run.budget.clock for run in shown}

    def planned(run: KeptRun) -> Run:
        model = models.get(run.setting, Run(paper.agents[0], run.setting, "", ()))
        return listed.get(run.curve, dataclasses.replace(model, environment=run.environment))

    return Experiment(
        ALL_RUNS,
        "everything that was run",
        tuple(map(planned, shown)),
        x=clocks.pop() if len(clocks) == 1 else "wall_seconds",
    )


def drawn(paper: Paper, scale: str, runs: Sequence[KeptRun]) -> list[Experiment]:
    """Returns the figures to draw at a scale. Every run appears in at least one of them.

    First come the figures that compare settings, then the sections that do so with runs that no
    figure has. A figure or section without a comparison is drawn only if the figure of all runs
    leaves out its runs, such as those for a speed. The figure of all runs precedes the others if
    they lack the learning curve of any of its runs.
    """
    everything = all_runs(paper, scale, runs)
    in_everything = {run.curve for run in everything.runs}
    is_listed = scale in [each.name for each in paper.scales]
    chosen: list[Experiment] = []
    shown: set[tuple[str, str]] = set()
    for kind in ("figure", "section") if is_listed else ():
        before = set(shown)
        for figure in (each.at(scale) for each in paper.of_kind(kind)):
            curves = _curves(figure, runs)
            if curves - before and (_compares(figure, curves) or curves - in_everything):
                chosen.append(figure)
                shown |= curves
    alike = [part for figure in chosen for part in figure.divided() if _is_like_all_runs(part)]
    remaining = in_everything.difference(*(_curves(part, runs) for part in alike))
    return [everything] * bool(remaining) + chosen


def _is_like_all_runs(part: Experiment) -> bool:
    """Returns whether a part shows learning curves of evaluations, with a panel for each task."""
    is_evaluated = part.is_of_returns and part.returns is Returns.EVALUATOR
    return bool(part.x) and is_evaluated and part.over_tasks is OverTasks.APART


def _curves(experiment: Experiment, runs: Sequence[KeptRun]) -> set[tuple[str, str]]:
    """Returns the (setting, environment) of each curve that the experiment shows of these runs."""
    curves = {run.curve for run in selection.runs_of(experiment, runs)}
    tasks = selection.shown_tasks(experiment, curves)
    return {(setting, task) for setting, task in curves if task in tasks}


def _compares(experiment: Experiment, curves: set[tuple[str, str]]) -> bool:
    """Returns whether a task has several settings, or the figure has the curves of a single one."""
    is_alone = len(experiment.settings) == 1 and bool(experiment.x)
    return is_alone or len(curves) > len({task for _, task in curves})


def draw(
    paper: Paper,
    experiment: Experiment,
    scale: str,
    runs: Sequence[KeptRun],
    directory: pathlib.Path,
    suffixes: Sequence[str] = PNG,
    reported: Reported | None = None,
) -> tuple[pathlib.Path, ...]:
    """Draws a figure from the runs of a scale that it lists, and returns the files.

    Args:
      paper: the paper of the figure.
      experiment: the figure.
      scale: name of the scale of the runs.
      runs: the kept runs of the scale.
      directory: the directory for the files.
      suffixes: suffixes of the files, ".png" and ".pdf".
      reported: the numbers that papers report; None: those in this repository.

    Raises:
      NothingToDraw: none of the runs has anything to draw.
    """
    experiment, numbers = experiment.at(scale), reported or Reported()
    every = listed = selection.runs_of(experiment, runs)
    if any(each.name == scale and each.is_compact for each in paper.scales):
        listed = _of_one_rule(experiment, every)
    names = [part.name if part.settings else "" for part in experiment.parts] or [""]
    parts = [
        _Part(paper, part, _lines(part, listed, numbers), numbers, name)
        for part, name in zip(experiment.divided(), names)
    ]
    having = {setting for part in parts for _, setting in part.lines}
    if not having:
        words = f"no run of {experiment.name} at the scale {scale} has anything to draw"
        raise NothingToDraw(words)
    if experiment.x:
        page = _page_of_curves(parts, having)
    else:
        page = _page_of_finals(experiment, parts, having)
    settings = [name for name in experiment.settings if name in having]
    return page.save(
        title(paper, experiment, scale, [run.environment for run in listed]),
        caption(paper, experiment, listed, settings, [run for run in every if run not in listed]),
        *_files(directory, file_name(paper.name, experiment.name, scale), suffixes),
    )


def has_effect(finding: Finding) -> bool:
    """Returns whether the figure of effects includes a finding: it has an interval, in percent."""
    deciding = next(iter(finding.effects), None)
    return deciding is not None and deciding.effect.seeds > 1 and not deciding.is_logarithm


def draw_effects(
    paper: Paper,
    findings: Iterable[tuple[Claim, Finding]],
    directory: pathlib.Path,
    suffixes: Sequence[str] = PNG,
) -> tuple[pathlib.Path, ...]:
    """Draws the effects of a paper's claims, and returns the files; none without effects."""
    shown = [row for of in findings if has_effect(of[1]) for row in _effect_rows(*of)]
    if not shown:
        return ()
    words = (
        f"Effects that decide each claim, in the mean and on each task, with {CONFIDENCE:.0%} "
        f"intervals. Grey: within {MARGIN:.0%} of the scale. The colours ask for 99% or 98% "
        "(docs/verdicts.md)."
    )
    head = f"{paper.title}: effects of its claims"
    files = _files(directory, f"{paper.name}_{EFFECTS}", suffixes)
    return drawing.forest(shown, MARGIN).save(head, words, *files)


def _effect_rows(claim: Claim, finding: Finding) -> Iterator[drawing.ForestRow]:
    """Yields the effect that decides a claim, then the effect on each task if there are several."""
    judged = finding.effects[0]
    verdict = str(finding.verdict).upper().replace(" ", "\N{NO-BREAK SPACE}")
    label = textwrap.fill(f"{claim.says} {verdict}", _EFFECT_WORDS)
    yield drawing.ForestRow(label, judged.effect, True)
    if len(judged.by_task) > 1:
        for task, effect in judged.by_task.items():
            yield drawing.ForestRow(task_title(task), effect, False)


def _files(directory: pathlib.Path, name: str, suffixes: Sequence[str]) -> list[pathlib.Path]:
    return [directory / f"{name}{suffix}" for suffix in suffixes]


def _of_one_rule(experiment: Experiment, runs: Sequence[KeptRun]) -> tuple[KeptRun, ...]:
    """Returns for each panel only runs that were evaluated alike: by the claims' rule, or less.

    Of these two kinds, the one that more of the panel's curves have is chosen.
    """
    by_panel: dict[str, list[KeptRun]] = {}
    for run in runs:
        panel = run.environment if experiment.over_tasks is OverTasks.APART else ""
        by_panel.setdefault(panel, []).append(run)
    chosen = []
    for of_panel in by_panel.values():
        less, by_rule = (
            {run.curve for run in of_panel if run.is_by_rule is rule} for rule in (False, True)
        )
        rule = len(by_rule) >= len(less)
        chosen += [run for run in of_panel if run.is_by_rule is rule]
    return tuple(chosen)


def _points(experiment: Experiment, run: KeptRun, reported: Reported) -> pandas.Series:
    """Returns the values that a figure draws of a run, by position from 0 on; empty without any."""
    x = experiment.clock
    if experiment.is_of_ends:
        final = run.final_evaluation
        return pandas.Series({} if final is None else {final[x]: final[experiment.y]}, dtype=float)
    points = run.points(x, experiment.y, experiment.returns).set_index(x)[experiment.y]
    if experiment.x and len(points) and points.index[0] > 0:
        first = points.iloc[0]  # a value is a mean over the time before it
        if experiment.is_of_returns and experiment.returns is Returns.EVALUATOR:
            first, _ = reported.scale(run.environment) or (first, None)
        points = pandas.concat([pandas.Series({0.0: first}), points])
    return points.rolling(experiment.smoothed, min_periods=1).mean()


def _lines(experiment: Experiment, runs: Sequence[KeptRun], reported: Reported) -> Lines:
    is_normalised = experiment.over_tasks is OverTasks.MEDIAN_NORMALISED
    curves: dict[tuple[str, str], list[pandas.Series]] = {}
    for run in selection.runs_of(experiment, runs):
        points = _points(experiment, run, reported)
        if is_normalised and len(points):
            game = reported.game(run.environment.removeprefix("atari:"))
            points = 100 * human_normalised(points, game)
        if len(points):
            curves.setdefault(run.curve, []).append(points)
    if experiment.over_tasks is OverTasks.APART:
        return {(task, setting): [seeds] for (setting, task), seeds in curves.items()}
    tasks = selection.shown_tasks(experiment, curves)
    panel = f"{len(tasks)} of {len(experiment.environments)} tasks"
    settings = dict.fromkeys(setting for setting, _ in curves) if tasks else ()
    return {(panel, name): [curves[name, task] for task in tasks] for name in settings}


@dataclasses.dataclass(frozen=True)
class _Part:
    """A part of a figure, or a whole figure.

    Attributes:
      paper: the paper of the figure.
      experiment: what the part shows.
      lines: the lines of its runs.
      reported: the numbers that papers report.
      name: the part's name in the titles of its panels; "" for none.
    """

    paper: Paper
    experiment: Experiment
    lines: Lines
    reported: Reported
    name: str = ""

    def looks(self, having: Container[str]) -> Looks:
        """Returns the looks of the part's settings that are in `having`."""
        chosen = styles(self.experiment.settings, self.paper.looks)
        return {name: (self.paper.label(name), chosen[name]) for name in chosen if name in having}

    def end(self, panel: str | None = None) -> float | None:
        """Returns the end of the longest curve of a panel or of all panels; None without curves."""
        shown = (tasks for (name, _), tasks in self.lines.items() if panel in (None, name))
        ends = [min(line.index[-1] for seeds in tasks for line in seeds) for tasks in shown]
        return max(ends, default=None)

    def shown(
        self, panel: str, looks: Looks
    ) -> Iterator[tuple[str, Style, Sequence[Sequence[pandas.Series]]]]:
        """Yields label, style and the lines of each task of a panel's settings."""
        for setting, look in looks.items():
            if (panel, setting) in self.lines:
                yield *look, self.lines[panel, setting]

    def group(self, names: Sequence[str], having: Container[str]) -> panels.PanelGroup:
        """Returns the panels with these names, and the axes that they share."""
        experiment, ours, looks = self.experiment, self.end(), self.looks(having)
        papers = papers_limit(experiment)
        limit = None if experiment.name == ALL_RUNS else ours
        if experiment.is_of_ends:
            limit = max([ours or 0, *(curve.x[0] for curve in self._reported_points())])
        elif papers is not None and (ours or 0) >= _PAPERS_AXIS_FROM * papers:
            limit = max(papers, ours or 0)
        is_log = experiment.y in _LOGARITHMIC
        drawn = tuple(self.panel(name, looks) for name in names)
        label = _y_label(experiment)
        return panels.PanelGroup(drawn, experiment.x, limit, label, is_log, self.name)

    def panel(self, name: str, looks: Looks) -> panels.Panel:
        """Returns the panel of a task, or of several that are combined."""
        curves = []
        for label, style, tasks in self.shown(name, looks):
            grid, values = _on_grid([line for seeds in tasks for line in seeds])
            by_task = np.split(values, np.cumsum([len(seeds) for seeds in tasks])[:-1])
            curves.append(panels.Curve(label, style, grid, *self._over_seeds(by_task)))
        limits, references = None, ()
        if self.experiment.is_of_ends:
            curves += self._reported_points()
        elif curves:
            references = _references(self.paper, self.experiment, self.reported)
            references += self.experiment.levels.get(name, ())
        if self.experiment.is_of_returns and name.startswith("control:"):
            limits = _CONTROL_SUITE_LIMITS
        elif self.experiment.is_of_returns and name.startswith("atari:") and curves:
            references += self._atari_references(name)
        end = self.end(name)
        return panels.Panel(task_title(name), tuple(curves), end, references, limits)

    def _reported_points(self) -> list[panels.Curve]:
        """Returns the reported numbers of a figure of ends, as curves of a single point."""
        found = []
        for line, color in zip(self.experiment.references, COLORS[1:]):
            place = (self.paper.name, line.source, line.row)
            days, value = (self.reported.number(*place, name) for name in (line.days, line.column))
            at = np.array([86_400 * days]), np.array([value])
            found.append(panels.Curve(f"{line.label}, reported", Style(color), *at))
        return found

    def _over_seeds(
        self, tasks: Sequence[np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
        """Returns means over seeds and the paper's band, combined over tasks.

        Args:
          tasks: values [seeds, P] for each task; tasks may have different numbers of seeds.

        Returns:
          middle, low and high, [P] each; low and high are None if a task has fewer than three
          seeds.
        """
        is_median = self.experiment.over_tasks is OverTasks.MEDIAN_NORMALISED
        combine = np.median if is_median else np.mean
        middle = combine([seeds.mean(axis=0) for seeds in tasks], axis=0)
        if min(map(len, tasks)) < FEWEST_SEEDS:
            return middle, None, None
        if self.paper.band is Band.STANDARD_ERROR:
            errors = [stats.sem(seeds, axis=0) for seeds in tasks]
            error = np.sqrt(np.square(errors).sum(axis=0)) / len(tasks)
            return middle, middle - error, middle + error
        ends = (20, 80) if self.paper.band is Band.PERCENTILES_20_80 else (25, 75)
        low, high = combine([np.percentile(seeds, ends, axis=0) for seeds in tasks], axis=0)
        return middle, low, high

    def _atari_references(self, environment: str) -> References:
        """Returns the scores of a human and of random play, and the paper's for these settings."""
        game = environment.removeprefix("atari:")
        scores = self.reported.game(game)
        settings = [setting for panel, setting in self.lines if panel == environment]
        agents = reported_scores(self.paper, game, settings, self.reported)
        return (
            (scores["human"], "a human"),
            (scores["random"], "random play"),
            *((score, f"{agent}, reported") for agent, score in agents.items()),
        )

    def bars_of(self, name: str, looks: Looks) -> list[drawing.Bar]:
        """Returns a bar for each setting with its final values on a task."""
        drawn, (take, _) = [], selection.final_of(self.experiment.y)
        for label, style, tasks in self.shown(name, looks):
            finals = [np.array([[take(line)] for line in seeds]) for seeds in tasks]
            value, *ends = self._over_seeds(finals)
            low, high = (None if end is None else float(end[0]) for end in ends)
            seeds = tuple(finals[0].ravel()) if len(finals) == 1 else ()
            drawn.append(drawing.Bar(label, style, float(value[0]), low, high, seeds))
        return drawn


def _page_of_finals(
    experiment: Experiment, parts: Sequence[_Part], having: Container[str]
) -> drawing.Page:
    """Returns the page of a figure of final values."""
    names = [f"{part.name}, " for part in experiment.parts] or [""]
    groups = {
        f"{name}{task_title(panel)}": part.bars_of(panel, part.looks(having))
        for part, name in zip(parts, names)
        for panel in dict.fromkeys(panel for panel, _ in part.lines)
    }
    label = _y_label(experiment)
    if experiment.sizes:
        (values,) = groups.values()
        sizes = [experiment.sizes[name] for name in experiment.settings if name in having]
        return drawing.proportion(sizes, values, experiment.size_name, label)
    references = _references(parts[0].paper, experiment, parts[0].reported)
    return drawing.bars(groups, label, references)


def _references(paper: Paper, experiment: Experiment, reported: Reported) -> References:
    """Returns the reported numbers as (value, label), the largest first."""
    values = [
        (reported.number(paper.name, line.source, line.row, line.column), line.label)
        for line in experiment.references
    ]
    return tuple(
        (value, f"{label}, reported: {value:g}") for value, label in sorted(values, reverse=True)
    )


def _page_of_curves(parts: Sequence[_Part], having: Container[str]) -> drawing.Page:
    """Returns the page of a figure of learning curves."""
    counts = [collections.Counter(panel for panel, _ in part.lines) for part in parts]
    shown = {panel for count in counts for panel in count}
    compared = {panel for count in counts for panel in count if count[panel] > 1}
    if len(parts) > 1 and compared:
        shown = compared  # other tasks have only the curve that all parts share so far
    groups = []
    for part in parts:
        of_part, runs = part.experiment, part.experiment.runs
        alike = (
            other.lines
            for other in parts
            if dataclasses.replace(other.experiment, runs=runs) == of_part
        )
        if any(part.lines.keys() < lines.keys() for lines in alike):
            continue  # its other curves have not been run
        names = tuple(dict.fromkeys(panel for panel, _ in part.lines)) or ("",)
        if of_part.over_tasks is OverTasks.APART:
            names = tuple(name for name in of_part.environments if name in shown)
        groups.append(part.group(names, having))
    return panels.draw(groups)


def _on_grid(lines: Sequence[pandas.Series]) -> tuple[np.ndarray, np.ndarray]:
    """Returns positions [P] that all lines cover, and their values there [len(lines), P]."""
    if max(map(len, lines)) == 1:  # ends of runs
        at = np.mean([line.index[0] for line in lines])
        return np.array([at]), np.array([line.to_numpy() for line in lines])
    if len(lines) == 1:
        return lines[0].index.to_numpy(), lines[0].to_numpy()[np.newaxis]
    start, end = max(line.index[0] for line in lines), min(line.index[-1] for line in lines)
    grid = np.linspace(min(start, end), end, _GRID_POINTS)
    return grid, np.array([np.interp(grid, line.index, line.to_numpy()) for line in lines])


def papers_limit(experiment: Experiment) -> float | None:
    """Returns the end of the paper's runs on the horizontal axis; None if unknown."""
    budget, x = experiment.budget, experiment.x
    of_clocks = {"wall_seconds": budget.minutes, "learner_steps": budget.learner_steps}
    limit = of_clocks.get(x, budget.actor_steps)
    if limit is None or x not in ("wall_seconds", "environment_frames"):
        return limit
    return limit * (
        60 if x == "wall_seconds" else max(map(frames_per_step, experiment.environments))
    )


def _y_label(experiment: Experiment) -> str:
    if experiment.is_of_returns and experiment.over_tasks is OverTasks.MEDIAN_NORMALISED:
        return "median human-normalised score (%)"
    return _Y_LABELS.get(experiment.y, experiment.y.replace("_", " "))


def styles(settings: Sequence[str], looks: Mapping[str, Look]) -> dict[str, Style]:
    """Returns the style of each setting of a figure.

    A setting whose style an earlier setting has receives the same colour with dashes that the
    figure does not yet use in it. A setting without a style, or for which no dashes are left,
    receives the first unused colour. Settings with the same label share a style: a method may be
    one setting on some tasks and another on others, and it has one entry in the legend.

    Args:
      settings: names of the settings, in the order of the legend.
      looks: labels and styles of settings, by name.
    """
    known = {name: looks[name].style for name in settings if name in looks and looks[name].style}
    used = {style.color for style in known.values()}
    chosen: dict[str, Style] = {}
    of_labels: dict[str, Style] = {}
    for name in settings:
        label = looks[name].label if name in looks else name
        if label in of_labels:
            chosen[name] = of_labels[label]
            continue
        style = known.get(name)
        if style is not None and style in chosen.values():
            drawn = [*known.values(), *chosen.values()]
            taken = {other.line for other in drawn if other.color == style.color}
            line = next((line for line in _LINES if line not in taken), None)
            style = dataclasses.replace(style, line=line) if line else None
        if style is None:
            round_number, place = divmod(len(chosen), len(COLORS))
            repeated = Style(COLORS[place], _LINES[1 + round_number % 3])
            free = (Style(color) for color in COLORS if color not in used)
            style = next(free, repeated)
            used.add(style.color)
        chosen[name] = of_labels[label] = style
    return chosen
