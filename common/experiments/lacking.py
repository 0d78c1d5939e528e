"""The runs that an undecided claim lacks: the command that makes them, and its hours."""

from collections import Counter
from collections.abc import Callable, Sequence
import math

from common.experiments.captions import capital
from common.experiments.claims import Evidence
from common.experiments.paper import Experiment, Paper
from common.experiments.plan import minutes_left
from common.experiments.scales import SMOKE
from common.experiments.status import Progress
from common.reporting.budget import Budget

Needs = Callable[[str], tuple[Sequence[str], Sequence[str]]]
"""Returns the settings and tasks that a claim needs at a scale; no tasks if it cannot decide."""


def seeds_of(experiment: Experiment, scale: str) -> int:
    """Returns the number of seeds that a verdict needs: those of the plan, two at least."""
    return max(2, experiment.seeds_at(scale))


def planned_budget(paper: Paper, experiment: Experiment, scale: str) -> Budget:
    """Returns the limits of the experiment's runs at one of the paper's scales."""
    return experiment.scaled(paper.scale(scale)).budget_of(experiment.budget)


def lacking(paper: Paper, experiment: Experiment, evidence: Evidence, needs: Needs) -> str:
    """Returns the runs that would decide a claim at the scale where that is cheapest.

    Args:
      paper: of the claim.
      experiment: of the claim.
      evidence: has the runs that there are.
      needs: of the claim.

    Returns:
      A sentence with the command, which names the settings and tasks that lack; "" if no run does.
    """
    if experiment.unavailable:
        return f"{capital(experiment.unavailable)}."
    names = [one.name for one in paper.scales if one.name != SMOKE]
    found = []
    for scale in [evidence.scale] if evidence.scale in names else names:
        settings, tasks = needs(scale)
        there = {(run.setting, run.environment) for run in experiment.at(scale).runs}
        others = {
            (run.setting, run.environment): one
            for one in reversed(paper.experiments)
            for run in one.at(scale).runs
        }
        wanted = {(setting, task) for setting in settings for task in tasks}
        if wanted and wanted <= there | set(others):
            found.append((scale, wanted, there, others))
    if not found:
        return "No scale that is listed has all of its settings and tasks."
    # A substitute is a scale made for this experiment.
    made = [one for one in found if one[0] in experiment.substitutes]
    plans = [_plan(paper, experiment, evidence, *one) for one in made or found]
    return min(plans, key=lambda one: one[0])[1]


def _plan(paper, experiment, evidence, scale, wanted, there, others) -> tuple[float, str]:
    """Returns the hours that lack at a scale (inf: not known), and the sentence."""
    ended = [run for run in evidence.kept.of(paper.name, scale) if run.has_ended]
    counts = Counter((run.setting, run.environment) for run in ended)
    speeds = evidence.speeds(paper, scale)
    missing: dict[str, list[tuple[str, str, int]]] = {}
    minutes = 0.0
    for one in sorted(wanted):
        of = experiment if one in there else others[one]
        needed = seeds_of(of, scale)
        if counts[one] < needed:
            missing.setdefault(of.name, []).append((*one, needed))
            each = minutes_left(
                planned_budget(paper, of, scale), Progress(), speeds.of(*one), paper.scale(scale)
            )
            minutes += (needed - counts[one]) * (math.inf if each is None else each)
    commands = []
    for name, of in missing.items():
        experiment = paper.experiment(name).at(scale)
        settings, tasks = ({one[part] for one in of} for part in (0, 1))
        command = f".venv/bin/python -m binaries.experiment --paper={paper.name} {experiment.flag}"
        command += f" --scale={scale}"
        if settings != set(experiment.settings):
            command += f" --settings {' '.join(sorted(settings))}"
        if tasks != set(experiment.environments):
            command += f" --tasks {' '.join(task.partition(':')[2] for task in sorted(tasks))}"
        needed = of[0][2]
        is_more = needed > paper.experiment(name).seeds_at(scale)
        commands.append(command + f" --seeds={needed}" * is_more)
    number = sum(needed - counts[one, task] for of in missing.values() for one, task, needed in of)
    hours = f"{minutes / 60:,.{0 if minutes >= 600 else 1}f} hours"
    if math.isinf(minutes):
        hours = "hours not known yet"
    if any(counts[one] for one in wanted):
        more = "1 more run" if number == 1 else f"{number} more runs"
        words = f"{more} at the scale {scale} decide{'s' * (number == 1)} it"
    else:
        words = f"No runs at the scale {scale}: {number} decide it"
    words += f" ({hours}): {'; '.join(commands)}."
    return minutes, words * bool(number)
