"""MinAtar's five games (Young and Tian 2019), such as "breakout": Atari in images of 10 x 10.

A channel shows the objects of one kind, uint8 255 where there is an object and 0 elsewhere. Trails
show motion, so images are not stacked. As in MinAtar's paper, all six actions are allowed in every
game, an action is replaced by the previous action with probability 0.1, and games become harder as
they go on. Rewards are the game's own.

Not in MinAtar's paper: an episode that reaches `MAX_STEPS` ends with discount 1, since only its
time has ended. All episodes of Freeway end like this: its engine has that limit and no other end.

The package `minatar` (GPL-3) is an extra, not a dependency: `make minatar`.
"""

import colorsys
import functools
import importlib.util
from types import ModuleType

from dm_env import specs
import numpy as np

from common.environments import rendering
from common.environments.episodic_environment import EpisodicEnvironment, StepOutcome
from common.environments.spec import extra_folder

MAX_STEPS = 2500
"""Maximum steps of an episode: Freeway's limit, also for the other games, which have none."""

STICKY_PROBABILITY = 0.1
"""Probability that the previous action is taken instead (Young and Tian 2019)."""

_GAMES = ("asterix", "breakout", "freeway", "seaquest", "space_invaders")
ENVIRONMENTS = tuple(f"minatar:{game}" for game in _GAMES)
"""Names of environments, as given to `common.environments.make`."""

_ACTIONS = 6
_STEP_SECONDS = 0.05  # as long as MinAtar's own display shows a step


def names() -> list[str]:
    """Returns the names of the games, whether or not the package is installed."""
    return list(_GAMES)


def make(name: str, seed: int) -> "MinAtarEnvironment":
    """Creates the game `name`, one of `names()`; `seed` is in [0, 2**32).

    Raises:
      UnusableEnvironmentError: the package is not installed.
    """
    return MinAtarEnvironment(name, seed)


class MinAtarEnvironment(EpisodicEnvironment):
    """A MinAtar game.

    Observation: uint8 [10, 10, channels]. Action: int32, an index into (none, left, up, right,
    down, fire).
    """

    def __init__(self, name: str, seed: int):
        """Creates the game `name`."""
        super().__init__(MAX_STEPS)
        self._random = np.random.RandomState(seed)
        self._game = _module(name).Env(ramping=True)
        self._game.random = self._random
        self._shape = tuple(self._game.state_shape())
        self._action = 0

    def _start(self) -> None:
        self._game.reset()

    def _act(self, action: int | np.ndarray) -> StepOutcome:
        """Takes `action`, or the previous action again."""
        if self._random.rand() >= STICKY_PROBABILITY:
            self._action = int(action)
        return StepOutcome(*self._game.act(self._action))

    def _observe(self) -> np.ndarray:
        return self._game.state().view(np.uint8) * np.uint8(255)

    def observation_spec(self) -> specs.Array:
        """Returns the spec of the image."""
        return specs.Array(self._shape, np.uint8, name="observation")

    def action_spec(self) -> specs.DiscreteArray:
        """Returns the spec of the action."""
        return specs.DiscreteArray(_ACTIONS, np.int32, name="action")

    def control_timestep(self) -> float:
        """Returns the length of a step in seconds, for films."""
        return _STEP_SECONDS

    def render(self, height: int, width: int) -> np.ndarray:
        """Returns the image with a colour for each channel, uint8 [height, width, 3].

        Where objects overlap, the last channel's is shown. The square image is in the middle of the
        picture.
        """
        channels = self._shape[-1]
        colors = [(0, 0, 0), *(colorsys.hsv_to_rgb(i / channels, 0.8, 1) for i in range(channels))]
        last = np.max(self._game.state() * np.arange(1, channels + 1), axis=2)
        picture = np.round(255 * np.array(colors)).astype(np.uint8)[last]
        return rendering.in_the_middle(picture, height, width)


@functools.cache
def _module(name: str) -> ModuleType:
    """Imports a game without its package, which would also import pyplot and seaborn."""
    folder = extra_folder(
        "minatar",
        f"minatar:{name}",
        'run "make minatar" or ".venv/bin/pip install -e \'.[minatar]\'" ("make setup" does not '
        "install it because of its licence, GPL-3)",
    )
    path = folder / "environments" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"minatar.environments.{name}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
