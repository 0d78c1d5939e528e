"""Ape-X DQN's experiments as lists of runs.

Which games figures 4 to 7 and 14 show is in their pictures only, but for Wizard of Wor: the others
are ours.
"""

from collections.abc import Iterable
import dataclasses

from common.environments import atari_suite
from reproductions.apex.dqn import settings
from reproductions.apex.dqn.config import NUM_ACTORS, DQNConfig

GAMES = tuple(f"atari:{game}" for game in atari_suite.GAMES)
"""The 57 of table 2."""

SIX_GAMES = tuple(
    f"atari:{game}"
    for game in ("breakout", "ms_pacman", "qbert", "seaquest", "space_invaders", "wizard_of_wor")
)
NINE_GAMES = (*SIX_GAMES, "atari:beam_rider", "atari:enduro", "atari:pong")

SCALING = (8, 16, 32, 64, 128, 256)
"""Figure 4's numbers of actors; of figures 13 and 14 our text says none."""


@dataclasses.dataclass(frozen=True)
class Run:
    """One run: `python -m binaries.apex_dqn --workdir=DIR`, then `flags`.

    figure: of the paper, or its appendix.
    setting: one of `settings.SETTINGS`.
    environment: as given to `common.environments.make`.
    num_actors: N.
    """

    figure: str
    setting: str
    environment: str
    num_actors: int = NUM_ACTORS

    @property
    def config(self) -> DQNConfig:
        """The run's hyperparameters."""
        return settings.configuration(self.setting)

    @property
    def flags(self) -> list[str]:
        """The run's arguments for the binary."""
        return [
            f"--setting={self.setting}", f"--environment={self.environment}",
            f"--num_actors={self.num_actors}",
        ]


def figure_2() -> list[Run]:
    """57 games, five days each: also figures 11 and 12, tables 1 and 2."""
    return _runs("figure 2", [settings.DEFAULT], GAMES)


def figure_4() -> list[Run]:
    """Numbers of actors, 35 hours each."""
    return _runs("figure 4", ["dqn_replay_1m"], SIX_GAMES, SCALING)


def figure_5() -> list[Run]:
    """Capacities of the memory, with 256 actors."""
    return _runs("figure 5", settings.FIGURE_5, SIX_GAMES, [256])


def figure_6() -> list[Run]:
    """32 actors whose transitions are added once, or 8 times, and 256 actors."""
    once, copied = settings.FIGURE_6
    return [
        *_runs("figure 6", [once], SIX_GAMES, [32, 256]),
        *_runs("figure 6", [copied], SIX_GAMES, [32]),
    ]


def figure_7() -> list[Run]:
    """All epsilons, and six. The actor that is plotted, and adds nothing, is the evaluator."""
    return _runs("figure 7", settings.FIGURE_7, SIX_GAMES)


def figure_13() -> list[Run]:
    """Frames a second: 4 times learner.csv's actor_steps_per_second. One game is enough."""
    return _runs("figure 13", ["dqn_replay_1m"], ["atari:pong"], SCALING)


def figure_14() -> list[Run]:
    """Prioritised and uniform, both with both learning rates, of which the better was kept."""
    return _runs(
        "figure 14", [*settings.FIGURE_14, *settings.FIGURE_14_TRIED], NINE_GAMES, SCALING
    )


def appendix_e() -> list[Run]:
    """Batch sizes and learning rates."""
    return _runs("appendix E", [settings.DEFAULT, *settings.APPENDIX_E], SIX_GAMES)


def _runs(
    figure: str,
    names: Iterable[str],
    environments: Iterable[str],
    actors: Iterable[int] = (NUM_ACTORS,),
) -> list[Run]:
    return [
        Run(figure, name, environment, count)
        for name in names for count in actors for environment in environments
    ]
