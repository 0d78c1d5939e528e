"""A task that an agent for continuous actions learns in seconds."""

import dm_env
from dm_env import specs
import numpy as np

from common.environments.batch import BatchedEnvironment
from common.roles.evaluator import run_episodes

EPISODE_STEPS = 20
THRESHOLD = 14.0
"""Of about 18 at best: it takes 4 to 6 steps to the target, then each gives 1."""


class Point(dm_env.Environment):
    """A point on a line goes to a target on its other side; a time limit ends the episode.

    Observes (position, target) in these units; an action in [-1, 1] moves by up to 0.2. The reward
    is 1 on the target and falls to 0 at a distance of 1.2, about the farthest where a point begins.
    """

    def __init__(self, seed, units=(1.0, 1.0)):
        self._generator = np.random.default_rng(seed)
        self._units = units
        self._left = 0

    def _observation(self):
        return np.multiply([self._position, self._target], self._units).astype(np.float32)

    def reset(self):
        side = self._generator.choice([-1.0, 1.0])
        self._position = -side * self._generator.uniform(0.4, 0.6)
        self._target = side * self._generator.uniform(0.4, 0.6)
        self._left = EPISODE_STEPS
        return dm_env.restart(self._observation())

    def step(self, action):
        if not self._left:
            return self.reset()
        self._left -= 1
        self._position = float(np.clip(self._position + 0.2 * action[0], -1, 1))
        reward = max(0.0, 1 - abs(self._position - self._target) / 1.2)
        if self._left:
            return dm_env.transition(reward, self._observation())
        return dm_env.truncation(reward, self._observation())

    def observation_spec(self):
        return specs.Array((2,), np.float32)

    def action_spec(self):
        return specs.BoundedArray((1,), np.float32, minimum=-1, maximum=1)


def make_environments(seed, count, units=(1.0, 1.0)):
    """So many points, as a batch."""
    return BatchedEnvironment([Point(seed + i, units) for i in range(count)])


def mean_return(policy, units=(1.0, 1.0)):
    """Of 32 episodes on other seeds than those of training."""
    return run_episodes(make_environments(seed=1_000, count=32, units=units), policy, 32).mean()
