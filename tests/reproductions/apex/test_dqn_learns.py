"""All the parts of Ape-X DQN together learn a small task from images in seconds, in one process."""

import dm_env
from dm_env import specs
import numpy as np

from common.acting.evaluate import run_episodes
from common.environments.batch import BatchedEnvironment
from one_process import OneProcessRun
from reproductions.apex.dqn.agent import ApexDQN
from reproductions.apex.dqn.config import DQNConfig

EPISODE_STEPS = 10
NUM_CALLS = 80


class Sides(dm_env.Environment):
    """A square is on the left or on the right of the image: action 0 or 1 is right, 2 never is."""

    def __init__(self, seed):
        self._generator = np.random.default_rng(seed)
        self._left = 0

    def _observation(self):
        self._side = self._generator.integers(2)
        image = np.zeros((36, 36, 2), np.uint8)
        row, column = self._generator.integers(0, 24), 20 * self._side
        image[row : row + 10, column : column + 12] = 200
        return image

    def reset(self):
        self._left = EPISODE_STEPS
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


def make_environments(seed, count):
    return BatchedEnvironment([Sides(seed + i) for i in range(count)])


def share_of_right_actions(policy):
    """In 16 episodes on other seeds than those of training."""
    returns = run_episodes(make_environments(seed=1_000, count=16), policy, 16)
    return returns.mean() / (5 * EPISODE_STEPS)


def test_mini_run_learns():
    config = DQNConfig(
        discount=0.5, batch_size=32, learning_rate=5e-4, target_period=20, replay_capacity=500,
        min_replay_size=200, removal_period=10, send_batch=1, samples_per_insert=4.0,
        evaluation_epsilon=0.0,
    )
    agent = ApexDQN(config)
    run = OneProcessRun(agent, make_environments(0, 8))
    assert share_of_right_actions(run.evaluator(16)) < 0.9
    run.train(NUM_CALLS)
    run.memory.check()
    statistics = run.memory.statistics()
    assert int(run.learner.steps) == NUM_CALLS
    # Removed down to 500 every 10 steps, in which 10 * 32 / 4 are added.
    assert statistics.inserted > 700 and 500 <= statistics.items <= 600
    assert share_of_right_actions(run.evaluator(16)) > 0.95
