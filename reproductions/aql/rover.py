"""Rover with the 3,528 structured actions of section 5.2, on features instead of pixels.

    python -m binaries.aql --environment=python:reproductions.aql.rover:make --workdir=runs/rover

A rover drives to a beacon on a plane and reads it; then a new beacon appears. An action has the
sub-actions of the paper's large set, 7 * 7 * 3 * 3 * 2 * 2 * 2, and each of them matters:

    0 turn      7  `TURNS` degrees
    1 tilt      7  tilts the camera by `TILTS` degrees
    2 strafe    3  to the left, none, to the right
    3 drive     3  backward, none, forward
    4 read      2  reads a beacon within `REACH` to which the camera is tilted, else costs `MISREAD`
    5 jump      2  is needed to move over a rock, and stops the rover elsewhere
    6 crouch    2  is needed to move below a bar, and stops the rover elsewhere

The reward is `PROGRESS` times the distance by which the rover came nearer to the beacon, plus 1 for
reading it. Ahead of the rover is nothing, a rock or a bar, which changes at random. The time limit
ends an episode after 100 steps.

The environment is not in the paper, whose tasks are DeepMind Lab's; we chose the angles. `make_11`
returns it with the 11 actions of `CURATED` instead of all 3,528, as in the paper's small set.
"""

from collections.abc import Sequence
import functools

from dm_env import specs
import numpy as np

from common.environments.episodic_environment import EpisodicEnvironment, StepOutcome

CHOICES = (7, 7, 3, 3, 2, 2, 2)
TURNS = (-60, -25, -10, 0, 10, 25, 60)
TILTS = (-20, -10, -5, 0, 5, 10, 20)
CURATED = (
    (3, 3, 1, 2, 0, 0, 0),  # forward
    (3, 3, 1, 2, 0, 1, 0),  # forward, with a jump
    (3, 3, 1, 2, 0, 0, 1),  # forward, in a crouch
    (0, 3, 1, 1, 0, 0, 0),  # a turn by -60 degrees
    (1, 3, 1, 1, 0, 0, 0),  # by -25
    (5, 3, 1, 1, 0, 0, 0),  # by 25
    (6, 3, 1, 1, 0, 0, 0),  # by 60
    (3, 2, 1, 1, 0, 0, 0),  # a tilt by -5 degrees
    (3, 4, 1, 1, 0, 0, 0),  # by 5
    (3, 3, 1, 1, 1, 0, 0),  # read
    (3, 3, 1, 1, 0, 0, 0),  # nothing
)
"""A small set of actions, as indices of the sub-actions, with which every beacon can be read."""
EPISODE_STEPS = 100
REACH = 0.5
PROGRESS = 0.2
MISREAD = 0.1
_SPEED = 0.5  # distance per step of driving, and of strafing
_NEAREST, _FARTHEST = 1.0, 3.0  # distance of a new beacon
_HIGHEST = 30.0  # largest elevation of a beacon and tilt of the camera, in degrees
_AIM = 3.0  # error of the tilt with which a beacon can still be read, in degrees
_CHANGE = 0.2  # probability per step that what is ahead is drawn again
_ROCK, _BAR = 1, 2


class Rover(EpisodicEnvironment):
    """Observations float32 [8]; actions int32 [7] below `CHOICES`, or an index into `actions`."""

    def __init__(self, seed: int, actions: Sequence[Sequence[int]] = ()):
        super().__init__(EPISODE_STEPS)
        self._actions = actions
        self._random = np.random.default_rng(seed)

    def observation_spec(self) -> specs.Array:
        """Returns the spec: the beacon's position, direction, tilt and nearness; rock and bar."""
        return specs.Array((8,), np.float32, name="features")

    def action_spec(self) -> specs.BoundedArray:
        """Returns the spec of the seven sub-actions, or of the index."""
        if self._actions:
            return specs.DiscreteArray(len(self._actions), name="action")
        most = np.array(CHOICES) - 1
        return specs.BoundedArray(most.shape, np.int32, 0, most, name="action")

    def _start(self) -> None:
        self._tilt, self._ahead = 0.0, 0
        self._place_beacon()

    def _act(self, action: np.ndarray | int) -> StepOutcome:
        """Turns, tilts, moves, then reads."""
        chosen = self._actions[int(action)] if self._actions else action
        turn, tilt, strafe, drive, read, jump, crouch = map(int, chosen)
        before = abs(self._beacon)
        self._beacon *= np.exp(-1j * np.radians(TURNS[turn]))
        self._tilt = float(np.clip(self._tilt + TILTS[tilt], -_HIGHEST, _HIGHEST))
        if (jump, crouch) == (self._ahead == _ROCK, self._ahead == _BAR):
            self._beacon -= _SPEED * complex(drive - 1, 1 - strafe)
        reward = PROGRESS * (before - abs(self._beacon))
        if read:
            if abs(self._beacon) <= REACH and abs(self._height - self._tilt) <= _AIM:
                reward += 1.0
                self._place_beacon()
            else:
                reward -= MISREAD
        if self._random.random() < _CHANGE:
            self._ahead = int(self._random.integers(3))
        return StepOutcome(reward)

    def _place_beacon(self) -> None:
        """Places a beacon, a complex number: real is ahead of the rover, imaginary to its left."""
        direction = self._random.uniform(-np.pi, np.pi)
        self._beacon = self._random.uniform(_NEAREST, _FARTHEST) * np.exp(1j * direction)
        self._height = self._random.uniform(-_HIGHEST, _HIGHEST)

    def _observe(self) -> np.ndarray:
        distance = abs(self._beacon)
        direction = self._beacon / max(distance, 1e-6)
        return np.array(
            [
                self._beacon.real / _FARTHEST,
                self._beacon.imag / _FARTHEST,
                direction.real,
                direction.imag,
                (self._height - self._tilt) / _HIGHEST,
                distance <= REACH,
                self._ahead == _ROCK,
                self._ahead == _BAR,
            ],
            np.float32,
        )


make = Rover
make_11 = functools.partial(Rover, actions=CURATED)
