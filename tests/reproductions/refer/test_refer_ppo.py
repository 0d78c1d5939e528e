"""Tests of ReF-ER's PPO: its updates against NumPy, its policy, and that it learns."""

import numpy as np
from one_process import OneProcessRun
from point_task import THRESHOLD, make_environments, mean_return
import pytest
import tensorflow as tf
import tree

from common.acting.policy import reset_rows
from common.data.data import StoredState
from common.data.rollouts import Rollout, RolloutSteps
from common.environments.spec import EnvironmentSpec
from common.networks import packing
from common.types import Batch
from reproductions.refer.ppo.config import ReferPPOConfig
from reproductions.refer.ppo.ppo import ReferPPO

SPEC = EnvironmentSpec(3, 2)
N = 24


class Uncompiled(ReferPPO):
    """An agent without XLA, which takes longer to compile than all else here."""

    jit_compile = False


def make_agent(**fields):
    return Uncompiled(ReferPPOConfig(**{"horizon": N, "batch_size": 8, "num_epochs": 2, **fields}))


def rollout(seed=0):
    rng = np.random.default_rng(seed)

    def normal(*shape):
        return tf.constant(rng.normal(size=shape), tf.float32)

    variance = tf.constant(rng.uniform(0.1, 0.3, [N, 2]), tf.float32)
    states = StoredState(5 + 3 * normal(N, 3), normal(N, 2), {"mean": normal(N, 2)})
    states.extras["variance"] = variance
    return RolloutSteps(states, 4 * normal(N), normal(N), normal(N))


def softplus(x):
    return np.log1p(np.exp(x))


def losses(learner, steps):
    """Returns the losses of policy and value of some steps, by NumPy, of the present networks."""
    networks = learner.networks
    mean = networks.mean(steps.observation).numpy()
    variance = softplus(networks.raw_variance.numpy())
    action, old_mean, old_variance = steps.action, steps.mean, steps.variance

    def log_density(mean, variance):
        kernel = -0.5 * ((action - mean) ** 2 / variance + np.log(variance))
        return np.sum(kernel, -1)

    rho = np.exp(log_density(mean, variance) - log_density(old_mean, old_variance))
    clipped = np.minimum(rho * steps.advantage, np.clip(rho, 0.8, 1.2) * steps.advantage)
    value = networks.value(steps.observation).numpy()[:, 0]
    return -clipped.mean(), 0.5 * np.mean((value - steps.target) ** 2)


def test_scales_are_those_of_appendix_b():
    learner, first, other = make_agent().make_learner(SPEC, 0), rollout(), rollout(1)
    learner.prepare(first)
    observation = first.states.observation.numpy()
    steps = learner.begin(first)
    scaled = (observation - observation.mean(0)) / (observation.std(0) + 1e-7)
    np.testing.assert_allclose(steps.observation, scaled, atol=1e-4)
    sigma = np.sqrt(np.mean(first.rewards.numpy() ** 2))
    np.testing.assert_allclose(steps.advantage, first.advantages / sigma, rtol=1e-5)
    target = (first.advantages + first.values) / sigma
    np.testing.assert_allclose(steps.target, target, rtol=1e-5, atol=1e-6)
    learner.end(steps)
    learner.prepare(other)  # only the scale of rewards is another
    scale = np.sqrt(np.mean(np.concatenate([first.rewards, other.rewards]) ** 2))
    np.testing.assert_allclose(learner.reward_scale, scale, rtol=1e-5)
    np.testing.assert_array_equal(learner.begin(first).observation, steps.observation)
    new = make_agent().make_learner(SPEC, 0)
    new.standardizer.set(*(np.full(3, moment, np.float32) for moment in (7, 2)))  # of another run
    new.prepare(other._replace(rewards=tf.zeros([N])))
    np.testing.assert_array_equal(new.standardizer.mean, [7, 7, 7])
    assert float(new.reward_scale) == 1  # until there is a reward


def test_gradients_are_those_of_the_losses():
    learner, first = make_agent().make_learner(SPEC, 0), rollout()
    learner.prepare(first)
    steps = learner.begin(first)
    # Near mu, so that some steps are beyond the clip and others not.
    mean = learner.networks.mean(steps.observation)
    steps = steps._replace(mean=mean + 0.1 * steps.mean, action=mean + 0.3 * steps.action)
    result = learner.gradients(Batch(steps, tf.ones([N]) / N, tf.constant(float(N))))
    wanted = losses(learner, steps)
    metrics = result.metrics
    np.testing.assert_allclose(metrics["policy_loss"], wanted[0], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(metrics["value_loss"], wanted[1], rtol=1e-5)
    networks = learner.networks
    both = zip(result.gradients, (networks.policy_variables, networks.value_variables))
    for i, (gradients, variables) in enumerate(both):
        rng = np.random.default_rng(i)
        steps_of = [rng.normal(size=variable.shape).astype(np.float32) for variable in variables]
        found = sum(float(tf.reduce_sum(g * d)) for g, d in zip(gradients, steps_of))
        sides = []
        for sign in (1, -1):
            for variable, direction in zip(variables, steps_of):
                variable.assign_add(sign * 1e-3 * direction)
            sides.append(losses(learner, steps)[i])
            for variable, direction in zip(variables, steps_of):
                variable.assign_sub(sign * 1e-3 * direction)
        np.testing.assert_allclose(found, (sides[0] - sides[1]) / 2e-3, rtol=0.02, atol=1e-4)


@pytest.mark.usefixtures("eager")
def test_a_call_makes_all_epochs_and_anneals_the_rates():
    agent = make_agent(annealing=0.1)
    learner, first = agent.make_learner(SPEC, 0), rollout()
    updates = agent.updates(learner, agent.data.make_store(agent.step_specs(SPEC), 0), 0)
    assert (updates.num_updates, updates.num_samples) == (6, N)
    _, metrics = updates(Rollout(np.zeros(N, np.int64), first))
    assert list(metrics) == [
        *("policy_loss", "value_loss", "policy_gradient_norm", "value_gradient_norm"),
        *("kl_divergence", "explained_variance", "mean_variance", "reward_scale", "learning_rate"),
    ]
    assert int(learner.steps) == 6 and int(learner.version) == 1
    # The last update, the sixth, follows five of 8 samples, each for the second time: 20 steps.
    np.testing.assert_allclose(metrics["learning_rate"], 1e-4 / 3, rtol=1e-5)
    np.testing.assert_allclose(learner.value_learning_rate, 3e-4 / 3, rtol=1e-5)
    assert metrics["kl_divergence"] > 0


def test_a_component_that_never_changed_keeps_its_unit():
    agent = make_agent()
    learner, first = agent.make_learner(SPEC, 0), rollout()
    observation = np.full([2048, 3], [0.1, 1.3, 8.907], np.float32)
    states = first.states._replace(observation=tf.constant(observation))
    learner.prepare(first._replace(states=states))
    np.testing.assert_array_equal(learner.standardizer.deviation, np.ones(3))
    np.testing.assert_allclose(learner.standardizer(observation[0]), np.zeros(3), atol=1e-6)


def test_actors_stay_within_three_deviations():
    actor = make_agent().make_actor(SPEC, range(1), 1, seed=3)
    action, _, extras = actor(np.zeros([20_000, 3], np.float32))
    noise = np.abs(action - extras["mean"]) / np.sqrt(extras["variance"])
    assert 2.9 < noise.max() <= 3.00001


def test_values_of_actors_are_in_units_of_rewards():
    agent = make_agent()
    learner, first = agent.make_learner(SPEC, 0), rollout()
    learner.prepare(first)
    learner.version.assign(7)
    actor = agent.make_actor(SPEC, range(1), 1, seed=3)
    actor.load(packing.to_numpy(learner.actor_variables))
    observation = first.states.observation.numpy()
    action, _, extras = actor(observation)
    steps, networks = learner.begin(first), learner.networks
    value = networks.value(steps.observation)[:, 0] * learner.reward_scale
    np.testing.assert_allclose(extras["value"], value, rtol=1e-4, atol=1e-5)
    mean = networks.mean(steps.observation)
    np.testing.assert_allclose(extras["mean"], mean, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(extras["variance"], np.full([N, 2], 0.2), rtol=1e-5)
    assert (extras["version"] == 7).all()
    noise = (action - extras["mean"]) / np.sqrt(0.2)
    assert 0.6 < noise.std() < 1.4 and abs(noise.mean()) < 0.5
    evaluator = agent.make_evaluator(SPEC, 1)
    evaluator.load(packing.to_numpy(learner.actor_variables))
    np.testing.assert_array_equal(evaluator(observation)[0], extras["mean"])
    with pytest.raises(ValueError, match="networks of other sizes"):
        evaluator.load(np.zeros(5, np.float32))


RECURRENT = {"recurrent": True, "lstm_size": 5, "history": 4}
FIRST = np.zeros((9, 2), bool)
FIRST[0] = FIRST[6, 1] = True
"""[T, K], where episodes begin."""


@pytest.fixture(scope="module")
def recurrent():
    """An agent with recurrent networks, its learner, and an actor."""
    agent = make_agent(**RECURRENT)
    learner = agent.make_learner(SPEC, 0)
    learner.prepare(rollout())
    policy = agent.make_actor(SPEC, range(2), 2, seed=3)
    policy.load(packing.to_numpy(learner.actor_variables))
    return agent, learner, policy


def recurrent_steps(policy, observations):
    """Acts on observations [T, K, 3]; returns the steps as the learner learns them."""
    state = initial = policy.initial_state(2)
    found = []
    for observation, begins in zip(observations, FIRST):
        state = reset_rows(state, initial, begins)
        action, state, extras = policy(observation, state)
        value = extras.pop("value")
        extras.pop("version")
        steps = StoredState(observation, action, extras)
        found.append(RolloutSteps(steps, value, value, np.zeros_like(value)))
    return tree.map_structure(lambda *rows: tf.constant(np.concatenate(rows)), *found)


def test_recurrent_networks_act_as_they_learn(recurrent):
    """So rho is 1 at the first update, in episodes that are longer than the history, too."""
    agent, learner, policy = recurrent
    observations = np.random.default_rng(0).normal(size=(9, 2, 3)).astype(np.float32)
    steps = learner.begin(recurrent_steps(policy, observations))
    mean = learner.networks.mean(steps.observation)
    np.testing.assert_allclose(steps.mean, mean, rtol=1e-4, atol=1e-6)
    value = learner.networks.value(steps.observation)[:, 0]
    np.testing.assert_allclose(steps.value, value, rtol=1e-4, atol=1e-6)

    evaluator = agent.make_evaluator(SPEC, 2)
    evaluator.load(packing.to_numpy(learner.actor_variables))
    graph, state = agent.graph_policy(learner, SPEC), evaluator.initial_state(2)
    own = state
    for observation in observations:
        action, own, _ = evaluator(observation, own)
        exported, state = graph(tf.constant(observation), state)
        np.testing.assert_allclose(exported, action, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(state.lengths, own.lengths)
    with pytest.raises(ValueError, match="the policy is recurrent"):
        evaluator.layers()


def test_recurrent_networks_see_their_history_and_no_other_episode(recurrent):
    *_, policy = recurrent

    def means(observations):
        steps = recurrent_steps(policy, observations)
        return steps.states.extras["mean"].numpy().reshape(9, 2, 2)

    observations = np.zeros((9, 2, 3), np.float32)
    mean = means(observations)
    for time in (0, 3, 6):
        other = observations.copy()
        other[time] += 1
        seen = (means(other) != mean).any(-1)
        assert seen[:, 0].tolist() == [time <= t <= time + 4 for t in range(9)]
        same = [(t >= 6) == (time >= 6) for t in range(9)]
        assert seen[:, 1].tolist() == [time <= t <= time + 4 and same[t] for t in range(9)]


@pytest.mark.usefixtures("eager")
def test_recurrent_networks_learn_from_rollouts():
    config = {"horizon": 32, "num_epochs": 1, "policy_learning_rate": 3e-3}
    run = OneProcessRun(make_agent(**RECURRENT, **config), make_environments(0, 4))
    before = packing.to_numpy(run.learner.actor_variables)
    run.train(1)
    after = packing.to_numpy(run.learner.actor_variables)
    assert int(run.learner.version) == 1 and np.isfinite(after).all()
    assert (before != after).mean() > 0.9
    assert run.learner.networks.mean.lstms[0].w_h.shape == (5, 20)


def test_mini_run_learns():
    config = ReferPPOConfig(
        horizon=512,
        discount=0.9,
        trace=0.9,
        policy_learning_rate=6e-3,
        value_learning_rate=6e-3,
        hidden_size=32,
    )
    run = OneProcessRun(Uncompiled(config), make_environments(0, 8))
    assert mean_return(run.evaluator(32)) < 0.5 * THRESHOLD
    run.train(20)
    assert int(run.learner.version) == 20
    assert mean_return(run.evaluator(32)) > THRESHOLD
