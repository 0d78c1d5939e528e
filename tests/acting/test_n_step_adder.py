import numpy as np
import pytest
from timesteps import FIRST, LAST, MID, random_experience, timestep

from common.data.transitions import NStepAdder, concatenate
from common.types import NStepTransitions

DISCOUNTS = {0: 0.2, 0.5: 0.2, 1: 0.6}


def run(adder, step_types, rewards, discounts, nested=False):
    """Feeds [T, K] arrays; the observation, the action and the extras all tell (t, k)."""
    num_steps, k = step_types.shape
    finished = []
    # One buffer each, overwritten: whatever the adder does not copy shows.
    where = np.zeros((k, 2), np.float32)
    image = np.zeros((k, 2, 2), np.uint8)
    action = np.zeros((k, 1), np.float32)
    value = np.zeros(k, np.float32)
    for t in range(num_steps):
        where[:, 0], where[:, 1], image[:], action[:] = t, np.arange(k), t % 256, t + 0.5
        value[:] = 100 * t + np.arange(k)
        observation = {"where": where, "image": image} if nested else where
        step = timestep(step_types[t], rewards[t], discounts[t], observation)
        extras = {"value": value}
        if (batch := adder.observe(step, extras)) is not None:
            finished.append(batch)
        adder.act(step, action, extras)
    where[:], image[:], action[:], value[:] = -1, 0, -1, -1
    return finished


def brute_force(step_types, rewards, discounts, n, gamma):
    """The returns and discounts of Ape-X appendix F, one element at a time.

    Returns {(environment, step): (t, t + k, R_{t:t+k}, gamma_{t:t+k})}.
    """
    expected = {}
    num_steps, num_environments = step_types.shape
    for environment in range(num_environments):
        kind, r = step_types[:, environment], rewards[:, environment].astype(float)
        g = gamma * discounts[:, environment].astype(float)
        step = 0
        for t in range(num_steps):
            if kind[t] == LAST:
                continue
            ends = [u for u in range(t + 1, num_steps) if kind[u] == LAST or u == t + n]
            if ends:
                k = ends[0] - t
                n_step_return = sum(
                    np.prod([g[t + j] for j in range(1, i + 1)]) * r[t + i + 1] for i in range(k)
                )
                n_step_discount = np.prod([g[t + j] for j in range(1, k + 1)])
                expected[environment, step] = (t, t + k, n_step_return, n_step_discount)
            step += 1
    return expected


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("n", [1, 3, 5])
@pytest.mark.parametrize("seed", range(5))
def test_random_episodes_against_brute_force(n, seed, nested):
    rng = np.random.default_rng([seed, n])
    k = int(rng.integers(1, 6))
    experience = random_experience(rng, 80, k, DISCOUNTS)
    expected = brute_force(*experience, n=n, gamma=0.9)
    got = concatenate(run(NStepAdder(k, n, 0.9), *experience, nested=nested))

    keys = list(zip(got.environment_index.tolist(), got.step.tolist()))
    assert len(keys) == len(set(keys))
    assert set(keys) == set(expected)
    start, end, n_step_return, n_step_discount = np.array([expected[key] for key in keys]).T
    np.testing.assert_allclose(got.n_step_reward, n_step_return, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(got.n_step_discount, n_step_discount, rtol=1e-6)
    for observation, time in ((got.observation_tm1, start), (got.observation_t, end)):
        if nested:
            np.testing.assert_array_equal(observation["image"][:, 1, 1], time)
            observation = observation["where"]
        np.testing.assert_array_equal(observation, np.stack([time, got.environment_index], 1))
    np.testing.assert_array_equal(got.action_tm1, start[:, None] + 0.5)
    np.testing.assert_array_equal(got.extras_tm1["value"], 100 * start + got.environment_index)
    np.testing.assert_array_equal(got.extras_t["value"], 100 * end + got.environment_index)


@pytest.mark.parametrize("n", [1, 3, 5])
def test_an_environments_transitions_come_in_order_without_gaps(n):
    experience = random_experience(np.random.default_rng(n), 200, 3, DISCOUNTS)
    got = concatenate(run(NStepAdder(3, n, 0.9), *experience))
    for environment in range(3):
        steps = got.step[got.environment_index == environment]
        np.testing.assert_array_equal(steps, np.arange(len(steps)))


def single(rewards, discounts, step_types, **arguments):
    columns = [np.array(x)[:, None] for x in (step_types, rewards, discounts)]
    return concatenate(run(NStepAdder(1, 3, 0.99, **arguments), *columns))


def test_apex_vector_three_rewards():
    # gamma .99, n 3, worked by hand from Ape-X appendix F.
    got = single([0, 1, 1, 1], [1, 1, 1, 1], [FIRST, MID, MID, MID])
    np.testing.assert_allclose(got.n_step_reward, [2.9701], rtol=1e-6)
    np.testing.assert_allclose(got.n_step_discount, [0.970299], rtol=1e-6)


def test_apex_vector_true_end_after_two():
    got = single([0, 1, 1], [1, 1, 0], [FIRST, MID, LAST])
    np.testing.assert_allclose(got.n_step_reward, [1.99, 1], rtol=1e-6)
    np.testing.assert_array_equal(got.n_step_discount, [0, 0])


def test_a_time_limit_bootstraps_with_gamma_to_the_k():
    got = single([0, 1, 1], [1, 1, 1], [FIRST, MID, LAST])
    np.testing.assert_allclose(got.n_step_reward, [1.99, 1], rtol=1e-6)
    np.testing.assert_allclose(got.n_step_discount, [0.99**2, 0.99], rtol=1e-6)
    np.testing.assert_array_equal(got.observation_t[:, 0], [2, 2])


def test_a_discount_of_0_within_an_episode_cuts_and_goes_on():
    got = single([0, 1, 1, 1, 1], [1, 1, 0, 1, 1], [FIRST, MID, MID, MID, MID])
    np.testing.assert_allclose(got.n_step_reward, [1.99, 1], rtol=1e-6)
    np.testing.assert_array_equal(got.n_step_discount, [0, 0])
    np.testing.assert_array_equal(got.observation_t[:, 0], [3, 4])


def test_a_lost_life_cuts_returns_that_go_on_beyond_it():
    # Ape-X as R2D2 describes it: the life is lost at step 2, the game over at step 4.
    got = single([0, 1, 1, 10, 10], [1, 1, 0, 1, 0], [FIRST, MID, MID, MID, LAST])
    np.testing.assert_allclose(got.n_step_reward, [1.99, 1, 19.9, 10], rtol=1e-6)
    np.testing.assert_array_equal(got.n_step_discount, [0, 0, 0, 0])
    np.testing.assert_array_equal(got.observation_tm1[:, 0], [0, 1, 2, 3])
    np.testing.assert_array_equal(got.observation_t[:, 0], [3, 4, 4, 4])


def test_no_transition_crosses_from_one_episode_to_the_next():
    got = single([0, 1, 1, 0, 1, 1], [1, 1, 0, 1, 1, 1], [FIRST, MID, LAST, FIRST, MID, LAST])
    np.testing.assert_array_equal(got.observation_tm1[:, 0], [0, 1, 3, 4])
    np.testing.assert_array_equal(got.observation_t[:, 0], [2, 2, 5, 5])


def test_rewards_are_clipped_before_they_are_summed():
    got = single([0, 200, -7, 0.5], [1, 1, 1, 1], [FIRST, MID, MID, MID], reward_clip=1.0)
    np.testing.assert_allclose(got.n_step_reward, [1 - 0.99 + 0.99**2 * 0.5], rtol=1e-6)
    got = single([0, 200, -7, 0.5], [1, 1, 1, 1], [FIRST, MID, MID, MID], reward_clip=10.0)
    np.testing.assert_allclose(got.n_step_reward, [10 - 0.99 * 7 + 0.99**2 * 0.5], rtol=1e-6)
    got = single([0, 200, -7, 0.5], [1, 1, 1, 1], [FIRST, MID, MID, MID])
    np.testing.assert_allclose(got.n_step_reward, [200 - 0.99 * 7 + 0.99**2 * 0.5], rtol=1e-6)


def test_observations_of_bytes_and_discrete_actions():
    """What an Atari actor adds: compressed pictures of different lengths, actions int32 [K]."""
    k, num_steps = 2, 7
    adder, finished = NStepAdder(k, 3, 0.99), []
    for t in range(num_steps):
        pictures = np.empty(k, object)
        pictures[:] = [bytes([t, index]) * (t + 1) for index in range(k)]
        kinds = [FIRST if t == 0 else MID, LAST if t == 4 else FIRST if t % 5 == 0 else MID]
        step = timestep(kinds, [1, 1], [1, 1], pictures)
        action = np.array([t, 10 + t], np.int32)
        extras = {"q": np.full(k, t, np.float32)}
        if (batch := adder.observe(step, extras)) is not None:
            finished.append(batch)
        adder.act(step, action, extras)
        pictures[:] = None
    got = concatenate(finished)
    assert got.action_tm1.dtype == np.int32
    assert got.observation_tm1.dtype == got.observation_t.dtype == object
    first = got.environment_index == 0
    np.testing.assert_array_equal(got.action_tm1[first], [0, 1, 2, 3])
    np.testing.assert_array_equal(got.action_tm1[~first], [10, 11, 12, 13])
    ends = [3, 4, 5, 6], [3, 4, 4, 4]
    for index, rows in enumerate((first, ~first)):
        assert got.observation_tm1[rows].tolist() == [bytes([t, index]) * (t + 1) for t in range(4)]
        assert got.observation_t[rows].tolist() == [
            bytes([t, index]) * (t + 1) for t in ends[index]
        ]


def test_seed_rl_vector():
    # SEED RL, agents/r2d2/learner_test.py: n 3, gamma .9, rewards 1..7, done at step 4,
    # the value of the last state 700.
    columns = [
        np.array(x)[:, None]
        for x in (
            [FIRST, MID, MID, MID, LAST, FIRST, MID, MID, MID],
            [0, 1, 2, 3, 4, 0, 5, 6, 7],
            [1, 1, 1, 1, 0, 1, 1, 1, 1],
        )
    ]
    got = concatenate(run(NStepAdder(1, 3, 0.9), *columns))
    targets = got.n_step_reward + got.n_step_discount * 700
    assert got.step.tolist() == [0, 1, 2, 3, 4]
    np.testing.assert_allclose(targets[2], 3 + 0.9 * 4, rtol=1e-6)
    np.testing.assert_allclose(targets[4], 5 + 0.9 * 6 + 0.9**2 * 7 + 0.9**3 * 700, rtol=1e-6)


def test_an_abandoned_episode_gives_nothing_more():
    # A reset from outside: FIRST without a LAST before it.
    got = single([0, 1, 0, 1, 1, 1], [1] * 6, [FIRST, MID, FIRST, MID, MID, MID])
    np.testing.assert_array_equal(got.observation_tm1[:, 0], [2])
    np.testing.assert_array_equal(got.observation_t[:, 0], [5])


def test_dtypes():
    got = single([0, 1, 1, 1], [1, 1, 1, 1], [FIRST, MID, MID, MID])
    assert isinstance(got, NStepTransitions)
    assert got.environment_index.dtype == np.int32
    assert got.step.dtype == np.int64
    assert got.n_step_reward.dtype == got.n_step_discount.dtype == np.float32
    assert got.observation_tm1.dtype == got.observation_t.dtype == np.float32


def test_nothing_finished_is_none():
    adder = NStepAdder(2, 3, 0.99)
    start = timestep([FIRST] * 2, [0, 0], [1, 1], np.zeros((2, 1), np.float32))
    assert adder.observe(start, {}) is None


def test_concatenating_nothing_is_refused():
    with pytest.raises(ValueError, match="no transitions"):
        concatenate([])
