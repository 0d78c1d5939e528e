"""Tests of common.environments.spec."""

import math
import types

import numpy as np
import pytest

from common import environments
from common.environments.spec import (
    EnvironmentSpec,
    HybridArray,
    largest_reward,
    random_action,
    require_control,
    require_discrete,
)


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


VECTOR = types.SimpleNamespace()
ATARI, MINATAR, MLP = (types.SimpleNamespace(torso=torso) for torso in ("atari", "minatar", "mlp"))


def images(*shape, is_discrete=True):
    return EnvironmentSpec(math.prod(shape), 6, image_shape=shape, is_discrete=is_discrete)


DISCRETE = EnvironmentSpec(4, 2, is_discrete=True)


@pytest.mark.parametrize(
    "require, config, spec",
    [
        (require_control, VECTOR, EnvironmentSpec(67, 21)),
        (require_discrete, MLP, DISCRETE),
        (require_discrete, ATARI, images(84, 84, 4)),
        (require_discrete, ATARI, images(36, 36, 1)),
        (require_discrete, MINATAR, images(10, 10, 10)),
        (require_discrete, MINATAR, images(3, 3, 1)),
    ],
)
def test_what_an_agent_can_see_and_do_is_taken(require, config, spec):
    require(config, spec)


@pytest.mark.parametrize(
    "require, config, spec, words",
    [
        (require_control, VECTOR, images(84, 84, 4), ["images of [84, 84, 4] and 6 discrete act"]),
        (require_control, VECTOR, images(84, 84, 4, is_discrete=False), ["of [84, 84, 4], but"]),
        (require_control, VECTOR, DISCRETE, ["has 2 discrete actions, but", "control:cartpole"]),
        (
            require_control,
            VECTOR,
            EnvironmentSpec(4, 7, action_choices=(5,) * 7),
            ["has actions of 7 integers, but"],
        ),
        (
            require_discrete,
            ATARI,
            EnvironmentSpec(67, 21),
            ["flat observations and 21 continuous actions", "atari:pong"],
        ),
        (
            require_discrete,
            ATARI,
            DISCRETE,
            ["flat observations and 2 discrete actions", "needs images", "--config.torso=mlp"],
        ),
        (
            require_discrete,
            ATARI,
            EnvironmentSpec(4, 2, action_choices=(3, 5)),
            ["observations and actions of 2 integers", "needs discrete actions"],
        ),
        (
            require_discrete,
            ATARI,
            images(84, 84, 4, is_discrete=False),
            ["images of [84, 84, 4] and 6 continuous actions"],
        ),
        (
            require_discrete,
            ATARI,
            images(35, 84, 4),
            ["images of [35, 84, 4]", "at least 36 x 36", "--config.torso=minatar"],
        ),
        (require_discrete, ATARI, images(84, 84, 5), ["[84, 84, 5]", "1 to 4 channels"]),
        (require_discrete, MLP, images(84, 84, 4), ["needs flat observations with --config.tor"]),
        (require_discrete, MINATAR, images(2, 10, 1), ["[2, 10, 1] and ", "at least 3 x 3 pixels"]),
    ],
)
def test_what_an_agent_cannot_see_or_do_is_refused_in_one_line(
    require, config, spec, words, refusal
):
    message = refusal(require, config, spec, error=ValueError)
    assert message.startswith("--environment has ")
    for word in words:
        assert word in message
