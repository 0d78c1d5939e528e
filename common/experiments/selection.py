"""Which of the runs that are kept a figure, a table or a claim takes."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pandas

from common.experiments.registry import Experiment, Paper, UnknownError
from common.experiments.runs import KeptRun, KeptRuns
from common.experiments.scales import SMOKE
from common.reporting import reported, scores

FINAL = "the mean of a run's last tenth of values, at least two"
"""What a final return is."""
_FINAL_SPEED = "the mean over the last third of a run's time"


def runs_of(experiment: Experiment, runs: Iterable[KeptRun]) -> tuple[KeptRun, ...]:
    """Those of `runs` that the experiment lists, in its order of settings, environments, seeds."""
    order = {
        (run.setting, run.environment): number for number, run in enumerate(experiment.every_run)
    }
    listed = [run for run in runs if (run.setting, run.environment) in order]
    return tuple(sorted(listed, key=lambda run: (order[run.setting, run.environment], run.seed)))


def scales_of(paper: Paper, kept: KeptRuns) -> tuple[str, ...]:
    """The scales with runs, those nearest to the paper's first, ones that it does not list last."""
    there = kept.scales(paper.name)
    listed = [scale.name for scale in paper.scales if scale.name in there]
    return (*listed, *(name for name in there if name not in listed))


def deciding_scales(paper: Paper, kept: KeptRuns) -> tuple[str, ...]:
    """As `scales_of`, those whose runs are evidence for what the paper claims."""
    return tuple(scale for scale in scales_of(paper, kept) if scale != SMOKE)


def scale_in_words(scale: str) -> str:
    """For a sentence of evidence; marks what is none."""
    return f"Scale {scale}{' (shows that it works: no evidence)' if scale == SMOKE else ''}"


def check_scale(paper: Paper, kept: KeptRuns, scale: str | None) -> None:
    """Refuses a scale that the paper does not list and of which there are no runs.

    Raises:
      UnknownError: it is such a scale; the message lists the others.
    """
    if scale is not None and scale not in kept.scales(paper.name):
        paper.scale(scale)


def check_scale_of_any(papers: Sequence[Paper], kept: KeptRuns, scale: str | None) -> None:
    """Refuses a scale that none of the papers lists and of which none has runs.

    Raises:
      UnknownError: it is such a scale; the message lists the others.
    """
    known = dict.fromkeys(
        name for one in papers for name in (*(of.name for of in one.scales), *kept.scales(one.name))
    )
    if scale is not None and scale not in known:
        raise UnknownError(f'no paper has a scale "{scale}": there are {", ".join(known)}')


def nearest_scale(
    paper: Paper, kept: KeptRuns, is_enough: Callable[[Sequence[KeptRun]], bool]
) -> str | None:
    """The scale nearest to the paper's whose runs are enough; None if there is none."""
    for scale in scales_of(paper, kept):
        if is_enough(kept.of(paper.name, scale)):
            return scale
    return None


def nearest_scale_of(paper: Paper, experiment: Experiment, kept: KeptRuns) -> str | None:
    """The scale nearest to the paper's that has runs of the experiment; None if there is none."""
    return nearest_scale(paper, kept, lambda runs: bool(runs_of(experiment, runs)))


def clock(experiment: Experiment) -> str:
    """The column that an experiment's runs are followed along, even if its figure has no axis."""
    return experiment.x or (
        "wall_seconds" if experiment.budget.actor_steps is None else "actor_steps"
    )


def final(values: pandas.Series) -> float:
    """The final value of a run, as `FINAL` says.

    Args:
      values: one or more, in the order of the run.
    """
    return float(values.tail(max(2, len(values) // 10)).mean())


def final_speed(values: pandas.Series) -> float:
    """The final value of a run's speed: the mean over the last third of its time.

    Args:
      values: by wall-clock seconds; each is of the time since the one before.
    """
    ends = values.index.to_numpy()
    is_late = ends > 2 / 3 * ends[-1]
    return float(np.average(values[is_late], weights=np.diff(ends, prepend=0.0)[is_late]))


class FinalValue(NamedTuple):
    """How a column's final value is taken, and that in words."""

    take: Callable[[pandas.Series], float]
    words: str


def final_of(column: str) -> FinalValue:
    """How the final value of an experiment's `y` is taken."""
    is_speed = column.endswith("_per_second")
    return FinalValue(final_speed, _FINAL_SPEED) if is_speed else FinalValue(final, FINAL)


def human_normalised(
    environment: str, returns: pandas.Series, references: pandas.DataFrame | None = None
) -> pandas.Series:
    """Scores of an Atari game as parts of a human's: 0 is random play, 1 a human.

    Args:
      environment: "atari:GAME".
      returns: unclipped.
      references: scores of random play and of a human, as `reported.atari_scores`, which they are
        by default.

    Raises:
      ValueError: random and human scores of the game are not known.
    """
    game = environment.removeprefix("atari:")
    if references is None:
        references = reported.atari_scores()
    normalised = scores.human_normalised(
        pandas.DataFrame([returns.to_numpy()], index=[game]),
        references["random"],
        references["human"],
    )
    return pandas.Series(normalised.loc[game].array, index=returns.index)


def percent_of_human(environment: str, references: pandas.DataFrame) -> float:
    """What a point of an Atari game's score is, in percent of a human's."""
    none, one = human_normalised(environment, pandas.Series([0.0, 1.0]), references)
    return 100 * (one - none)
