"""Tests of common.data.episodes."""

import dm_env
import numpy as np
import pytest

from common.data.episodes import EpisodeAdder
from common.environments.spec import UnusableEnvironmentError

FIRST, MID, LAST = 0, 1, 2


def play(adder, script, values=True):
    """Returns what `observe` gives for each timestep of `script`.

    The arrays are overwritten in place after each timestep. Environment k has the observation
    100 k + t, the action -(100 k + t), the value 1000 + 100 k + t, the advantage 2000 + 100 k + t
    and the reward 10 t + k.
    """
    script = np.array(script)
    k = script.shape[1]
    given, observation = [], np.zeros((k, 1), np.float32)
    for t, step_types in enumerate(script):
        observation[:, 0] = 100 * np.arange(k) + t
        extras = {"mean": 2 * observation}
        if values:
            extras["value"] = 1000 + observation[:, 0]
            extras["advantage"] = 2000 + observation[:, 0]
        discounts = np.where(step_types == 3, 0, 1).astype(np.float32)
        timestep = dm_env.TimeStep(
            np.minimum(step_types, LAST).astype(np.int32),
            (10.0 * t + np.arange(k)).astype(np.float32),
            discounts,
            observation,
        )
        action = -observation
        given.append(adder.observe(timestep, extras))
        adder.act(timestep, action, extras)
        for array in (action, *extras.values()):
            array[:] = np.nan
    return given


END = 3  # LAST with discount 0


def test_episodes_of_two_environments():
    given = play(
        EpisodeAdder(2, 100),
        [[FIRST, FIRST], [MID, END], [MID, FIRST], [LAST, MID], [FIRST, MID], [MID, LAST]],
    )
    assert [len(one.episodes) for one in given] == [0, 1, 0, 1, 0, 1]
    assert [one.num_steps for one in given] == [2, 1, 2, 1, 2, 1]  # a LAST row has no action
    (a,), (b,), (c,) = (one.episodes for one in given if one.episodes)
    assert [one.environment_index for one in (a, b, c)] == [1, 0, 1]
    assert [one.terminated for one in (a, b, c)] == [True, False, False]
    np.testing.assert_array_equal(a.states.observation[:, 0], [100, 101])
    np.testing.assert_array_equal(b.states.observation[:, 0], [0, 1, 2, 3])
    np.testing.assert_array_equal(b.states.action[:, 0], [0, -1, -2, 0])
    np.testing.assert_array_equal(b.states.extras["mean"][:, 0], [0, 2, 4, 6])
    np.testing.assert_array_equal(b.values, [1000, 1001, 1002, 1003])
    np.testing.assert_array_equal(b.advantages, [2000, 2001, 2002])
    np.testing.assert_array_equal(b.rewards, [10, 20, 30])
    np.testing.assert_array_equal(c.rewards, [31, 41, 51])
    assert set(b.states.extras) == {"mean"}
    for leaf in (b.rewards, b.values, b.advantages, b.states.action):
        assert leaf.dtype == np.float32


def test_a_step_counts_when_its_action_is_executed():
    given = play(EpisodeAdder(1, 100), [[FIRST], [MID], [LAST], [FIRST], [END]])
    assert np.cumsum([one.num_steps for one in given]).tolist() == [1, 2, 2, 3, 3]


def test_an_episode_that_restarts_without_last_is_dropped():
    given = play(EpisodeAdder(1, 100), [[FIRST], [MID], [FIRST], [END]])
    (episode,) = given[-1].episodes
    np.testing.assert_array_equal(episode.states.observation[:, 0], [2, 3])
    np.testing.assert_array_equal(episode.rewards, [30])


def test_without_values_and_advantages_they_are_zeros():
    (episode,) = play(EpisodeAdder(1, 100), [[FIRST], [MID], [END]], values=False)[-1].episodes
    np.testing.assert_array_equal(episode.values, np.zeros(3))
    np.testing.assert_array_equal(episode.advantages, np.zeros(2))


@pytest.mark.parametrize("step_type, discount", [(MID, 0.0), (MID, 0.9), (LAST, 0.5)])
def test_a_discount_that_episodes_do_not_have_is_refused(step_type, discount):
    adder, observation = EpisodeAdder(2, 100), np.zeros((2, 1), np.float32)
    ones = np.ones(2, np.float32)
    first = dm_env.TimeStep(np.int32([FIRST, FIRST]), 0 * ones, ones, observation)
    adder.observe(first, {})
    adder.act(first, observation, {})
    discounts = np.float32([1.0, discount])
    with pytest.raises(UnusableEnvironmentError, match=f"a discount of {discount:g}: "):
        adder.observe(dm_env.TimeStep(np.int32([MID, step_type]), ones, discounts, observation), {})
