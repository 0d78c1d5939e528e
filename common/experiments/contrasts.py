"""Contrasts of settings and their samples on a task, in a unit and up to a common budget."""

from collections.abc import Callable, Iterable, Mapping, Sequence
import dataclasses

import numpy as np
import pandas

from common.experiments import selection
from common.experiments.captions import task_title
from common.experiments.claims import Evidence
from common.experiments.paper import EPISODE_RETURN, Experiment
from common.experiments.runs import KeptRun
from common.reporting.budget import Budget, duration

MARGIN = 0.05
"""Smaller differences count as none; a part of the scale of `Unit`."""
LATE = 2 / 3
"""What changes by more than the margin after this part of the runs has not levelled off."""
_OVERTIME = 1.01
"""Runs of one length end milliseconds apart."""

Measure = Callable[[np.ndarray], float]
"""A function of a run's values in their order."""
Line = tuple[np.ndarray, np.ndarray]
"""Positions and values of a run."""


def largest_fall(values: np.ndarray) -> float:
    """Returns how far a run falls at most below its best value before: its instability."""
    return float((np.maximum.accumulate(values) - values).max())


def throughout(values: np.ndarray) -> float:
    """Returns the mean over a whole run, which is larger the sooner the run is good."""
    return float(np.mean(values))


@dataclasses.dataclass(frozen=True)
class Contrast:
    """A weighted sum over settings that a claim is about.

    Attributes:
      name: in evidence.
      weights: {setting: weight}; they sum to 0.
      words: in rules, before "of final returns".
    """

    name: str
    weights: Mapping[str, float]
    words: str

    @property
    def is_difference(self) -> bool:
        """True if it is one setting less another."""
        return tuple(self.weights.values()) == (1, -1)


def difference(first: str, second: str) -> Contrast:
    """Returns the first setting less the second."""
    return Contrast(f"{first} - {second}", {first: 1, second: -1}, "difference (first - second)")


def trend(sizes: Mapping[str, float]) -> Contrast:
    """Returns the gain from the smallest to the largest size, on a line fitted to all settings.

    Args:
      sizes: {setting: size}; the line is over the logarithm of the size, by least squares.
    """
    position = np.log(list(sizes.values()))
    position -= position.mean()
    weights = position * np.ptp(position) / np.square(position).sum()
    return Contrast(
        f"{min(sizes, key=sizes.__getitem__)} to {max(sizes, key=sizes.__getitem__)}",
        dict(zip(sizes, weights.tolist())),
        f"gain from {min(sizes.values()):g} to {max(sizes.values()):g}, on a line fitted to "
        f"{', '.join(f'{size:g}' for size in sizes.values())} in their logarithm,",
    )


def gain_beyond(first: Contrast, second: Contrast) -> Contrast:
    """Returns the first contrast less the second: the interaction of what both vary."""
    return Contrast(
        f"({first.name}) - ({second.name})",
        {**first.weights, **{name: -weight for name, weight in second.weights.items()}},
        f"first method's less second method's {first.words}",
    )


@dataclasses.dataclass(frozen=True)
class Unit:
    """The unit of values on a task.

    It is a point of return on the Control Suite, percent of the way from random play to a human on
    Atari, and percent of the largest mean of those compared elsewhere (MinAtar and Gym have no
    reference scores).

    Attributes:
      name: after a number.
      largest: the scale, 1000 points or 100 %.
      zero: the value that is 0.
      factor: converts from there on.
      is_human: whether it is percent of a human. Its scale differs between games by orders of
        magnitude, so games are summed up by their median, as the papers do.
    """

    name: str
    largest: float
    zero: float = 0.0
    factor: float = 1.0
    is_human: bool = False

    @classmethod
    def of(
        cls, environment: str, y: str, means: Iterable[float], human: pandas.DataFrame | None
    ) -> "Unit":
        """Returns the unit of a quantity of an environment.

        Args:
          environment: the task.
          y: `EPISODE_RETURN` or a column of learner.csv.
          means: those compared.
          human: scores of random play and of humans, which Atari games need.
        """
        suite, _, game = environment.partition(":")
        if y == EPISODE_RETURN and suite == "control":
            return cls("", 1000.0)
        if y == EPISODE_RETURN and suite == "atari":
            random, best = human.loc[game]
            return cls(" % of a human", 100.0, random, 100 / (best - random), True)
        return cls(" %", 100.0, 0.0, 100 / (max(map(abs, means)) or 1.0))

    @property
    def is_bounded(self) -> bool:
        """True if no value is above `largest`: points of the Control Suite."""
        return self.name == ""

    @property
    def margin(self) -> float:
        """`MARGIN` in this unit."""
        return MARGIN * self.largest

    def convert(self, values: Iterable[float]) -> tuple[float, ...]:
        """Returns values in this unit."""
        return tuple(self.factor * (value - self.zero) for value in values)


@dataclasses.dataclass(frozen=True)
class TaskSamples:
    """The settings of a contrast on a task, at the budget that all of them reach.

    Attributes:
      environment: the task.
      means: of each setting, in the environment's own unit.
      samples: [setting][seed] in `unit`.
      unit: of the task.
      gains: of each setting in `unit`, since `LATE` of the time.
      has_learnt: whether one of them ends more than the margin above its first value, mean over
        seeds; always true of a quantity that is no return.
      budget: of the runs.
      end: the position up to which they count.
      x: the column of `end`.
    """

    environment: str
    means: tuple[float, ...]
    samples: tuple[tuple[float, ...], ...]
    unit: Unit
    gains: tuple[float, ...]
    has_learnt: bool
    budget: Budget
    end: float
    x: str

    @property
    def seeds(self) -> int:
        """The number of the setting that has fewest."""
        return min(map(len, self.samples))

    @property
    def has_interval(self) -> bool:
        """True if a method learns and each has two seeds."""
        return self.has_learnt and self.seeds >= 2

    @property
    def is_learning(self) -> bool:
        """True if one of them gains more than the margin at the end of its runs."""
        return max(self.gains) > self.unit.margin

    @property
    def is_solved(self) -> bool:
        """True if all are within the margin of the largest possible return, where it is known."""
        least = min(map(np.mean, self.samples))
        return self.unit.is_bounded and bool(least > self.unit.largest - self.unit.margin)

    def change(self, contrast: Contrast) -> float:
        """Returns by how much a contrast of the settings has changed since `LATE`, in `unit`."""
        return float(np.dot(tuple(contrast.weights.values()), self.gains))

    @property
    def length(self) -> str:
        """The length of the runs, for a sentence."""
        if self.x == "wall_seconds":
            return duration(round(self.end / 60, 1))
        return f"{self.end:,.0f} {self.x.replace('_', ' ')}"

    def words(self, contrast: Contrast, needed: int) -> str:
        """Returns the task with its numbers, and what keeps it from being evidence."""
        notes = "" if self.has_learnt else ", where none learns"
        notes += f", {self.seeds} of {needed} seeds" * (self.seeds < needed)
        notes += ", still learning" * (self.has_learnt and self.is_learning)
        between = " - " if contrast.is_difference else " / "
        numbers = between.join(f"{mean:.4g}" for mean in self.means)
        return f"{task_title(self.environment)} {numbers}{notes}"


def common_budget(
    budgets: Sequence[Sequence[Budget]], max_budget: Budget, needed: int
) -> Budget | None:
    """Returns the largest budget that enough runs of each setting reach, or None.

    Args:
      budgets: [setting][run].
      max_budget: the experiment's budget. Longer runs are cut there. No limits if the experiment
        has no budget.
      needed: number of seeds. If no budget has as many, the one with most seeds is returned.
    """
    capped = [[max_budget if one.covers(max_budget) else one for one in side] for side in budgets]

    def reaching(budget: Budget) -> int:
        return min(sum(one.covers(budget) for one in side) for side in capped)

    candidates = {one for side in capped for one in side}
    return max(
        (one for one in candidates if reaching(one)),
        key=lambda one: (
            min(needed, reaching(one)),
            [limit or 0 for limit in dataclasses.astuple(one)],
        ),
        default=None,
    )


def compare(
    environment: str,
    runs: Sequence[Sequence[KeptRun]],
    experiment: Experiment,
    max_budget: Budget,
    needed: int,
    clock: str,
    measure: Measure,
    evidence: Evidence,
    human: pandas.DataFrame | None,
) -> TaskSamples | None:
    """Compares settings on a task; None if one of them has no runs, or none of the same limits.

    Args:
      environment: the task.
      runs: [setting][seed], ended.
      experiment: has the quantity.
      max_budget: the same argument of `common_budget`.
      needed: number of seeds.
      clock: column along which runs are followed; "": that of their budget.
      measure: of a run.
      evidence: reads runs.
      human: as of `Unit.of`.
    """
    budgets = [[evidence.budget(run) for run in side] for side in runs]
    budget = common_budget(budgets, max_budget, needed)
    if budget is None:
        return None
    x = clock or selection.clock(experiment, budget)
    found = [
        [
            evidence.line(run, x, experiment.y, experiment.returns)
            for run, own in zip(side, of_side)
            if own.covers(budget)
        ]
        for side, of_side in zip(runs, budgets)
    ]
    sides = [[line for line in side if len(line[0])] for side in found]
    if not all(sides):
        return None
    lines = [line for side in sides for line in side]
    limit = selection.limit(budget, x)
    end = max(min(limit, *(at[-1] for at, _ in lines)), max(at[0] for at, _ in lines))
    cut = [[_up_to(_OVERTIME * end, line) for line in side] for side in sides]
    early = [[_up_to(LATE * end, line) for line in side] for side in sides]
    values = [[measure(line) for line in side] for side in cut]
    finals = [np.mean([selection.final(line) for line in side]) for side in cut]
    means = [float(np.mean(side)) for side in values]
    is_return = experiment.y == EPISODE_RETURN
    unit = Unit.of(environment, experiment.y, finals if is_return else means, human)
    gains = [mean - np.mean([measure(line) for line in side]) for mean, side in zip(means, early)]
    rises = [last - np.mean([line[0] for line in side]) for last, side in zip(finals, cut)]
    # A fall is a difference of returns, of which 0 is nothing.
    converted = dataclasses.replace(unit, zero=0.0) if measure is largest_fall else unit
    return TaskSamples(
        environment,
        tuple(means),
        tuple(converted.convert(side) for side in values),
        unit,
        tuple(float(unit.factor * gain) for gain in gains),
        not is_return or bool(unit.factor * max(rises) > unit.margin),
        budget,
        float(end),
        x,
    )


def _up_to(end: float, line: Line) -> np.ndarray:
    """Returns the values up to a position, the first one at least."""
    positions, values = line
    return values[: max(1, np.searchsorted(positions, end, side="right"))]
