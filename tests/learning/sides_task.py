"""A task from images that Ape-X DQN learns in seconds."""

import dm_env
from dm_env import specs
import numpy as np

from common.environments.batch import BatchedEnvironment

EPISODE_STEPS = 10
LONG_STEPS = 300


class Sides(dm_env.Environment):
    """A square is on the left or on the right of the image: action 0 or 1 is right, 2 never is."""

    def __init__(self, seed, episode_steps=EPISODE_STEPS):
        self._generator = np.random.default_rng(seed)
        self._episode_steps = episode_steps
        self._left = 0

    def _observation(self):
        self._side = self._generator.integers(2)
        image = np.zeros((36, 36, 2), np.uint8)
        row, column = self._generator.integers(0, 24), 20 * self._side
        image[row : row + 10, column : column + 12] = 200
        return image

    def reset(self):
        self._left = self._episode_steps
        return dm_env.restart(self._observation())

    def step(self, action):
        if not self._left:
            return self.reset()
        self._left -= 1
        reward = 5.0 * (action == self._side)  # clipped to 1
        if self._left:
            return dm_env.transition(reward, self._observation())
        return dm_env.termination(reward, self._observation())

    def observation_spec(self):
        return specs.Array((36, 36, 2), np.uint8)

    def action_spec(self):
        return specs.DiscreteArray(3)


def make_long(seed):
    """One of long episodes."""
    return Sides(seed, LONG_STEPS)


def make_environments(seed, count):
    """So many of them, as a batch."""
    return BatchedEnvironment([Sides(seed + i) for i in range(count)])
