"""How large a run is: its budget, and what else its scale changes from the paper.

Runs of different scales live in different directories and never meet in a figure.
"""

from collections.abc import Sequence
import dataclasses

_UNITS = (("days", 24 * 60, 72 * 60), ("hours", 60, 60), ("minutes", 1, 0))
"""Name, minutes in it, and from how many minutes on it is used."""


@dataclasses.dataclass(frozen=True)
class Budget:
    """When a run is over, whichever limit comes first; None is never.

    minutes: of wall-clock time, over all starts of the run. actor_steps: of all actors together.
    learner_steps: updates.
    """

    minutes: float | None = None
    actor_steps: int | None = None
    learner_steps: int | None = None

    @property
    def flags(self) -> tuple[str, ...]:
        """The limits as arguments of a paper's program."""
        limits = {
            "max_minutes": self.minutes,
            "max_actor_steps": self.actor_steps,
            "max_learner_steps": self.learner_steps,
        }
        return tuple(
            f"--{name}={limit:.12g}" for name, limit in limits.items() if limit is not None
        )

    def covers(self, other: "Budget") -> bool:
        """Whether a run of this budget is one of the other as well, if it is cut there."""
        return all(
            (ours is None) == (theirs is None) and (ours is None or ours >= theirs)
            for ours, theirs in zip(dataclasses.astuple(self), dataclasses.astuple(other))
        )

    def reached(self, wall_seconds: float, actor_steps: float, learner_steps: float) -> bool:
        """Whether a run that is so far is over."""
        done = (wall_seconds / 60, actor_steps, learner_steps)
        return any(
            limit is not None and value >= limit
            for limit, value in zip(dataclasses.astuple(self), done)
        )

    def __str__(self) -> str:
        """For people: "12 hours", "10,000,000 actor steps", "1 minute or 100 learner steps"."""
        parts = [] if self.minutes is None else [duration(self.minutes)]
        for limit, what in ((self.actor_steps, "actor"), (self.learner_steps, "learner")):
            if limit is not None:
                parts.append(f"{limit:,} {what} steps")
        return " or ".join(parts) or "no limit"


@dataclasses.dataclass(frozen=True)
class Change:
    """An argument of a run's program that the paper's run has not.

    flag: "--num_actors=8". text: what that is and what the paper has, "8 actors instead of 32".
    program: the module of the program whose runs it changes; "": of all that the paper has.
    """

    flag: str
    text: str
    program: str = ""

    @property
    def name(self) -> str:
        """The flag's name: "num_actors"."""
        return flag_name(self.flag)


@dataclasses.dataclass(frozen=True)
class Scale:
    """A size of runs, by name.

    name: also of the directory: results/runs/<paper>/<name>/.
    title: for people, what it is meant for.
    budget: of each run; None leaves each experiment the paper's.
    changes: what else differs from the paper. A run's own flags win over them.
    """

    name: str
    title: str
    budget: Budget | None = None
    changes: tuple[Change, ...] = ()

    def budget_of(self, reported: Budget) -> Budget:
        """The budget of a run whose paper gives it `reported`."""
        return reported if self.budget is None else self.budget

    def changes_of(self, program: str, run_flags: Sequence[str]) -> tuple[Change, ...]:
        """The changes that a run of `program` with these flags of its own takes over."""
        own = {flag_name(flag) for flag in run_flags}
        return tuple(
            change
            for change in self.changes
            if change.program in ("", program) and change.name not in own
        )

    def differences(
        self, reported: Budget, program: str, run_flags: Sequence[str], is_stated: bool = True
    ) -> list[str]:
        """What differs from the paper's run, a phrase each; none for the paper's own scale.

        Args:
          is_stated: whether `reported` is in the paper.
        """
        budget = self.budget_of(reported)
        whose = "" if is_stated else " (not in the paper)"
        words = [] if budget == reported else [f"{budget} instead of {reported}{whose}"]
        return words + [change.text for change in self.changes_of(program, run_flags)]


PAPER = Scale("paper", "the paper's actors and hours")
SMOKE = "smoke"
"""The name of the scale whose runs show that all of it works, and nothing else."""


def flag_name(flag: str) -> str:
    """ "num_actors" of "--num_actors=8"."""
    return flag.removeprefix("--").partition("=")[0]


def duration(minutes: float) -> str:
    """Minutes for people: "40 minutes", "1 hour", "4.5 days"."""
    unit, size = next((unit, size) for unit, size, least in _UNITS if minutes >= least)
    number = f"{minutes / size:.3g}"
    return f"{number} {unit.removesuffix('s') if number == '1' else unit}"
