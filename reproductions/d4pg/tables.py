"""What stands beside the paper's tables."""

from collections.abc import Sequence

from common.experiments.registry import Experiment
from common.experiments.reported_numbers import ReportedNumbers
from common.experiments.runs import KeptRun
from common.experiments.tables import Cell
from reproductions.d4pg.experiments import CONTROL_SUITE


class Sizes:
    """Sizes of the Control Suite's actions and observations, of the simulator that is installed."""

    columns = ("|A|", "|X|")
    is_of_runs = False

    def cells(
        self, experiment: Experiment, runs: Sequence[KeptRun], numbers: ReportedNumbers
    ) -> dict[tuple[str, str], Cell]:
        """See `tables.Comparison`."""
        # Here, because only this table needs a simulator.
        from absl import logging

        logging.set_verbosity(logging.ERROR)  # simulators announce themselves at their import
        from common import environments

        found = {}
        for name in CONTROL_SUITE:
            environment = environments.make(name, seed=0)
            row = name.removeprefix("control:")
            found[row, "|A|"] = Cell(environment.action_spec().shape[0])
            found[row, "|X|"] = Cell(environment.observation_spec().shape[0])
        return found

    def summary(
        self, experiment: Experiment, runs: Sequence[KeptRun], numbers: ReportedNumbers
    ) -> None:
        """See `tables.Comparison`."""


TABLES = {"table 1": Sizes()}
