"""Tests of D4PG's PPO: its updates, its policy with terrain, and that it learns."""

import numpy as np
import pytest
import tensorflow as tf

from common.data.data import StoredState
from common.data.rollouts import Rollout, RolloutSteps
from common.environments.spec import EnvironmentSpec
from common.networks import packing
from common.types import Batch
from common.values import gaussian
from reproductions.d4pg.ppo.config import D4PGPPOConfig
from reproductions.d4pg.ppo.ppo import D4PGPPO

SPEC = EnvironmentSpec(3, 2)
T, UNROLLS = 5, 8
N = T * UNROLLS
SMALL = dict(unroll_length=T, num_unrolls=UNROLLS, policy_sizes=(8, 8), critic_sizes=(8, 8))


class Uncompiled(D4PGPPO):
    """An agent without XLA, which takes longer to compile than all else here."""

    jit_compile = False


def make_agent(**fields):
    return Uncompiled(D4PGPPOConfig(**{**SMALL, **fields}))


def rollout(seed=0, observation_size=3):
    rng = np.random.default_rng(seed)

    def normal(*shape):
        return tf.constant(rng.normal(size=shape), tf.float32)

    states = StoredState(2 + 3 * normal(N, observation_size), normal(N, 2), {})
    states.extras["mean"] = 0.3 * normal(N, 2)
    states.extras["variance"] = tf.constant(rng.uniform(0.2, 0.3, [N, 2]), tf.float32)
    return RolloutSteps(states, 4 * normal(N) + 1, normal(N), 3 * normal(N) + 2)


def batch_of(steps):
    size = len(steps.advantage)
    return Batch(steps, tf.ones([size]) / size, tf.constant(float(size)))


def begin(learner, rows):
    learner.prepare(rows)
    steps = learner.begin(rows)
    mean = learner.networks.mean(steps.observation)
    # Near mu, as in a run: D_KL is below the hinge.
    return steps._replace(mean=mean + 0.01 * steps.mean, action=mean + 0.3 * steps.action)


def test_the_average_of_equal_workers_gradients_is_that_of_the_joint_batch():
    """As long as no worker's D_KL is beyond the hinge, which is not linear."""
    learner = make_agent().make_learner(SPEC, 0)
    steps = begin(learner, rollout())
    joint = learner.gradients(batch_of(steps))
    workers = [
        learner.gradients(batch_of(tf.nest.map_structure(lambda x, i=i: x[i : i + T], steps)))
        for i in range(0, N, T)
    ]
    flat = [tf.nest.flatten(worker.gradients) for worker in workers]
    assert float(joint.metrics["policy_gradient_norm"]) > 0.1
    for wanted, *parts in zip(tf.nest.flatten(joint.gradients), *flat):
        np.testing.assert_allclose(wanted, sum(parts) / UNROLLS, rtol=1e-4, atol=1e-5)


def test_the_policys_loss_is_that_of_the_readme():
    learner = make_agent(kl_coefficient=3.0).make_learner(SPEC, 0)
    steps = begin(learner, rollout())
    assert abs(float(tf.reduce_mean(steps.advantage))) < 1e-5
    np.testing.assert_allclose(tf.math.reduce_std(steps.advantage), 1, rtol=1e-5)
    for shift in (0.0, 0.5):  # without and with the hinge
        moved = steps._replace(mean=steps.mean + shift)
        mean, variance = learner.networks.mean(moved.observation), learner.networks.variance
        log_density = [
            -0.5 * np.sum((moved.action - m) ** 2 / v + np.log(v), -1)
            for m, v in ((mean, variance), (moved.mean, moved.variance))
        ]
        rho = np.exp(log_density[0] - log_density[1])
        d = np.mean(gaussian.kl_divergence(moved.mean, moved.variance, mean, variance))
        wanted = np.mean(-rho * moved.advantage) + 3 * d + 1000 * max(0, d - 0.02) ** 2
        found = learner.gradients(batch_of(moved)).metrics["policy_loss"]
        np.testing.assert_allclose(found, wanted, rtol=2e-3, atol=1e-4)
        assert (d > 0.02) == bool(shift)


@pytest.mark.parametrize("shift, factor", [(0.0, 1 / 1.5), (0.07, 1.0), (0.5, 1.5)])
def test_the_coefficient_follows_the_divergence(shift, factor):
    learner = make_agent().make_learner(SPEC, 0)
    steps = learner.begin(rollout())
    mean = learner.networks.mean(steps.observation)
    variance = tf.broadcast_to(learner.networks.variance, mean.shape)
    metrics = learner.end(steps._replace(mean=mean + shift, variance=variance))
    np.testing.assert_allclose(metrics["kl_divergence"], shift**2 / 0.25, rtol=1e-3, atol=1e-6)
    assert metrics["kl_coefficient"] == 1
    np.testing.assert_allclose(learner.coefficient, factor, rtol=1e-6)
    if shift:
        return
    for _ in range(40):
        learner.end(steps._replace(mean=mean, variance=variance))
    assert learner.coefficient > 0  # so that it can grow again


@pytest.mark.usefixtures("eager")
def test_a_call_makes_full_batches_and_moves_the_scales():
    agent = make_agent(num_epochs=3)
    learner = agent.make_learner(SPEC, 0)
    updates = agent.updates(learner, agent.data.make_store(agent.step_specs(SPEC), 0), 0)
    assert (updates.num_updates, updates.num_samples) == (3, N) == (agent.updates_per_call, N)
    rollouts = [rollout(seed) for seed in range(2)]
    for rows in rollouts:
        _, metrics = updates(Rollout(np.zeros(N, np.int64), rows))
    assert list(metrics) == [
        *("policy_loss", "value_loss", "policy_gradient_norm", "value_gradient_norm"),
        *("kl_divergence", "explained_variance", "mean_variance", "reward_scale", "kl_coefficient"),
    ]
    assert int(learner.steps) == 6
    rewards = np.concatenate([rows.rewards for rows in rollouts])
    np.testing.assert_allclose(learner.reward_scale, rewards.std(), rtol=1e-5)
    observations = np.concatenate([rows.states.observation for rows in rollouts])
    np.testing.assert_allclose(learner.standardizer.mean, observations.mean(0), rtol=1e-5)
    np.testing.assert_allclose(learner.standardizer.deviation, observations.std(0), rtol=1e-5)
    learner.prepare(rollout(2))  # by whose actions the scale has to stay until the updates' end
    np.testing.assert_allclose(learner.standardizer.mean, observations.mean(0), rtol=1e-5)


def test_actors_see_the_terrain_as_the_learner_does():
    spec = EnvironmentSpec(9, 2, terrain_size=6)
    agent = make_agent(terrain_sizes=(5, 4), observation_clip=1.5, noisy_evaluation=True)
    learner, rows = agent.make_learner(spec, 0), rollout(observation_size=9)
    learner.prepare(rows)
    actor = agent.make_evaluator(spec, N)
    actor.load(packing.to_numpy(learner.actor_variables))
    action, _, extras = actor(rows.states.observation.numpy())
    steps, networks = learner.begin(rows), learner.networks
    assert float(tf.reduce_max(tf.abs(steps.observation))) == 1.5
    mean = networks.mean(steps.observation)
    np.testing.assert_allclose(extras["mean"], mean, rtol=1e-4, atol=1e-6)
    assert 0.3 < np.std(action - mean) < 0.7  # the noise of PPO's policy
    quiet = make_agent(terrain_sizes=(5, 4), observation_clip=1.5).make_evaluator(spec, N)
    quiet.load(packing.to_numpy(learner.actor_variables))
    np.testing.assert_allclose(
        quiet(rows.states.observation.numpy())[0], mean, rtol=1e-4, atol=1e-6
    )
    value = networks.value(steps.observation)[:, 0] * learner.reward_scale
    np.testing.assert_allclose(extras["value"], value, rtol=1e-3, atol=1e-6)
