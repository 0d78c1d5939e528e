"""The scales of runs: their budgets, and what else they change from the paper.

Runs of different scales live in different directories and never meet in a figure.
"""

from collections.abc import Sequence
import dataclasses
from typing import Any

from common.agents.declaration import AgentDeclaration
from common.reporting.budget import Budget

SMOKE = "smoke"
"""The name of the scale whose runs only show that everything works."""
EARLIER = "_earlier"
"""The end of the name of a scale with runs that others of the same seeds have replaced."""


@dataclasses.dataclass(frozen=True)
class Change:
    """An argument of a run's program that the paper's run does not have.

    Attributes:
      flag: "--num_actors=8".
      agent: whose runs change; None: those of all that the paper has.
    """

    flag: str
    agent: AgentDeclaration | None = None

    @property
    def name(self) -> str:
        """The flag's name: "num_actors"."""
        return flag_name(self.flag)

    @property
    def value(self) -> str:
        """The flag's value: "8"."""
        return self.flag.partition("=")[2]

    def reported(self, agent: AgentDeclaration) -> str:
        """Returns the value that an agent has otherwise; "" for a flag of the program's."""
        setting = agent.settings.default
        config = agent.settings.configuration(setting)
        if self.name == agent.num_actors_flag:
            return str(agent.num_actors(config, setting))
        return str(vars(config).get(self.name.removeprefix("config."), ""))

    def words(self, agent: AgentDeclaration) -> str:
        """Returns the change of an agent's runs: "num_actors 8 instead of 32"."""
        reported = self.reported(agent)
        return f"{self.name} {self.value}" + f" instead of {reported}" * bool(reported)


def changes(*flags: str, agent: AgentDeclaration | None = None) -> tuple[Change, ...]:
    """Returns a `Change` for each of `flags`."""
    return tuple(Change(flag, agent) for flag in flags)


@dataclasses.dataclass(frozen=True)
class Scale:
    """A size of runs.

    Attributes:
      name: also of the directory results/runs/<paper>/<name>/.
      title: what it is meant for, a phrase.
      budget: of each run; None leaves each experiment the paper's.
      changes: what else differs from the paper. A run's own flags win over them.
      flags: of every run, which the paper has so.
      tried_minutes: of a run that is limited in steps, for estimates until one is finished.
      is_compact: its runs are many, so they are thinned when they are kept, and end with an
        evaluation of their final parameters.
    """

    name: str
    title: str
    budget: Budget | None = None
    changes: tuple[Change, ...] = ()
    flags: tuple[str, ...] = ()
    tried_minutes: float | None = None
    is_compact: bool = False

    def budget_of(self, reported: Budget) -> Budget:
        """Returns the budget of a run whose paper gives it `reported`."""
        return reported if self.budget is None else self.budget

    def changes_of(self, agent: object, run_flags: Sequence[str]) -> tuple[Change, ...]:
        """Returns the changes that apply to a run of `agent` with these flags of its own."""
        own = {flag_name(flag) for flag in run_flags}
        return tuple(
            change
            for change in self.changes
            if change.agent in (None, agent) and change.name not in own
        )

    def differences(
        self,
        reported: Budget,
        agent: AgentDeclaration,
        run_flags: Sequence[str],
        is_stated: bool = True,
    ) -> list[str]:
        """Returns what differs from the paper's run, a phrase each; none at the paper's scale.

        Args:
          reported: the paper's budget.
          agent: of the run.
          run_flags: of the run's own.
          is_stated: whether `reported` is in the paper.
        """
        budget = self.budget_of(reported)
        whose = "" if is_stated else " (not in the paper)"
        words = [] if budget == reported else [f"{budget} instead of {reported}{whose}"]
        return words + [one.words(agent) for one in self.changes_of(agent, run_flags)]


PAPER = Scale("paper", "the paper's actors and hours")


def flag_name(flag: str) -> str:
    """Returns "num_actors" for "--num_actors=8"."""
    return flag.removeprefix("--").partition("=")[0]


def same_value(value: Any, text: str) -> bool:
    """Returns whether a value of JSON is the one that a flag's text says."""
    if isinstance(value, list):  # as "(128, 128)", "128,128" or "(128,)"
        value, text = ",".join(map(str, value)), text.strip("() ").rstrip(",")
    try:
        return float(value) == float(text)
    except (TypeError, ValueError):
        return str(value).replace(" ", "").lower() == text.replace(" ", "").lower()
