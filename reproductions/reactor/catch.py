"""Catch with a ball that vanishes, a memory task that Reactor learns in minutes on one core.

    python -m binaries.reactor --environment=python:reproductions.reactor.catch:make \
        --workdir=runs/catch --max_minutes=2 --num_workers=2 --config.learning_rate=0.001 \
        --config.target_period=100 --config.v_min=-2 --config.v_max=2 \
        --config.replay_capacity=10000 --config.min_replay_size=1000 --evaluation_seconds=10

A ball falls down one of nine columns, one row a step, and is seen in the first four of the nine
rows. The paddle in the last row starts in the middle and moves by one column a step, or stays.
After eight steps the ball is in the last row, and the episode ends with a reward of 1 if the paddle
is there, else -1. From the fifth frame on an agent has to remember the column. The best policy
returns 1; a policy without memory can aim only while it sees the ball.

The environment is not in the paper.
"""

from dm_env import specs
import numpy as np

from common.environments import rendering
from common.environments.episodic_environment import EpisodicEnvironment, StepOutcome

SIDE = 9  # rows and columns
VISIBLE_ROWS = 4
PIXELS = 36  # height and width, the smallest that table 3's convolutions take
_CELL = PIXELS // SIDE
_BALL, _PADDLE = 255, 128
_HIDDEN_BALL = (90, 30, 30)
_STEP_SECONDS = 0.2


class Catch(EpisodicEnvironment):
    """Observations uint8 [36, 36, 1]; actions 0 (move left), 1 (stay) and 2 (move right)."""

    def __init__(self, seed: int):
        super().__init__(SIDE - 1)
        self._random = np.random.default_rng(seed)

    def observation_spec(self) -> specs.Array:
        """Returns the spec of an image."""
        return specs.BoundedArray((PIXELS, PIXELS, 1), np.uint8, 0, 255, name="image")

    def action_spec(self) -> specs.DiscreteArray:
        """Returns the spec of an action."""
        return specs.DiscreteArray(3, dtype=np.int32, name="action")

    def _start(self) -> None:
        self._row, self._column = 0, int(self._random.integers(SIDE))
        self._paddle = SIDE // 2

    def _act(self, action: np.ndarray) -> StepOutcome:
        """Moves the paddle and the ball."""
        self._row += 1
        self._paddle = min(max(self._paddle + int(action) - 1, 0), SIDE - 1)
        if self._row < SIDE - 1:
            return StepOutcome(0.0)
        return StepOutcome(1.0 if self._paddle == self._column else -1.0, has_failed=True)

    def render(self, height: int, width: int) -> np.ndarray:
        """Returns the board with the ball always visible, uint8 [height, width, 3]."""
        board = np.zeros((SIDE, SIDE, 3), np.uint8)
        board[SIDE - 1, self._paddle] = _PADDLE
        board[self._row, self._column] = _BALL if self._row < VISIBLE_ROWS else _HIDDEN_BALL
        return rendering.in_the_middle(board, height, width)

    def control_timestep(self) -> float:
        """Returns the length of a step in seconds, for videos."""
        return _STEP_SECONDS

    def _observe(self) -> np.ndarray:
        cells = np.zeros((SIDE, SIDE, 1), np.uint8)
        cells[SIDE - 1, self._paddle] = _PADDLE
        if self._row < VISIBLE_ROWS:
            cells[self._row, self._column] = _BALL
        return cells.repeat(_CELL, axis=0).repeat(_CELL, axis=1)


make = Catch
