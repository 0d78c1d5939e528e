"""Largest rewards by name, compared with what environments give."""

import math

import numpy as np
import pytest

from common import environments
from common.environments.spec import HybridArray, largest_reward, random_action


@pytest.mark.parametrize(
    "name, expected",
    [
        ("control:cartpole:swingup", 1),
        ("control:lqr:lqr_2_1", math.inf),  # its costs have no bound
        ("gym:InvertedPendulum-v4", 1),
        ("gym:InvertedDoublePendulum-v5", 9.36),
        ("gym:HalfCheetah-v4", math.inf),
        ("flow:cylinder", math.inf),
    ],
)
def test_largest_rewards(name, expected):
    assert largest_reward(name) == expected


@pytest.mark.parametrize("task", ["InvertedPendulum", "InvertedDoublePendulum", "CartPole"])
def test_rewards_come_near_the_largest_and_never_exceed_it(task):
    name = f"gym:{task}-v1" if task == "CartPole" else f"gym:{task}-v4"
    environment = environments.make(name, 0)
    rng, rewards = np.random.default_rng(0), []
    for _ in range(300):
        drawn = rng.integers(2) if task == "CartPole" else 0.1 * rng.normal(size=1)
        timestep = environment.step(drawn)
        rewards.append(timestep.reward or 0)
    assert 0.99 * largest_reward(name) < max(rewards) <= largest_reward(name)


def test_a_random_hybrid_action_has_whole_numbers_where_it_is_finite():
    spec, generator = HybridArray([3, 0]), np.random.default_rng(0)
    actions = np.array([random_action(spec, generator) for _ in range(100)])
    assert actions.dtype == np.float32 and set(actions[:, 0]) == {0, 1, 2}
    assert np.ptp(actions[:, 1]) > 1.5 and np.all(abs(actions[:, 1]) <= 1)
