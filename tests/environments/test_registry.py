"""Tests of common.environments.registry and spec."""

import math
import types

import numpy as np
import pytest

from common import environments
from common.environments import registry
from common.environments.spec import (
    EnvironmentSpec,
    UnusableEnvironmentError,
    require_control,
    require_discrete,
)

EXAMPLES = (
    '"atari:adventure", "control:acrobot:swingup", "dmlab:explore_goal_locations_small", '
    '"flow:cylinder", "gym:Ant-v4", "hand:catch", "maze:goal", "minatar:asterix", '
    '"parkour:humanoid", or '
)


@pytest.mark.parametrize(
    "name, near",
    [
        ("control:cartpol:swingup", "control:cartpole:swingup"),
        ("controll:cartpole:swingup", "control:cartpole:swingup"),
        ("cartpole:swingup", "control:cartpole:swingup"),
        ("atari:Pong", "atari:pong"),
        ("Atari:breakout", "atari:breakout"),
        ("pong", "atari:pong"),
        ("ALE/Pong-v5", "atari:pong"),
        ("gym:ALE/Pong-v5", "atari:pong"),
        ("PongNoFrameskip-v4", "atari:pong"),
        ("atari:ALE/MsPacman-v5", "atari:ms_pacman"),
        ("atari:Qbert-ramDeterministic-v4", "atari:qbert"),
        ("minatar:SpaceInvaders-v1", "minatar:space_invaders"),
        ("minatr:freeway", "minatar:freeway"),
        ("gym:HalfCheetah", "gym:HalfCheetah-v4"),
        ("gym:half_cheetah", "gym:HalfCheetah-v4"),
        ("HalfCheetah-v4", "gym:HalfCheetah-v4"),
        ("acrobot-v3", "gym:Acrobot-v1"),
        ("parkour:planer", "parkour:planar"),
        ("hand:catsh", "hand:catch"),
        ("dmlab:explore_goal_locations", "dmlab:explore_goal_locations_small"),
        ("flow:cylindre_16", "flow:cylinder_16"),
    ],
)
def test_an_unknown_name_gets_near_ones_on_one_line(name, near):
    with pytest.raises(environments.UnknownEnvironmentError) as raised:
        environments.make(name, seed=0)
    message = str(raised.value)
    assert message.startswith(f'unknown environment "{name}": did you mean ')
    assert f'"{near}"' in message
    assert "\n" not in message


@pytest.mark.parametrize(
    "name, example",
    [
        ("", EXAMPLES),
        ("xyzzy", EXAMPLES),
        ("control:", '"control:acrobot:swingup", or "python:MODULE:FUNCTION"'),
        ("atari:123", '"atari:alien", or'),
    ],
)
def test_a_name_near_nothing_gets_an_example(name, example):
    with pytest.raises(ValueError) as raised:
        environments.make(name, seed=0)
    message = str(raised.value)
    assert "a name looks like " in message and example in message and "\n" not in message


@pytest.mark.parametrize("name", ["atari:pong:frameskip=3", "atari:pong=4"])
def test_a_frame_skip_is_not_part_of_a_name(name):
    with pytest.raises(environments.UnknownEnvironmentError) as raised:
        environments.make_batch(name, [0])
    assert str(raised.value).startswith(
        f'unknown environment "{name}": a game has no parameters, and a step is always 4 frames; '
        'did you mean "atari:pong"'
    )


def test_a_batch_of_any_suite_and_its_frames():
    name = "python:reproductions.d4pg.own_environment:make"
    batch = environments.make_batch(name, [0, 1], evaluation=True, frames=1)
    assert batch.num_environments == 2 and batch.reset().observation.shape == (2, 2)
    assert environments.frames_per_step(name) == 1
    assert environments.frames_per_step("atari:pong") == environments.frames_per_step("maze:x") == 4


def test_names_are_sorted_and_distinct():
    names = environments.names()
    assert names == sorted(set(names))


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
        (require_discrete, MINATAR, images(2, 10, 1), ["[2, 10, 1], ", "at least 3 x 3 pixels"]),
    ],
)
def test_what_an_agent_cannot_see_or_do_is_refused_in_one_line(require, config, spec, words):
    with pytest.raises(ValueError) as raised:
        require(config, spec)
    message = str(raised.value)
    assert "\n" not in message and message.startswith("--environment has ")
    for word in words:
        assert word in message


FRESH = (
    "atari:pong",
    "control:cartpole:swingup",
    "dmlab:explore_goal_locations_small",
    "flow:cylinder_8",
    "gym:Hopper-v4",
    "hand:catch",
    "maze:goal",
    "minatar:breakout",
    "parkour:planar",
    "python:reproductions.d4pg.own_environment:make",
    "python:reproductions.reactor.catch:make",
)


def test_every_suite_is_among_the_fresh():
    assert {name.partition(":")[0] for name in FRESH} == set(registry.suites())


@pytest.mark.parametrize("name", FRESH)
def test_a_step_before_the_first_reset_begins_an_episode(name, eager):
    try:
        single, batch = environments.make(name, 0), environments.make_batch(name, [0, 1])
    except UnusableEnvironmentError as error:
        pytest.skip(str(error))
    spec = single.action_spec()
    action = np.zeros(spec.shape, spec.dtype)
    assert single.step(action).first() and not single.step(action).first()
    assert batch.step(np.stack([action] * 2)).step_type.tolist() == [0, 0]
    single.close()
    batch.close()
