"""What stands under a figure, and with a table: what it shows, of how many seeds, which scale."""

from collections.abc import Iterable, Sequence

from common.experiments import selection
from common.experiments.registry import Band, Experiment, OverTasks, Paper, UnknownError
from common.experiments.runs import KeptRun
from common.reporting.budget import Budget, duration

_SHADED = {
    Band.UNSTATED: "lowest to highest seed (the paper does not say what it shades)",
    Band.PERCENTILES_20_80: "20th to 80th percentile of the seeds, as in the paper",
    Band.PERCENTILES_20_80_OF_EPISODES: "20th to 80th percentile of the seeds (the paper: of all their episodes)",
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
    return " ".join(
        filter(
            None,
            [
                _parts(experiment),
                _seeds(experiment, runs),
                _scale(paper, experiment, scale, runs),
                f"Not run: {', '.join(missing)}." if missing else "",
                f"{experiment.note[0].upper()}{experiment.note[1:]}." if experiment.note else "",
            ],
        )
    )


def _parts(experiment: Experiment) -> str:
    """`what` is shown, of each part if they differ in it."""
    found = [what(part) for part in experiment.divided()]
    if len(set(found)) == 1:
        return found[0]
    return " ".join(
        f"{part.name.capitalize()}: {words[0].lower()}{words[1:]}"
        for part, words in zip(experiment.parts, found)
    )


def what(experiment: Experiment) -> str:
    """Sentences: whose episodes a figure or a table shows, brought together how, of when."""
    words = []
    if experiment.is_of_returns:
        words.append(f"Returns of {experiment.returns}.")
    if experiment.over_tasks is not OverTasks.APART:
        words.append(f"{str(experiment.over_tasks).capitalize()}.")
    if not experiment.x:
        words.append(f"Final: {selection.final_of(experiment.y).words}.")
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
        papers = (
            f"the paper: {experiment.budget}"
            if experiment.states_budget
            else f"the paper does not say; at its scale {experiment.budget}"
        )
        parts = [f"{parts[0]} ({papers})"]
    return "; ".join([*parts, *_changes(paper, experiment, scale, runs)]) + "."


def _changes(
    paper: Paper, experiment: Experiment, scale: str, runs: Sequence[KeptRun]
) -> list[str]:
    """What the scale changes, without that which a run's command line has otherwise."""
    try:
        listed = paper.scale(scale)
    except UnknownError:  # made by hand: their records have a word for their size
        return list(dict.fromkeys(run.size for run in runs if run.size not in ("", scale)))
    drawn = {}
    for run in runs:
        drawn.setdefault((run.setting, run.environment), []).append(run)
    said, others = {}, set()
    for planned in experiment.runs:
        of_it = drawn.get((planned.setting, planned.environment), ())
        for change in listed.changes_of(planned.program.module, planned.choices) if of_it else ():
            said[change.text] = None
            if any(run.has_flag(change.name) and not run.has_flag(change.flag) for run in of_it):
                others.add(change.text)
    return [text for text in said if text not in others]


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
    shortest = duration(round(min(minutes))) if round(max(minutes)) >= 60 else f"{min(minutes):.0f}"
    return longest if round(min(minutes)) == round(max(minutes)) else f"{shortest} to {longest}"


def _counts(keys: Iterable) -> list[int]:
    counts = {}
    for key in keys:
        counts[key] = counts.get(key, 0) + 1
    return list(counts.values())


def _range(low: str, high: str) -> str:
    return high if low == high else f"{low} to {high}"
