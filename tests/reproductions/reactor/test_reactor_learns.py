"""All the parts of Reactor together learn a small task of memory in seconds, in one process."""

from dm_env import specs
import numpy as np
from one_process import OneProcessRun

from common.environments.batch import BatchedEnvironment
from common.environments.episodic_environment import EpisodicEnvironment, StepOutcome
from common.roles.evaluator import run_episodes
from reproductions.reactor.config import ReactorConfig
from reproductions.reactor.reactor import Reactor

NUM_CALLS = 70
NUM_ACTIONS = 3
"""Actions of an episode."""


class Recall(EpisodicEnvironment):
    """A square is on the left or on the right of the first image; the others are blank.

    The return is 1 if every action names its side, else -1. Without memory it is at most 0 on
    average.
    """

    def __init__(self, seed):
        super().__init__(NUM_ACTIONS)
        self._generator = np.random.default_rng(seed)

    def _start(self):
        self._left, self._is_right = NUM_ACTIONS, True
        self._side = int(self._generator.integers(2))

    def _act(self, action):
        self._left -= 1
        self._is_right &= bool(action == self._side)
        if self._left:
            return StepOutcome(0.0)
        return StepOutcome(1.0 if self._is_right else -1.0, has_failed=True)

    def _observe(self):
        image = np.zeros((10, 10, 1), np.uint8)
        if self._left == NUM_ACTIONS:
            image[2:8, 5 * self._side : 5 * self._side + 4] = 255
        return image

    def observation_spec(self):
        return specs.Array((10, 10, 1), np.uint8)

    def action_spec(self):
        return specs.DiscreteArray(2)


def make_environments(seed, count):
    return BatchedEnvironment([Recall(seed + index) for index in range(count)])


def mean_return(policy):
    """In 64 episodes on other seeds than those of training."""
    return run_episodes(make_environments(1_000, 16), policy, 64).mean()


def test_mini_run_learns_what_only_memory_can():
    config = ReactorConfig(
        torso="minatar",
        sequence_length=9,
        batch_size=8,
        learning_rate=6e-4,
        target_period=20,
        v_min=-1.5,
        v_max=1.5,
        num_atoms=13,
        min_replay_size=200,
        replay_capacity=400,
    )
    run = OneProcessRun(Reactor(config), make_environments(0, 4))
    assert mean_return(run.evaluator(16)) < 0.5
    run.train(NUM_CALLS)
    run.memory.check()
    statistics = run.memory.statistics()
    assert int(run.learner.steps) == NUM_CALLS
    assert statistics.inserted > 450 and statistics.items < 400
    assert mean_return(run.evaluator(16)) > 0.6
