"""The limits of a run."""

from collections.abc import Mapping
import dataclasses
import math
from typing import Any

from common.reporting import csv_rows

EPISODE_STEPS = 30_000
"""Default maximum length of an evaluation's episodes, in actor steps. No episode in the papers is
as long: Atari's last at most 108,000 frames, which are 27,000 steps."""
_UNITS = (("days", 24 * 60, 72 * 60), ("hours", 60, 60), ("minutes", 1, -math.inf))
"""Unit, its length in minutes, and the shortest duration in minutes for which it is used."""


@dataclasses.dataclass(frozen=True)
class Budget:
    """The limits of a run, which ends at the first one that it reaches. None means no limit.

    Attributes:
      minutes: wall-clock time over all starts of the run.
      actor_steps: steps of all actors together.
      learner_steps: updates.
      episode_return: mean return of an evaluation, at which the run ends.
    """

    minutes: float | None = None
    actor_steps: int | None = None
    learner_steps: int | None = None
    episode_return: float | None = None

    def to_json(self) -> dict[str, float | int | None]:
        """Returns the limits by name; `episode_return` only if it is set."""
        values = dataclasses.asdict(self)
        return {
            name: value
            for name, value in values.items()
            if name != "episode_return" or value is not None
        }

    @property
    def clock(self) -> str:
        """The column along which the run is followed: that of its limit in steps, else seconds.

        A slower machine then gives the same evidence.
        """
        limits = ("learner_steps", "actor_steps")
        return next((name for name in limits if getattr(self, name)), "wall_seconds")

    @property
    def flags(self) -> tuple[str, ...]:
        """The limits as command-line flags of an agent's program."""
        return tuple(
            f"--{'stop_at_return' if name == 'episode_return' else f'max_{name}'}={limit:.12g}"
            for name, limit in self.to_json().items()
            if limit is not None
        )

    def fraction(self, wall_seconds: float, actor_steps: float, learner_steps: float) -> float:
        """Returns the fraction of a run that is done at this progress, 0 to 1; 0 without limits."""
        done = (wall_seconds / 60, actor_steps, learner_steps)
        limits = zip(done, dataclasses.astuple(self))
        parts = [value / limit for value, limit in limits if limit]
        return min(1.0, max(parts, default=0.0))

    def is_solved_by(self, episode_return: float) -> bool:
        """Returns whether an evaluation with this mean return ends the run."""
        return self.episode_return is not None and episode_return >= self.episode_return

    def reached(self, wall_seconds: float, actor_steps: float, learner_steps: float) -> bool:
        """Returns whether a run with this progress has reached a limit of time or steps."""
        done = (wall_seconds / 60, actor_steps, learner_steps)
        return any(
            limit is not None and value >= limit
            for limit, value in zip(dataclasses.astuple(self), done)
        )

    def reached_by(self, row: Mapping[str, Any]) -> bool:
        """Returns whether a run whose last row of learner.csv is `row` has reached a limit."""
        return self.reached(*(row[name] for name in csv_rows.PROGRESS))

    def __str__(self) -> str:
        """Returns "12 hours", "10,000,000 actor steps" or "1 minute or 100 learner steps"."""
        parts = [] if self.minutes is None else [duration(self.minutes)]
        for limit, steps in ((self.actor_steps, "actor"), (self.learner_steps, "learner")):
            if limit is not None:
                parts.append(f"{limit:,} {steps} steps")
        if self.episode_return is not None:
            parts.append(f"a return of {self.episode_return:g}")
        return " or ".join(parts) or "no limit"


def duration(minutes: float) -> str:
    """Returns minutes in words: "40 minutes", "1 hour", "4.5 days"."""
    unit, length = next((unit, length) for unit, length, least in _UNITS if minutes >= least)
    number = f"{minutes / length:.3g}"
    return f"{number} {unit.removesuffix('s') if number == '1' else unit}"
