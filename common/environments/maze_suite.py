"""Random 3D mazes, "goal", "objects" and "room": a stand-in for two levels of DeepMind Lab.

Observations and actions are those of AQL's levels (section 5.2). But the engine is ViZDoom, and
mazes, pictures, speeds and rewards are ours, so returns are not comparable with the Lab's.

- `goal`: one goal, which pays 10 and sends the player to a new start in the same maze.
- `objects`: eight objects, each of which pays 1; after the last one, all return and the player
  moves to a new start.
- `room`: `goal` without walls inside, to be learnt in minutes.

Each episode has a new maze, new textures and new places. It lasts 1,350 steps, the 90 s of the
Lab's levels, and then ends with discount 1.

The package `vizdoom` is an extra, not a dependency: `make maze`. Its wheel says MIT but contains no
licence file, and the parts from ZDoom have their own licences.
"""

from typing import NamedTuple

from dm_env import specs
import numpy as np

from common.environments import doom_engine, lab_actions, rendering
from common.environments.doom_engine import SCREEN, DoomEngine
from common.environments.episodic_environment import EpisodicEnvironment, StepOutcome

MAX_STEPS = 1350
"""Steps of an episode: 90 s of 60 frames a second, four frames a step."""

TICS_PER_SECOND = 35
"""The engine's speed; a step here is four tics."""

_MAZE_SIZE = 11  # cells of a side, border included
_DEGREES_PER_PIXEL = 6 / 57  # turn a tic, for each of the Lab's pixels a frame
_SPEED = 50  # of a move; the engine allows no more

# A button for each integer of an action, in the same order.
_BUTTON_SCALES = np.array([_DEGREES_PER_PIXEL, _DEGREES_PER_PIXEL, _SPEED, _SPEED, 1, 1, 1])


class _Task(NamedTuple):
    room_size: int  # 0: a maze
    num_things: int
    kind: int  # Doom's number of the kind of thing
    reward: float


_SPHERE, _BOTTLE = 2013, 2014
_TASKS = {
    "goal": _Task(0, 1, _SPHERE, 10.0),
    "objects": _Task(0, 8, _BOTTLE, 1.0),
    "room": _Task(5, 1, _SPHERE, 10.0),
}


def names() -> list[str]:
    """Returns the names of the mazes, whether or not the package is installed."""
    return list(_TASKS)


def make(name: str, seed: int) -> "MazeEnvironment":
    """Creates the maze `name`, one of `names()`; `seed` is in [0, 2**32).

    Raises:
      UnusableEnvironmentError: the package or the program `setpriv` is missing.
    """
    return MazeEnvironment(name, seed)


class MazeEnvironment(EpisodicEnvironment):
    """A maze as the player sees it.

    Observation: uint8 [84, 84, 3], RGB. Action: int32 [7], see `lab_actions`.

    Attributes:
      layout: cells of the current maze.
      places: cells of the things to find.
    """

    engine_bytes = 11 * 10**6
    """Memory for one more engine. Other engines share half of the 18 MB that it maps, and of the
    10.7 MB that it shares with this process less than 0.1 MB is ever written."""
    layout: doom_engine.MazeLayout
    places: tuple[doom_engine.Place, ...]

    def __init__(self, name: str, seed: int):
        """Starts the engine of the maze `name`."""
        super().__init__(MAX_STEPS)
        self._task = _TASKS[name]
        self._random = np.random.default_rng(seed)
        self._num_taken = 0
        self.engine = DoomEngine(f"maze:{name}")

    def _start(self) -> None:
        """Creates a new maze."""
        task, random = self._task, self._random
        self.layout = (
            doom_engine.room_layout(task.room_size)
            if task.room_size
            else doom_engine.random_maze(_MAZE_SIZE, random)
        )
        self._theme = doom_engine.random_theme(random)
        chosen = random.choice(len(self.layout.places), task.num_things, replace=False)
        self.places = tuple(self.layout.places[index] for index in chosen)
        self._enter()

    def _act(self, action: np.ndarray) -> StepOutcome:
        """Takes `action` for four tics.

        Raises:
          ValueError: the action does not match `action_spec`.
        """
        buttons = lab_actions.require_valid(action) * _BUTTON_SCALES
        self.engine.advance(buttons, lab_actions.FRAMES_PER_STEP)
        num_taken = self.engine.num_taken
        reward = self._task.reward * (num_taken - self._num_taken)
        self._num_taken = num_taken
        if num_taken == self._task.num_things:
            self._enter()
        return StepOutcome(reward)

    def observation_spec(self) -> specs.Array:
        """Returns the spec of the image."""
        return lab_actions.observation_spec()

    def action_spec(self) -> specs.BoundedArray:
        """Returns the spec of the seven integers."""
        return lab_actions.action_spec()

    def control_timestep(self) -> float:
        """Returns the length of a step in seconds, for films."""
        return lab_actions.FRAMES_PER_STEP / TICS_PER_SECOND

    def render(self, height: int, width: int) -> np.ndarray:
        """Returns the engine's picture, scaled by nearest neighbour to uint8 [height, width, 3]."""
        return rendering.resized(self.engine.screen, height, width)

    def close(self) -> None:
        """Ends the engine."""
        self.engine.close()

    def _enter(self) -> None:
        """Puts the player at a random start of the current maze, with all things in place."""
        free = [place for place in self.layout.places if place not in self.places]
        start = free[self._random.integers(len(free))]
        angle = 90 * int(self._random.integers(4))
        text = doom_engine.maze_text(
            self.layout, self._theme, start, angle, self.places, self._task.kind
        )
        self.engine.start(text, int(self._random.integers(2**31)))
        self._num_taken = 0

    def _observe(self) -> np.ndarray:
        return reduce_by_area(self.engine.screen)


def reduce_by_area(picture: np.ndarray) -> np.ndarray:
    """Returns a picture's means over the areas of 84 x 84 pixels: [120, 160, 3] -> [84, 84, 3].

    Both are uint8. Two matrix products compute it, since an `einsum` takes 24 ms.
    """
    height, width = SCREEN
    side = len(_ROWS)
    rows = _ROWS @ picture.reshape(height, width * 3).astype(np.float32)
    turned = rows.reshape(side, width, 3).transpose(0, 2, 1)  # [84, 3, 160]
    return np.ascontiguousarray(np.rint(turned @ _COLUMNS.T).astype(np.uint8).transpose(0, 2, 1))


def _area_weights(size: int, reduced: int) -> np.ndarray:
    """Returns the shares of `size` pixels in each of `reduced` pixels, [reduced, size]."""
    edges = np.arange(reduced + 1)[:, np.newaxis] * size / reduced
    pixels = np.arange(size)
    overlap = np.minimum(edges[1:], pixels + 1) - np.maximum(edges[:-1], pixels)
    weights = np.maximum(overlap, 0)
    return (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)


_ROWS, _COLUMNS = (
    _area_weights(size, side) for size, side in zip(SCREEN, lab_actions.OBSERVATION_SHAPE)
)
