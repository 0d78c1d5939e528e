"""Our numbers for the paper's table of environments."""

from collections.abc import Sequence
import dataclasses

from common.experiments.paper import Cell, Experiment, OwnNumbers
from common.experiments.runs import KeptRun
from common.reporting.reported import Reported


@dataclasses.dataclass(frozen=True)
class Sizes(OwnNumbers):
    """Sizes of actions and observations in the installed simulator.

    Attributes:
      environments: names.
    """

    environments: tuple[str, ...]

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
        for name in self.environments:
            environment = environments.make(name, seed=0)
            row = name.removeprefix("control:")
            found[row, "|A|"] = Cell(environment.action_spec().shape[0])
            found[row, "|X|"] = Cell(environment.observation_spec().shape[0])
        return found
