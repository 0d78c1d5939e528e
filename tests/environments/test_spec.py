"""Tests of common.environments.spec."""

import types

import pytest

from common.environments.spec import EnvironmentSpec, require_control, require_discrete


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
