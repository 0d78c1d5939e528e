"""Ape-X DPG's experiments as lists of runs."""

from collections.abc import Iterable
import dataclasses

from reproductions.apex.dpg import config as config_lib
from reproductions.apex.dpg import settings

TASKS = (
    "control:manipulator:bring_ball",
    "control:humanoid:stand",
    "control:humanoid:walk",
    "control:humanoid:run",
)
"""The four of figure 3 (section 4.2)."""

NUM_ACTORS = (8, 16, 32, 64)
"""Figure 3's. Not in the paper's text, except for 64 (section 4.2)."""


@dataclasses.dataclass(frozen=True)
class Run:
    """One run: `python -m binaries.apex_dpg --workdir=DIR`, then `flags`.

    figure: of the paper, or its appendix.
    setting: one of `settings.SETTINGS`.
    environment: as given to `common.environments.make`.
    num_actors: N.
    """

    figure: str
    setting: str
    environment: str
    num_actors: int = config_lib.NUM_ACTORS

    @property
    def flags(self) -> list[str]:
        """The run's arguments for the binary."""
        return [
            f"--setting={self.setting}", f"--environment={self.environment}",
            f"--num_actors={self.num_actors}",
        ]


def figure_3() -> list[Run]:
    """Numbers of actors on four tasks.

    The dashed line, DDPG after five days, is `python -m binaries.d4pg --setting=ddpg`.
    """
    return [
        Run("figure 3", settings.DEFAULT, task, num_actors)
        for num_actors in NUM_ACTORS for task in TASKS
    ]


def appendix_d() -> list[Run]:
    """Removal by priority and of the oldest: "it remains to be seen which is superior"."""
    return _runs("appendix D", (settings.DEFAULT, "dpg_remove_by_fifo"))


def appendix_e() -> list[Run]:
    """Exponents, learning rates and batch sizes. On which tasks is not in the paper."""
    return _runs("appendix E", (
        settings.DEFAULT, *settings.EXPONENTS, *settings.LEARNING_RATES, *settings.BATCH_SIZES
    ))


def _runs(figure: str, names: Iterable[str]) -> list[Run]:
    return [Run(figure, name, task) for name in names for task in TASKS]
