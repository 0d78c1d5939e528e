"""Our numbers for the paper's tables of environments."""

from collections.abc import Sequence
import dataclasses

from common.evidence.paper import Experiment
from common.evidence.reported import Reported
from common.evidence.runs import KeptRun
from common.evidence.tables import Cell, OwnNumbers


@dataclasses.dataclass(frozen=True)
class SuiteSizes(OwnNumbers):
    """Sizes of actions, states and observations in the installed simulator."""

    columns = ("|A|", "|S|", "|X|")

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
            found[row, "|S|"] = Cell(environment.wrapped.physics.get_state().size)
            found[row, "|X|"] = Cell(environment.observation_spec().shape[0])
        return found


_POSE = {"position": 3, "quaternion": 4}
"""Coordinates of a free joint's pose in MuJoCo: the number of each kind."""


@dataclasses.dataclass(frozen=True)
class HandSizes(OwnNumbers):
    """Sizes of the observations of our hand; no numbers if the hand is not installed."""

    columns = ("Size", "Catch", "Pick-up-and-orient", "Rotate-in-hand")

    def cells(
        self, experiment: Experiment, runs: Sequence[KeptRun], numbers: Reported
    ) -> dict[tuple[str, str], Cell]:
        """Implements `OwnNumbers`."""
        # Imported here because only this table needs a simulator.
        from common import environments
        from common.environments.registry import names_of

        found, totals = {}, []
        try:
            for name, column in zip(names_of("hand"), self.columns[1:], strict=True):
                hand = environments.make(name, seed=0).wrapped
                totals.append(hand.observation_spec().shape[0])
                found["Total", column] = Cell(totals[-1])
        except environments.UnusableEnvironmentError:
            return {}
        joints = hand.model.nq - sum(_POSE.values())  # the others are the object's
        sizes = {
            "Hand joint positions": joints,
            "Hand joint velocities": joints,
            "Hand actuator targets": hand.model.nu,
            **{f"Object {part}": size for part, size in _POSE.items()},
            "Object velocity": hand.model.nv - joints,
        }
        catch, pick_up, rotate = totals
        if pick_up - catch == sum(_POSE.values()):
            sizes |= {f"Target {part}": size for part, size in _POSE.items()}
        sizes["Target sin_z, cos_z"] = rotate - catch
        return found | {(row, "Size"): Cell(size) for row, size in sizes.items()}
