"""Tests of common.data.unrolls."""

import dm_env
import numpy as np
from timesteps import FIRST, LAST, MID, random_experience

from common.data.unrolls import UnrollAdder


def run(adder, step_types, rewards, discounts):
    """Feeds [N, K] arrays; the observation and the extras tell (n, k) of each timestep."""
    num_timesteps, k = step_types.shape
    unrolls = []
    # One buffer each, overwritten: an array that the adder does not copy shows.
    where, image = np.zeros((k, 2), np.float32), np.zeros((k, 2, 2), np.uint8)
    best = np.zeros((k, 3), np.float32)
    for n in range(num_timesteps):
        where[:, 0], where[:, 1], image[:], best[:] = n, np.arange(k), n, n + 0.5
        step = dm_env.TimeStep(
            step_types[n].astype(np.int32),
            rewards[n].astype(np.float32),
            discounts[n].astype(np.float32),
            {"where": where, "image": image},
        )
        extras = {"best": best}
        if (completed := adder.observe(step, extras)) is not None:
            unrolls.append(completed)
        adder.act(step, np.zeros((k, 1), np.float32), extras)
    where[:], image[:], best[:] = -1, 255, -1
    return unrolls


def test_random_episodes_against_every_single_timestep():
    rng = np.random.default_rng(0)
    count, k, length = 200, 3, 7
    discounts = dict.fromkeys((0, 0.5, 1), 1 / 3)
    step_types, rewards, discounts = random_experience(rng, count, k, discounts)
    unrolls = run(UnrollAdder(k, length), step_types, rewards, discounts)
    assert len(unrolls) == (count - 1) // length  # the last one lacks the reward of its last step
    for number, unroll in enumerate(unrolls):
        np.testing.assert_array_equal(unroll.environment_index, range(k))
        np.testing.assert_array_equal(unroll.number, [number] * k)
        for environment in range(k):
            for t in range(length):
                n = number * length + t
                place = (environment, t)
                np.testing.assert_array_equal(unroll.observation["where"][place], [n, environment])
                assert (unroll.observation["image"][place] == n).all()
                assert (unroll.extras["best"][place] == n + 0.5).all()
                is_last = step_types[n, environment] == LAST
                assert unroll.is_last[place] == is_last
                expected = (0, 0) if is_last else (rewards[n + 1], discounts[n + 1])
                expected = [np.broadcast_to(one, k)[environment] for one in expected]
                assert unroll.reward[place] == expected[0]
                assert unroll.discount[place] == expected[1]
    assert unroll.observation["image"].dtype == np.uint8
    assert unroll.reward.dtype == unroll.discount.dtype == unroll.extras["best"].dtype == np.float32
    assert unroll.is_last.dtype == bool and unroll.environment_index.dtype == np.int32


def test_a_time_limit_and_a_true_end():
    """They differ in the discount of the step that led to the last timestep."""
    step_types = np.array([[FIRST] * 2, [LAST] * 2, [FIRST] * 2, [MID] * 2, [MID] * 2])
    discounts = np.array([[1, 1], [1, 0], [1, 1], [1, 1], [1, 1]])
    rewards = np.array([[0, 0], [2, 2], [0, 0], [3, 3], [4, 4]])
    (unroll,) = run(UnrollAdder(2, 4), step_types, rewards, discounts)
    np.testing.assert_array_equal(unroll.discount, [[1, 0, 1, 1], [0, 0, 1, 1]])
    np.testing.assert_array_equal(unroll.reward, [[2, 0, 3, 4]] * 2)
    np.testing.assert_array_equal(unroll.is_last, [[False, True, False, False]] * 2)


def test_an_episode_without_an_end_is_not_continued_by_the_next_one():
    step_types = np.array([[FIRST], [MID], [FIRST], [MID]])
    (unroll,) = run(UnrollAdder(1, 3), step_types, np.ones((4, 1)), np.ones((4, 1)))
    np.testing.assert_array_equal(unroll.is_last, [[False, True, False]])
    np.testing.assert_array_equal(unroll.discount, [[1, 0, 1]])
    np.testing.assert_array_equal(unroll.reward, [[1, 0, 1]])


def test_of_a_recurrent_state_an_unroll_keeps_the_first():
    adder, buffer, unrolls = UnrollAdder(2, 3), np.zeros((2, 4), np.float32), []
    for n in range(8):
        buffer[:] = n
        step = dm_env.TimeStep(*(np.full(2, x, np.float32) for x in (MID, 0, 1)), buffer)
        extras = {"best": buffer, "state": {"cell": buffer, "pair": (buffer, buffer + 1)}}
        if (completed := adder.observe(step, extras)) is not None:
            unrolls.append(completed)
        adder.act(step, buffer, extras)
    buffer[:] = -1
    assert len(unrolls) == 2
    for number, unroll in enumerate(unrolls):
        assert set(unroll.extras) == {"best"}
        assert unroll.state["cell"].shape == (2, 4)
        assert (unroll.state["cell"] == 3 * number).all()
        assert (unroll.state["pair"][1] == 3 * number + 1).all()
