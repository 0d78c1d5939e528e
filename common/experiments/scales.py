"""How large a run is: its budget, and what else its scale changes from the paper.

Runs of different scales live in different directories and never meet in a figure.
"""

from collections.abc import Sequence
import dataclasses

from common.reporting.budget import Budget


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
