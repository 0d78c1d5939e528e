"""Example of your own environment for D4PG: a mass on a rail that has to stop in the middle.

    python -m binaries.d4pg --environment=python:reproductions.d4pg.own_environment:make \
        --workdir=runs/point_mass --max_minutes=1

To write your own, copy this file to a module below the directory in which you start the program,
and pass `--environment=python:my_package.my_module:make`. D4PG needs a `dm_env.Environment` whose
observation is a float array or a dict of float arrays, and whose action is a float array with any
finite bounds.

The best possible return is 86.88: an episode has 100 steps with a reward of at most 1 each, and
reaching the middle takes 30 of them.
"""

import dm_env
from dm_env import specs
import numpy as np

STEP_SECONDS = 0.05
EPISODE_STEPS = 100
MAX_FORCE = 2.0  # newton, on a mass of 1 kg
RAIL_END = 2.0  # metres from the middle
BEST_RETURN = 86.88


class PointMass(dm_env.Environment):
    """A mass that starts at rest 1 m left or right of the middle; the reward is 1 - |position|."""

    def __init__(self, seed: int):
        # All random numbers must come from the seed, which differs between actors.
        self._random = np.random.default_rng(seed)
        self._steps_left = 0

    def observation_spec(self):
        """Returns a dict of arrays; a single array works too."""
        number = specs.Array((1,), np.float32)
        return {"position": number, "velocity": number}

    def action_spec(self):
        """Returns bounds in newton, to which the agent's actions in [-1, 1] are mapped."""
        return specs.BoundedArray((1,), np.float32, minimum=-MAX_FORCE, maximum=MAX_FORCE)

    def reset(self) -> dm_env.TimeStep:
        """Starts an episode."""
        self._position = self._random.choice([-1.0, 1.0])
        self._velocity = 0.0
        self._steps_left = EPISODE_STEPS
        return dm_env.restart(self._observation())

    def step(self, action: np.ndarray) -> dm_env.TimeStep:
        """Applies a force for one step; after an episode's last step, starts the next episode."""
        if not self._steps_left:
            return self.reset()
        self._steps_left -= 1
        self._velocity += STEP_SECONDS * float(action[0])
        self._position += STEP_SECONDS * self._velocity
        if abs(self._position) > RAIL_END:
            self._position = float(np.clip(self._position, -RAIL_END, RAIL_END))
            self._velocity = 0.0
        reward = 1 - abs(self._position)
        if self._steps_left:
            return dm_env.transition(reward, self._observation())
        # The time limit is not a true end: a truncation keeps the discount at 1, so that the agent
        # bootstraps. If the task itself ends (fallen over, arrived), return dm_env.termination.
        return dm_env.truncation(reward, self._observation())

    def _observation(self):
        return {"position": np.array([self._position]), "velocity": np.array([self._velocity])}

    # The rest is optional; only `binaries.evaluate --video` needs it.

    def control_timestep(self) -> float:
        """Returns the length of a step in seconds, which sets the speed of a video."""
        return STEP_SECONDS

    def render(self, height: int, width: int) -> np.ndarray:
        """Returns a picture of the current state, uint8 [height, width, 3]."""
        picture = np.full((height, width, 3), 255, np.uint8)
        picture[:, width // 2] = (180, 180, 180)
        x = int((self._position / RAIL_END + 1) / 2 * (width - 1))
        y, half = height // 2, height // 16
        picture[y - half : y + half, max(0, x - half) : x + half] = (30, 90, 200)
        return picture


def make(seed: int) -> PointMass:
    """Returns an environment; `--environment` names this function, called once for each actor."""
    return PointMass(seed)
