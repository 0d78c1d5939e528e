"""What stands under a figure, and with a table: what it shows, of how many seeds, which scale."""

from collections.abc import Iterable, Sequence

from common.experiments import selection
from common.experiments.registry import Band, Experiment, OverTasks, Paper, UnknownError
from common.experiments.runs import KeptRun
from common.experiments.scales import Budget, duration

_SHADED = {
    Band.UNSTATED: "lowest to highest seed (the paper does not say what it shades)",
    Band.PERCENTILES_20_80: "20th to 80th percentile of the seeds, as in the paper",
    Band.STANDARD_ERROR: "standard error over seeds, as in the paper",
}


def caption(
    paper: Paper,
    experiment: Experiment,
    scale: str,
    runs: Sequence[KeptRun],
    settings: Sequence[str],
) -> str:
    """A few sentences for under a figure.

    Args:
      runs: that are drawn. settings: the curves that are drawn.
    """
    missing = [paper.label(name) for name in experiment.settings if name not in settings]
    return " ".join(filter(None, [
        _parts(experiment),
        _seeds(experiment, runs),
        _scale(paper, experiment, scale, runs),
        f'Not run: {", ".join(missing)}.' if missing else "",
        f"{experiment.note[0].upper()}{experiment.note[1:]}." if experiment.note else "",
    ]))


def _parts(experiment: Experiment) -> str:
    """`what` is shown, of each part if they differ in it."""
    found = [what(part) for part in experiment.divided()]
    if len(set(found)) == 1:
        return found[0]
    return " ".join(f"{part.name.capitalize()}: {words[0].lower()}{words[1:]}"
                    for part, words in zip(experiment.parts, found))


def what(experiment: Experiment) -> str:
    """Sentences: whose episodes a figure or a table shows, brought together how, of when."""
    words = []
    if experiment.is_of_returns:
        words.append(f"Returns of {experiment.returns}.")
    if experiment.over_tasks is not OverTasks.APART:
        words.append(f"{str(experiment.over_tasks).capitalize()}.")
    if not experiment.x:
        words.append(f"Final: {selection.FINAL}.")
    return " ".join(words)


def _seeds(experiment: Experiment, runs: Sequence[KeptRun]) -> str:
    counts = _counts((run.setting, run.environment) for run in runs)
    papers = f" (the paper: {experiment.seeds})" if experiment.seeds else ""
    if max(counts) == 1:
        return f"One seed each{papers}."
    number = _range(str(min(counts)), str(max(counts)))
    drawn = "shaded" if experiment.x else "error bars"
    return f"Mean over {number} seeds{papers}; {drawn}: {_SHADED[experiment.band]}."


def _scale(paper: Paper, experiment: Experiment, scale: str, runs: Sequence[KeptRun]) -> str:
    parts = [f"Scale {scale}: runs of {_length(experiment, runs)}"]
    if experiment.budget != Budget():
        parts = [f"{parts[0]} (the paper: {experiment.budget})"]
    drawn = {(run.setting, run.environment) for run in runs}
    try:
        changes = [change.text for run in experiment.runs
                   if (run.setting, run.environment) in drawn
                   for change in paper.scale(scale).changes_of(run.program.module, run.choices)]
    except UnknownError:  # of an older version of the code
        changes = []
    return "; ".join([*parts, *dict.fromkeys(changes)]) + "."


def _length(experiment: Experiment, runs: Sequence[KeptRun]) -> str:
    """In the paper's quantity: "5 to 15 minutes", "200,000 actor steps"."""
    clock = selection.clock(experiment)
    if clock != "wall_seconds":
        clock = "actor_steps"
    reached = [run.reached(clock) for run in runs]
    if clock == "actor_steps":
        return _range(f"{min(reached):,.0f}", f"{max(reached):,.0f}") + " actor steps"
    minutes = [reached_by / 60 for reached_by in reached]
    longest = duration(round(max(minutes)) if max(minutes) >= 2 else max(minutes))
    shortest = f"{min(minutes):.0f}" if max(minutes) < 120 else duration(min(minutes))
    return longest if round(min(minutes)) == round(max(minutes)) else f"{shortest} to {longest}"


def _counts(keys: Iterable) -> list[int]:
    counts = {}
    for key in keys:
        counts[key] = counts.get(key, 0) + 1
    return list(counts.values())


def _range(low: str, high: str) -> str:
    return high if low == high else f"{low} to {high}"
