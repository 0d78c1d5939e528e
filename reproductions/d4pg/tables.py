"""Our numbers for the paper's tables of environments."""

from collections.abc import Sequence
import dataclasses

from common.evidence.paper import Experiment
from common.evidence.reported import Reported
from common.evidence.runs import KeptRun
from common.evidence.tables import Cell, OwnNumbers


@dataclasses.dataclass(frozen=True)
class Sizes(OwnNumbers):
    """Sizes of actions and observations in the installed simulator."""

    columns = ("|A|", "|X|")
    is_of_runs = False

    def cells(
        self, experiment: Experiment, runs: Sequence[KeptRun], numbers: Reported
    ) -> dict[tuple[str, str], Cell]:
        """Implements `OwnNumbers`."""
        # Imported here because only this table needs a simulator.
        from absl import logging

        logging.set_verbosity(logging.ERROR)  # simulators print at import
        from common import environments

        found = {}
        for row in numbers.table("d4pg", experiment.name).index:
            environment = environments.make(f"control:{row}", seed=0)
            found[row, "|A|"] = Cell(environment.action_spec().shape[0])
            found[row, "|X|"] = Cell(environment.observation_spec().shape[0])
        return found


@dataclasses.dataclass(frozen=True)
class HandSizes(OwnNumbers):
    """Sizes of the observations of our hand; none where the hand is not installed."""

    columns = ("Size", "Catch", "Pick-up-and-orient", "Rotate-in-hand")
    is_of_runs = False

    def cells(
        self, experiment: Experiment, runs: Sequence[KeptRun], numbers: Reported
    ) -> dict[tuple[str, str], Cell]:
        """Implements `OwnNumbers`."""
        # Imported here because only this table needs a simulator.
        from common.environments import hand_suite
        from common.environments.spec import UnusableEnvironmentError

        found = {}
        try:
            for task, column in zip(hand_suite.names(), self.columns[1:], strict=True):
                hand = hand_suite.Hand(task, seed=0)
                found["Total", column] = Cell(hand.observation_spec().shape[0])
        except UnusableEnvironmentError:
            return {}
        found["Hand joint positions", "Size"] = Cell(hand.model.nq - 7)  # 7 are the object's
        found["Hand joint velocities", "Size"] = Cell(hand.model.nv - 6)
        found["Hand actuator targets", "Size"] = Cell(hand.model.nu)
        return found
