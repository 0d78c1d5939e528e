"""The paper's experiments as lists of runs: what of them the configuration can express today.

Figure 2: the four D4PG curves of nine. D3PG and DDPG need a scalar critic, figure 8 a mixture of
Gaussians; the environments of figures 3, 5 and 6 are not public.
"""

from collections.abc import Mapping
import dataclasses

from reproductions.d4pg import config as config_lib

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

FIGURE_2_OVERRIDES: Mapping[str, Mapping[str, float]] = {
    "d4pg_prioritized_n5": {},
    "d4pg_prioritized_n1": {"n_step": 1},
    "d4pg_uniform_n5": {"priority_exponent": 0.0},
    "d4pg_uniform_n1": {"priority_exponent": 0.0, "n_step": 1},
}
"""Setting, as in evaluator.csv -> what differs from the default configuration."""


@dataclasses.dataclass(frozen=True)
class Run:
    """One run: `python -m binaries.d4pg --workdir=DIR`, then `flags`.

    figure: of the paper.
    setting: the curve, by its name in evaluator.csv.
    environment: as given to `common.environments.make`.
    overrides: fields of `D4PGConfig`; all others keep their defaults.
    """

    figure: str
    setting: str
    environment: str
    overrides: Mapping[str, float]

    @property
    def config(self) -> config_lib.D4PGConfig:
        """The run's hyperparameters."""
        return config_lib.D4PGConfig(**self.overrides)

    @property
    def flags(self) -> list[str]:
        """The run's arguments for the binary; the number of actors is its default."""
        overrides = [f"--config.{name}={value}" for name, value in self.overrides.items()]
        return [f"--environment={self.environment}", *overrides]


def figure_2() -> list[Run]:
    """D4PG of figure 2, prioritised and not, N = 1 and 5, on 16 tasks: 64 runs a seed."""
    return [
        Run("figure 2", setting, environment, overrides)
        for setting, overrides in FIGURE_2_OVERRIDES.items()
        for environment in CONTROL_SUITE
    ]
