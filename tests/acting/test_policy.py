"""Tests of common.acting.policy."""

import numpy as np
import pytest

from common import environments
from common.acting.policy import (
    EpsilonGreedy,
    ObservationRecorder,
    OrnsteinUhlenbeckNoise,
    Policy,
    Proposals,
    ProposingPolicy,
    epsilon_ladder,
    require_proposals,
    truncated_normal,
)
from common.environments.batch import BatchedEnvironment
from common.roles.evaluator import run_episodes

OWN = "python:reproductions.d4pg.own_environment:make"


# Noise.


@pytest.mark.parametrize("sigma, theta", [(0.2, 0.15), (0.3, 1.0)])
def test_noise_is_what_it_keeps_and_standard_normal_numbers_times_sigma(sigma, theta):
    noise, generator = OrnsteinUhlenbeckNoise(sigma, theta, 7, clip=False), np.random.default_rng(7)
    action = np.full((1_000, 2), 0.5, np.float32)
    state = noise.initial_state(action.shape)
    assert not state.any()
    for _ in range(3):
        noisy, after = noise(action, state)
        assert noisy.dtype == after.dtype == np.float32
        new = sigma * generator.standard_normal(action.shape, np.float32)
        np.testing.assert_allclose(after, new + (1 - theta) * state, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(noisy, 0.5 + after, rtol=1e-6)
        state = after
    assert np.abs(noisy).max() > 1 and np.all(action == 0.5)


def test_truncated_normals_are_drawn_again_not_clipped():
    samples = truncated_normal(np.random.default_rng(0), (1_000, 1_000), 3.0)
    assert samples.dtype == np.float32 and samples.shape == (1_000, 1_000)
    assert 2.99 < np.abs(samples).max() <= 3
    assert not np.any(np.abs(samples) == 3)
    # 0.9866 of the truncated normal; 0.9894 if what is beyond were drawn uniformly.
    assert samples.std(dtype=np.float64) == pytest.approx(0.9866, abs=0.0012)
    assert np.mean(np.abs(samples) > 2.5) == pytest.approx((0.012419 - 0.002700) / 0.9973, rel=0.05)


def test_a_noisy_action_is_clipped_but_the_state_is_not():
    noise = OrnsteinUhlenbeckNoise(3.0, 0.1, seed=0)
    action = np.zeros((100, 2), np.float32)
    noisy, state = noise(action, noise.initial_state(action.shape))
    assert np.abs(noisy).max() == 1 and np.abs(state).max() > 1
    np.testing.assert_array_equal(noisy, np.clip(state, -1, 1))


# Epsilon-greedy.


def test_ladder_of_eight():
    """Ape-X section 4.1: epsilon 0.4, alpha 7."""
    expected = [0.4, 0.16, 0.064, 0.0256, 0.01024, 0.004096, 0.001638, 0.000655]
    np.testing.assert_allclose(epsilon_ladder(0.4, 7.0, 8), expected, atol=5e-7)
    assert epsilon_ladder(0.4, 7.0, 1).tolist() == [0.4]  # of a single actor


def test_each_row_explores_by_its_own_epsilon():
    """A random action may be the greedy one, so epsilon 1 takes it once in four times."""
    q = np.tile(np.array([0, 1, 0, 0], np.float32), (3, 1))
    explore, again = (EpsilonGreedy([1.0, 0.4, 0.0], seed=1) for _ in range(2))
    actions = np.stack([explore(q) for _ in range(4_000)])
    np.testing.assert_array_equal(actions[:20], [again(q) for _ in range(20)])
    assert actions.dtype == np.int32 and np.all(actions[:, 2] == 1)
    np.testing.assert_allclose((actions != 1).mean(axis=0), [0.75, 0.3, 0.0], atol=0.03)
    shares = np.bincount(actions[:, 0], minlength=4) / 4_000
    np.testing.assert_allclose(shares, 0.25, atol=0.03)


# Policies that propose, and what is recorded of an episode.


class Pushing(Policy):
    """Pushes to the right, and knows what it was called with."""

    def load(self, flat):
        self.parameters = flat

    def initial_state(self, num_environments):
        return np.zeros(num_environments)

    def __call__(self, observation, state):
        action = np.full((len(observation), 1), 0.5, np.float32)
        return action, state + 1, {"extra": observation[:, 0]}


class Proposing(Pushing, ProposingPolicy):
    def require_proposals(self):
        raise ValueError("none today")

    def propose(self, observation):
        return Proposals(np.zeros(3), (np.full(5, 0.2),), np.array([4]))


def test_a_recorder_acts_as_its_policy_and_keeps_the_first_environments_observations():
    policy = Pushing()
    recorder = ObservationRecorder(policy)
    recorder.load(np.ones(2))
    assert policy.parameters.tolist() == [1, 1]

    def batch():
        return BatchedEnvironment([environments.make(OWN, seed) for seed in (1, 2)])

    assert np.array_equal(run_episodes(batch(), recorder, 2), run_episodes(batch(), policy, 2))
    plain = environments.make(OWN, 1)
    expected = [plain.reset()] + [plain.step(np.full(1, 0.5, np.float32)) for _ in range(99)]
    assert len(recorder.observations) == 100
    for recorded, timestep in zip(recorder.observations, expected):
        np.testing.assert_array_equal(recorded, timestep.observation)


def test_what_is_kept_is_a_copy():
    recorder = ObservationRecorder(Pushing())
    observation = np.zeros((1, 2), np.float32)
    recorder(observation, recorder.initial_state(1))
    observation += 1
    assert recorder.observations[0].tolist() == [0, 0]


@pytest.mark.parametrize(
    "policy, words",
    [(Pushing(), "the policy does not propose actions"), (Proposing(), "none today")],
)
def test_a_policy_without_proposals_is_refused(policy, words):
    with pytest.raises(ValueError, match=words):
        require_proposals(policy)
