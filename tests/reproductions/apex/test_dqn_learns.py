"""All the parts of Ape-X DQN together learn a small task from images in seconds, in one process."""

from one_process import OneProcessRun
import pytest
from sides_task import EPISODE_STEPS, FlatSides, Sides, make_environments

from common.roles.evaluator import run_episodes
from reproductions.apex.dqn.config import DQNConfig
from reproductions.apex.dqn.dqn import ApexDQN

NUM_CALLS = 80


def share_of_right_actions(policy, kind):
    """In 16 episodes on other seeds than those of training."""
    returns = run_episodes(make_environments(seed=1_000, count=16, kind=kind), policy, 16)
    return returns.mean() / (5 * EPISODE_STEPS)


@pytest.mark.parametrize("kind, torso", [(Sides, "atari"), (FlatSides, "mlp")])
def test_mini_run_learns(kind, torso):
    config = DQNConfig(
        torso=torso,
        discount=0.5,
        batch_size=32,
        learning_rate=5e-4,
        target_period=20,
        replay_capacity=500,
        min_replay_size=200,
        removal_period=10,
        send_batch=1,
        samples_per_insert=4.0,
        evaluation_epsilon=0.0,
    )
    agent = ApexDQN(config)
    run = OneProcessRun(agent, make_environments(0, 8, kind))
    assert share_of_right_actions(run.evaluator(16), kind) < 0.9
    run.train(NUM_CALLS)
    run.memory.check()
    statistics = run.memory.statistics()
    assert int(run.learner.steps) == NUM_CALLS
    # Removed down to 500 every 10 steps, in which 10 * 32 / 4 are added.
    assert statistics.inserted > 700 and 500 <= statistics.items <= 600
    assert share_of_right_actions(run.evaluator(16), kind) > 0.95
