"""Tests of reproductions.refer.actor."""

import dataclasses

from episode_batches import A, D
import numpy as np
import pytest
import tensorflow as tf

from common.acting.policy import reset_rows
from common.networks import packing
from common.networks.recurrent import Window
from common.values import gaussian
from reproductions.refer import advantages
from reproductions.refer import learner as learner_lib
from reproductions.refer.actor import STATELESS, ActingState, ReferPolicy
from reproductions.refer.config import SETTINGS

SETTING_OF = {
    "vracer": "vracer_refer",
    "naf": "naf_refer",
    "ddpg": "ddpg_refer",
    "acer": "acer_lr1e-05",
}
K = 4


def make_pair(setting, explores=True, seed=0, **values):
    """A learner with moments and parameters far from their start, and its policy."""
    config = dataclasses.replace(SETTINGS.configuration(setting), hidden_size=16, **values)
    learner = learner_lib.make_learner(config, D, A)
    rng = np.random.default_rng(1)
    for variable in learner.trainable_variables:
        variable.assign(rng.normal(scale=0.3, size=variable.shape))
    learner.standardizer.set(np.array([1.0, -3.0, 0.0]), np.array([2.0, 0.5, 0.0]))
    policy = ReferPolicy(config, D, A, seed, explores)
    policy.load(packing.to_numpy(learner.actor_variables))
    return learner, policy


def observations(rows=K, seed=2):
    return np.random.default_rng(seed).normal(scale=3, size=(rows, D)).astype(np.float32)


def networks_outputs(agent, learner, observation):
    """Value, mean and variance of the Sonnet networks."""
    x = learner.standardizer(observation)
    variance = np.full(A, 0.04)
    if agent == "ddpg":
        return np.zeros(len(x)), learner.networks.policy(x), variance
    if agent == "acer":
        return np.zeros(len(x)), learner.policy(x)[0], learner.policy.variance
    outputs = learner.network(x)
    if agent == "vracer":
        variance = learner.network.variance
    return outputs.value, outputs.mean, variance


@pytest.mark.parametrize("agent", SETTING_OF)
def test_the_policy_is_that_of_the_learners_networks(agent):
    learner, policy = make_pair(SETTING_OF[agent])
    observation = observations()
    kept = observation.copy()
    action, state, extras = policy(observation, policy.initial_state(K))
    value, mean, variance = networks_outputs(agent, learner, observation)
    assert state == STATELESS and set(extras) == {"mean", "variance", "value"}
    np.testing.assert_allclose(extras["value"], value, atol=1e-5)
    np.testing.assert_allclose(extras["mean"], mean, atol=1e-5)
    assert np.abs(mean).max() > 0.1
    np.testing.assert_allclose(extras["variance"], np.tile(variance, (K, 1)), rtol=1e-5)
    for array in (action, *extras.values()):
        assert array.dtype == np.float32
    assert action.shape == extras["mean"].shape == extras["variance"].shape == (K, A)
    np.testing.assert_array_equal(observation, kept)


@pytest.mark.parametrize("agent", SETTING_OF)
def test_on_policy_the_learner_finds_a_weight_of_1(agent):
    learner, policy = make_pair(SETTING_OF[agent])
    observation = observations()
    action, _, extras = policy(observation)
    _, mean, variance = networks_outputs(agent, learner, observation)
    variance = tf.cast(variance, tf.float32)
    rho = gaussian.importance_weight(action, mean, variance, extras["mean"], extras["variance"])
    np.testing.assert_allclose(rho, np.ones(K), atol=1e-4)


@pytest.mark.parametrize("kind", ["quadratic", "gaussian"])
def test_the_advantage_is_that_of_the_action_which_was_drawn(kind):
    learner, policy = make_pair("vracer_refer", advantage=kind)
    observation = observations()
    action, _, extras = policy(observation)
    _, mean, coefficients = learner.network(learner.standardizer(observation))
    variance = learner.network.variance
    expected = advantages.advantage(learner._config, coefficients, action, mean, variance)
    np.testing.assert_allclose(extras["advantage"], expected, atol=1e-5)
    assert extras["advantage"].dtype == np.float32 and np.ptp(expected) > 1e-3


@pytest.mark.parametrize("agent", SETTING_OF)
def test_actions_have_truncated_noise_of_the_policys_variance_without_clipping(agent):
    _, policy = make_pair(SETTING_OF[agent], noise_bound=2.0)
    action, _, extras = policy(observations(20_000))
    noise = (action - extras["mean"]) / np.sqrt(extras["variance"])
    assert 1.99 < np.abs(noise).max() <= 2.0 + 1e-4
    np.testing.assert_allclose(noise.std(axis=0), 0.8796, rtol=0.02)  # of the truncated normal
    assert np.abs(action).max() > 1
    if agent == "ddpg":
        assert np.abs(extras["mean"]).max() <= 1


@pytest.mark.parametrize("agent", ["naf", "ddpg"])
def test_ornstein_uhlenbeck_noise_is_the_state_and_no_part_of_the_stored_mean(agent):
    learner, policy = make_pair(f"{agent}_er", noise="ou")
    observation = observations()
    _, mean, _ = networks_outputs(agent, learner, observation)
    state = policy.initial_state(K)
    assert state.network == ()
    np.testing.assert_array_equal(state.noise, np.zeros((K, A), np.float32))
    for _ in range(3):
        action, state, extras = policy(observation, state)
        np.testing.assert_allclose(extras["mean"], mean, atol=1e-5)
        np.testing.assert_allclose(action - extras["mean"], state.noise, atol=1e-6)
        np.testing.assert_allclose(extras["variance"], np.full((K, A), 0.04), rtol=1e-6)
    # x_t = 0.85 x_{t-1} + 0.2 N(0, I)
    large = ActingState((), np.full((20_000, A), 10.0, np.float32))
    _, (_, noise), _ = policy(observations(20_000), large)
    np.testing.assert_allclose(noise.mean(axis=0), 8.5, atol=0.01)
    np.testing.assert_allclose(noise.std(axis=0), 0.2, rtol=0.02)


@pytest.mark.parametrize("setting", ["vracer_refer", "ddpg_refer", "ddpg_er"])
def test_a_recurrent_policy_carries_the_true_state(setting):
    """Beside that of the noise; a row that begins anew forgets, and the others do not."""
    learner, policy = make_pair(setting, recurrent=True, lstm_size=5)
    network = learner.networks.policy if learner._config.agent == "ddpg" else learner.network.mlp
    initial, steps = policy.initial_state(K), 6
    sequence = [observations(seed=t) for t in range(steps)]
    first = np.array([False, True, False, False])
    state = initial
    for t, observation in enumerate(sequence):
        state = reset_rows(state, initial, first & (t == 4))
        _, state, extras = policy(observation, state)
    inputs = learner.standardizer(tf.stack(sequence, 1))
    outputs = network(Window(inputs, tf.constant([0, 4, 0, 0])))
    mean = outputs if learner._config.agent == "ddpg" else outputs[:, 1 : 1 + A]
    np.testing.assert_allclose(extras["mean"], mean, atol=1e-5)
    assert isinstance(state.noise, tuple) == (setting != "ddpg_er")


@pytest.mark.parametrize("setting", ["vracer_refer", "naf_er", "ddpg_er", "acer_lr1e-05"])
def test_evaluators_take_the_mean(setting):
    _, policy = make_pair(setting, explores=False)
    assert policy.initial_state(K) == STATELESS
    action, state, extras = policy(observations())
    np.testing.assert_array_equal(action, extras["mean"])
    assert state == STATELESS and not np.shares_memory(action, extras["mean"])


@pytest.mark.parametrize("setting", ["vracer_refer", "ddpg_er"])
def test_the_seed_decides_the_noise(setting):
    config = SETTINGS.configuration(setting)
    observation = observations()

    def offsets(seed):
        """The noise of two steps; the parameters of each policy are others."""
        policy = ReferPolicy(config, D, A, seed)
        state, found = policy.initial_state(K), []
        for _ in range(2):
            action, state, extras = policy(observation, state)
            found.append(action - extras["mean"])
        return found

    first, same, other = map(offsets, (3, 3, 4))
    np.testing.assert_allclose(first, same, atol=1e-6)
    assert np.all(first[0] != first[1]) and np.all(np.abs(first[0] - other[0]) > 1e-5)


def test_parameters_of_other_networks_are_refused_and_change_nothing():
    _, policy = make_pair("vracer_refer", explores=False)
    observation = observations()
    before = policy(observation)[0]
    learner, _ = make_pair("naf_refer")
    with pytest.raises(ValueError, match="networks of other sizes"):
        policy.load(packing.to_numpy(learner.actor_variables))
    np.testing.assert_array_equal(policy(observation)[0], before)


def test_load_copies():
    learner, policy = make_pair("vracer_refer", explores=False)
    flat = packing.to_numpy(learner.actor_variables)
    policy.load(flat)
    before = policy(observations())
    flat[:] = 0
    after = policy(observations())
    np.testing.assert_array_equal(after[0], before[0])
    np.testing.assert_array_equal(after[2]["variance"], before[2]["variance"])
