"""Tests of common.data.rollouts, fed by hand."""

import numpy as np
import pytest
from timesteps import FIRST, LAST, MID, random_experience, timestep

from common.data.rollouts import RolloutAdder

GAMMA, LAMBDA = 0.9, 0.8


def experience(num_timesteps, k, seed=0, ends=1.0):
    """Returns T timesteps of k environments and the policy's values at them."""
    rng = np.random.default_rng(seed)
    columns = random_experience(rng, num_timesteps, k, {0.0: 0.3, 1.0: 0.7}, ends)
    numbers = np.arange(num_timesteps * k, dtype=np.float32).reshape(num_timesteps, k, 1)
    return [timestep(*row) for row in zip(*columns, numbers)], rng.normal(size=[num_timesteps, k])


def feed(adder, timesteps, values):
    """Returns all rollouts; versions are the number of those before."""
    found, version = [], 0
    for step, value in zip(timesteps, values):
        rollout = adder.observe(step, extras(value, version))
        if rollout is not None:
            found.append(rollout)
            version += 1
        # As the loop does: the extras of the policy that acts, which is another one after a cut.
        adder.act(step, 10 * step.observation, extras(value, version))
    return found


def extras(value, version):
    full = np.full(len(value), version, np.float32)
    return {"value": value.astype(np.float32), "version": full, "mean": full[:, None]}


def expected(timesteps, values, begin, end, gamma=GAMMA, lambda_=LAMBDA):
    """Returns the advantages of the steps from begin to end by observation: the plain sums."""
    found = {}
    for k in range(len(timesteps[0].step_type)):
        for t in range(begin, end):
            if timesteps[t + 1].step_type[k] == FIRST:
                continue
            total, weight = 0.0, 1.0
            for after in range(t + 1, end + 1):
                step = timesteps[after]
                if step.step_type[k] == FIRST:
                    break
                error = step.reward[k] + gamma * step.discount[k] * values[after, k]
                total += weight * (error - values[after - 1, k])
                weight *= gamma * lambda_ * step.discount[k]
                if step.step_type[k] == LAST:
                    break
            found[float(timesteps[t].observation[k, 0])] = total
    return found


@pytest.mark.parametrize("ends", [1.0, 0.5])
def test_the_advantages_are_sums_within_fragments(ends):
    timesteps, values = experience(41, 3, ends=ends)
    (rollout,) = feed(RolloutAdder(3, 60, GAMMA, LAMBDA), timesteps, values)[:1]
    steps = rollout.steps
    observations = steps.states.observation[:, 0]
    end = int(observations[-1]) // 3 + 1
    wanted = expected(timesteps, values, 0, end)
    assert len(observations) == 60 and 60 <= rollout.num_steps == len(wanted) <= 62
    np.testing.assert_allclose(steps.advantages, [wanted[one] for one in observations], rtol=2e-4)
    np.testing.assert_array_equal(steps.states.action[:, 0], 10 * observations)
    rows = observations.astype(int) // 3, observations.astype(int) % 3
    np.testing.assert_allclose(steps.values, values[rows], rtol=1e-6)
    rewards = np.array([step.reward for step in timesteps[1:]])
    np.testing.assert_array_equal(steps.rewards, rewards[rows])
    assert (np.diff(observations) > 0).all()  # in the order of time


def test_rollouts_follow_without_gap_and_have_one_version():
    timesteps, values = experience(201, 1, seed=1)
    rollouts = feed(RolloutAdder(1, 25, GAMMA, LAMBDA), timesteps, values)
    assert len(rollouts) >= 6
    is_step = [after.step_type[0] != FIRST for after in timesteps[1:]]
    observations = np.concatenate([one.steps.states.observation[:, 0] for one in rollouts])
    np.testing.assert_array_equal(observations, np.flatnonzero(is_step)[: len(observations)])
    for version, rollout in enumerate(rollouts):
        assert rollout.num_steps == 25
        assert rollout.version.dtype == np.int64 and (rollout.version == version).all()
        assert (rollout.steps.states.extras["mean"] == version).all()


def test_a_true_end_a_time_limit_and_a_cut():
    """V of the last state counts but after a true end."""
    ones = np.ones((1, 1), np.float32)

    def one(step_type, reward=0.0, discount=1.0):
        return timestep([step_type], [reward], [discount], ones)

    timesteps = [one(FIRST), one(LAST, 1, 0), one(FIRST), one(LAST, 2, 1), one(FIRST), one(MID, 3)]
    values = np.array([[10.0], [20], [30], [40], [50], [60]])
    (rollout,) = feed(RolloutAdder(1, 3, GAMMA, LAMBDA), timesteps, values)
    errors = [1 - 10, 2 + 0.9 * 40 - 30, 3 + 0.9 * 60 - 50]
    np.testing.assert_allclose(rollout.steps.advantages, errors, rtol=1e-6)


def test_unrolls_within_a_rollout_take_the_value_for_the_rest():
    timesteps, values = experience(30, 2, seed=2)
    adder = RolloutAdder(2, 24, GAMMA, 1.0, unroll_length=4)
    steps = feed(adder, timesteps, values)[0].steps
    observations = steps.states.observation[:, 0]
    end = int(observations[-1]) // 2 + 1
    wanted = {}
    for begin in range(0, end, 4):
        wanted |= expected(timesteps, values, begin, min(begin + 4, end), lambda_=1.0)
    np.testing.assert_allclose(steps.advantages, [wanted[one] for one in observations], rtol=2e-4)
