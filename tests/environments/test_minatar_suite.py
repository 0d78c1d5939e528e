"""Tests of common.environments.minatar_suite, compared with MinAtar's own environment."""

import importlib.util
import math
import sys
import types

import dm_env
import numpy as np
import pytest

from common import environments
from common.environments import minatar_suite
from common.environments.spec import EnvironmentSpec

is_installed = pytest.mark.skipif(
    importlib.util.find_spec("minatar") is None, reason="needs the extra minatar: make minatar"
)
CHANNELS = {"asterix": 4, "breakout": 4, "freeway": 7, "seaquest": 10, "space_invaders": 6}


def random_actions(size, seed=0):
    return np.random.default_rng(seed).integers(0, 6, size).astype(np.int32)


@pytest.fixture
def original(monkeypatch):
    """MinAtar's own class, imported without what it draws with."""
    for name in ("seaborn", "matplotlib.pyplot"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    from minatar import Environment

    return Environment


@is_installed
@pytest.mark.parametrize("game", minatar_suite.names())
def test_images_rewards_and_ends_are_those_of_minatars_own_environment(game, original):
    ours, theirs = environments.make(f"minatar:{game}", 3), original(game)
    shape = (10, 10, CHANNELS[game])
    assert EnvironmentSpec.of(ours) == EnvironmentSpec(math.prod(shape), 6, shape, is_discrete=True)
    theirs.seed(3)
    theirs.reset()
    timestep, rewards = ours.reset(), 0.0
    ours.observation_spec().validate(timestep.observation)
    for action in random_actions(1000, seed=1):
        np.testing.assert_array_equal(timestep.observation, 255 * theirs.state().astype(np.uint8))
        timestep = ours.step(action)
        reward, is_over = theirs.act(action)
        assert (timestep.reward, timestep.last()) == (reward, is_over)
        assert timestep.discount == (0 if is_over else 1)
        rewards += reward
        if is_over:
            timestep = ours.step(action)
            assert timestep.first()
            theirs.reset()
    assert rewards > 0 or game == "freeway"


@is_installed
@pytest.mark.parametrize("game", ["freeway", "breakout"])
def test_a_long_episode_ends_by_its_time(game, monkeypatch):
    """Freeway's 2,500 steps are its engine's; other games get them from the suite."""
    environment = environments.make(f"minatar:{game}", 0)
    if game == "breakout":
        monkeypatch.setattr(environment._game, "act", lambda action: (1, False))
    environment.reset()
    timesteps = [environment.step(np.int32(0)) for _ in range(2501)]
    assert [timestep.step_type for timestep in timesteps[-2:]] == [dm_env.StepType.LAST, 0]
    assert timesteps[-2].discount == 1 and not any(timestep.last() for timestep in timesteps[:-2])


@is_installed
def test_seeds_decide_the_episodes():
    def play(seed):
        batch = environments.make_batch("minatar:asterix", [seed, seed + 1])
        batch.reset()
        actions = random_actions((200, 2))
        return np.stack([batch.step(action).observation for action in actions])

    first, again, other = play(0), play(0), play(2)
    np.testing.assert_array_equal(first, again)
    assert np.any(first != other) and np.any(first[:, 0] != first[:, 1])


@is_installed
def test_a_picture_has_a_colour_for_each_channel():
    environment = environments.make("minatar:breakout", 0)
    environment.reset()
    for _ in range(3):  # the ball starts behind the bricks
        environment.step(np.int32(0))
    picture = environment.render(20, 32)
    assert picture.shape == (20, 32, 3) and picture.dtype == np.uint8
    assert not picture[:, :6].any() and not picture[:, 26:].any()
    colors = np.unique(picture.reshape(-1, 3), axis=0)
    assert len(colors) == 5  # black, paddle, ball, trail, bricks
    bricks = environment.reset().observation[..., 3] > 0
    shown = environment.render(10, 10)
    assert len(np.unique(shown[bricks], axis=0)) == 1 and shown[bricks].any()
