"""The paper's experiments as lists of runs. The environments of figures 3, 5, 6 are not public."""

from collections.abc import Iterable
import dataclasses

from reproductions.d4pg import settings
from reproductions.d4pg.config import D4PGConfig

CONTROL_SUITE = tuple(
    f"control:{task}"
    for task in (
        "acrobot:swingup",
        "acrobot:swingup_sparse",
        "cartpole:swingup",
        "cartpole:swingup_sparse",
        "cheetah:walk",
        "finger:turn_easy",
        "finger:turn_hard",
        "fish:swim",
        "fish:upright",
        "hopper:stand",
        "humanoid:run",
        "humanoid:stand",
        "humanoid:walk",
        "manipulator:bring_ball",
        "swimmer:swimmer15",
        "swimmer:swimmer6",
    )
)
"""The 16 tasks of figure 2 (section 4.1), in its order."""

FIGURE_8_TASKS = tuple(
    f"control:{task}"
    for task in (
        "acrobot:swingup",
        "acrobot:swingup_sparse",
        "finger:turn_hard",
        "fish:swim",
        "humanoid:run",
        "manipulator:bring_ball",
        "swimmer:swimmer15",
        "swimmer:swimmer6",
    )
)
"""The eight tasks of figure 8 (appendix C)."""

@dataclasses.dataclass(frozen=True)
class Run:
    """One run: `python -m binaries.d4pg --workdir=DIR`, then `flags`.

    figure: of the paper.
    setting: the curve, one of `settings.SETTINGS`.
    environment: as given to `common.environments.make`.
    """

    figure: str
    setting: str
    environment: str

    @property
    def config(self) -> D4PGConfig:
        """The run's hyperparameters."""
        return settings.configuration(self.setting)

    @property
    def flags(self) -> list[str]:
        """The run's arguments for the binary; the number of actors is its default."""
        return [f"--setting={self.setting}", f"--environment={self.environment}"]


def figure_2() -> list[Run]:
    """Nine curves on 16 tasks: 144 runs a seed, 12 hours each."""
    return _runs("figure 2", settings.FIGURE_2, CONTROL_SUITE)


def figure_8() -> list[Run]:
    """The mixture of Gaussians at two learning rates beside the categorical distribution."""
    return _runs("figure 8", settings.FIGURE_8, FIGURE_8_TASKS)


def _runs(figure: str, names: Iterable[str], environments: Iterable[str]) -> list[Run]:
    return [Run(figure, name, environment) for name in names for environment in environments]
