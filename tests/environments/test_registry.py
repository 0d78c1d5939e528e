"""Tests of common.environments.registry and spec."""

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
        ("control:cartpole:swingpu", "control:cartpole:swingup"),
        ("control:cartpol:swingup", "control:cartpole:swingup"),
        ("controll:cartpole:swingup", "control:cartpole:swingup"),
        ("cartpole:swingup", "control:cartpole:swingup"),
        ("atari:Pong", "atari:pong"),
        ("atari:ms-pacman", "atari:ms_pacman"),
        ("Atari:breakout", "atari:breakout"),
        ("pong", "atari:pong"),
        ("ALE/Pong-v5", "atari:pong"),
        ("gym:ALE/Pong-v5", "atari:pong"),
        ("gym:PongNoFrameskip-v4", "atari:pong"),
        ("PongNoFrameskip-v4", "atari:pong"),
        ("atari:PongNoFrameskip-v4", "atari:pong"),
        ("atari:MsPacman", "atari:ms_pacman"),
        ("atari:ALE/MsPacman-v5", "atari:ms_pacman"),
        ("atari:Qbert-ramDeterministic-v4", "atari:qbert"),
        ("minatar:brekout", "minatar:breakout"),
        ("minatar:SpaceInvaders-v1", "minatar:space_invaders"),
        ("minatr:freeway", "minatar:freeway"),
        ("gym:HalfCheetah", "gym:HalfCheetah-v4"),
        ("HalfCheetah-v4", "gym:HalfCheetah-v4"),
        ("CartPole-v1", "gym:CartPole-v1"),
        ("gym:Pendulum-v2", "gym:Pendulum-v1"),
        ("acrobot-v3", "gym:Acrobot-v1"),
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
        ("control:123", '"control:acrobot:swingup", or'),
        ("atari:123", '"atari:alien", or'),
    ],
)
def test_a_name_near_nothing_gets_an_example(name, example):
    with pytest.raises(ValueError) as raised:
        environments.make(name, seed=0)
    message = str(raised.value)
    assert "a name looks like " in message and example in message and "\n" not in message


@pytest.mark.parametrize("name", ["atari:pong:frameskip=3", "atari:pong:2", "atari:pong=4"])
def test_a_frame_skip_is_not_part_of_a_name(name):
    with pytest.raises(environments.UnknownEnvironmentError) as raised:
        environments.make_batch(name, [0])
    assert str(raised.value).startswith(
        f'unknown environment "{name}": a game has no parameters, and a step is always 4 frames; '
        'did you mean "atari:pong"'
    )


def test_a_batch_of_any_suite_and_its_frames():
    name = "python:reproductions.d4pg.own_environment:make"
    batch = environments.make_batch(name, [0, 1], evaluation=True)
    assert batch.num_environments == 2 and batch.reset().observation.shape == (2, 2)
    assert environments.frames_per_step(name) == 1
    assert environments.frames_per_step("control:cartpole:swingup") == 1


@pytest.mark.parametrize(
    "name", ["control:cartpole:swingup", "python:reproductions.d4pg.own_environment:make"]
)
def test_only_atari_stacks_frames(name):
    single, four = (environments.make(name, 0, frames=frames) for frames in (1, None))
    assert single.observation_spec() == four.observation_spec()


def test_names_are_sorted_and_distinct():
    names = environments.names()
    assert names == sorted(set(names))


@pytest.mark.parametrize(
    "spec, words",
    [
        (
            EnvironmentSpec(28_224, 6, image_shape=(84, 84, 4), is_discrete=True),
            ["images of [84, 84, 4] and 6 discrete actions"],
        ),
        (EnvironmentSpec(28_224, 6, image_shape=(84, 84, 4)), ["has images of [84, 84, 4], but"]),
        (EnvironmentSpec(4, 2, is_discrete=True), ["has 2 discrete actions, but"]),
        (EnvironmentSpec(4, 7, action_choices=(5,) * 7), ["has actions of 7 integers, but"]),
    ],
)
def test_other_environments_are_refused_in_one_line(spec, words):
    with pytest.raises(ValueError) as raised:
        require_control(None, spec)
    message = str(raised.value)
    assert "\n" not in message and message.startswith("--environment ")
    for word in [*words, "control:cartpole:swingup"]:
        assert word in message


ATARI, MINATAR, MLP = (types.SimpleNamespace(torso=torso) for torso in ("atari", "minatar", "mlp"))


def test_flat_observations_and_continuous_actions_are_taken():
    require_control(None, EnvironmentSpec(67, 21))


@pytest.mark.parametrize(
    "spec, words",
    [
        (EnvironmentSpec(67, 21), ["flat observations and 21 continuous actions", "atari:pong"]),
        (
            EnvironmentSpec(4, 2, is_discrete=True),
            ["flat observations and 2 discrete actions", "needs images", "--config.torso=mlp"],
        ),
        (EnvironmentSpec(4, 2, action_choices=(3, 5)), ["observations and actions of 2 integers"]),
        (
            EnvironmentSpec(28_224, 6, image_shape=(84, 84, 4)),
            ["images of [84, 84, 4] and 6 continuous actions"],
        ),
        (
            EnvironmentSpec(35 * 84 * 4, 6, image_shape=(35, 84, 4), is_discrete=True),
            ["images of [35, 84, 4]", "at least 36 x 36", "--config.torso=minatar"],
        ),
        (
            EnvironmentSpec(84 * 84 * 5, 6, image_shape=(84, 84, 5), is_discrete=True),
            ["images of [84, 84, 5]", "1 to 4 channels"],
        ),
    ],
)
def test_what_has_no_images_or_other_ones_is_refused_in_one_line(spec, words):
    with pytest.raises(ValueError) as raised:
        require_discrete(ATARI, spec)
    message = str(raised.value)
    assert "\n" not in message and message.startswith("--environment has ")
    for word in words:
        assert word in message


def test_an_mlp_takes_flat_observations_and_no_others():
    require_discrete(MLP, EnvironmentSpec(4, 2, is_discrete=True))
    images = EnvironmentSpec(28_224, 6, image_shape=(84, 84, 4), is_discrete=True)
    for spec, words in (
        (images, r"images of \[84, 84, 4\] .* needs flat observations with --config.torso=mlp"),
        (EnvironmentSpec(67, 21), "21 continuous actions, .* needs discrete actions"),
        (EnvironmentSpec(4, 2, action_choices=(3, 5)), "2 integers, .* needs discrete actions"),
    ):
        with pytest.raises(ValueError, match=words):
            require_discrete(MLP, spec)


def test_images_and_discrete_actions_are_taken():
    require_discrete(ATARI, EnvironmentSpec(28_224, 18, image_shape=(84, 84, 4), is_discrete=True))
    require_discrete(ATARI, EnvironmentSpec(36 * 36, 2, image_shape=(36, 36, 1), is_discrete=True))


def test_small_images_of_any_channels_are_taken_by_a_small_network():
    require_discrete(MINATAR, EnvironmentSpec(1000, 6, image_shape=(10, 10, 10), is_discrete=True))
    require_discrete(MINATAR, EnvironmentSpec(9, 6, image_shape=(3, 3, 1), is_discrete=True))
    spec = EnvironmentSpec(20, 6, image_shape=(2, 10, 1), is_discrete=True)
    with pytest.raises(ValueError, match=r"images of \[2, 10, 1\], .* at least 3 x 3 pixels$"):
        require_discrete(MINATAR, spec)


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
def test_a_step_before_the_first_reset_begins_an_episode(name):
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
