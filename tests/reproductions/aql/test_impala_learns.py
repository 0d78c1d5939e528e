"""Tests of IMPALA's whole path, from environments to updates, on problems with known answers."""

from agent_loops import make_loop, put
import dm_env
from dm_env import specs
import numpy as np
import pytest
import tensorflow as tf

from common.environments.spec import EnvironmentSpec
from common.networks import packing
from common.types import Batch
from reproductions.aql.agent import AQL
from reproductions.aql.config import AQLConfig

GAMMA, SCALE = 0.9, 0.5
REWARDS = np.array([[0.0, 1.0], [3.0, -1.0]])
"""[state, action]."""
TO_STATE_1 = np.array([[0.2, 0.9], [0.7, 0.1]])
"""Probability of state 1 after [state, action]."""
EPISODE_STEPS = 17
"""Of two states: unrolls of 10 timesteps have ends of episodes at any place."""
UNITS = 16


class TwoStates:
    """An `EnvironmentBatch` of two states and two actions; its time limit is not an end."""

    num_environments = 64

    def __init__(self):
        self._generator = np.random.default_rng(0)
        self._steps = EPISODE_STEPS

    def reset(self):
        self._steps = 0
        self._state = self._generator.integers(2, size=self.num_environments)
        return self._timestep(dm_env.StepType.FIRST, np.zeros(self.num_environments))

    def step(self, actions):
        if self._steps == EPISODE_STEPS:
            return self.reset()
        reward, to_1 = REWARDS[self._state, actions], TO_STATE_1[self._state, actions]
        self._state = (self._generator.random(self.num_environments) < to_1).astype(int)
        self._steps += 1
        is_last = self._steps == EPISODE_STEPS
        return self._timestep(dm_env.StepType.LAST if is_last else dm_env.StepType.MID, reward)

    def observation_spec(self):
        return specs.Array((2,), np.float32)

    def action_spec(self):
        return specs.DiscreteArray(2)

    def _timestep(self, kind, reward):
        return dm_env.TimeStep(
            np.full(self.num_environments, int(kind), np.int32),
            reward.astype(np.float32),
            np.ones(self.num_environments, np.float32),
            np.eye(2, dtype=np.float32)[self._state],
        )


class Run:
    """A learner, and actors that act with its newest parameters."""

    num_actors = TwoStates.num_environments

    def __init__(self, **values):
        config = AQLConfig(
            search="none",
            replayed_unrolls=0,
            batch_size=self.num_actors,
            queue_capacity=2 * self.num_actors,
            state_size=UNITS,
            joint_sizes=(UNITS,),
            proposal_sizes=(UNITS,),
            discount=GAMMA,
            unroll_length=10,
            impala_reward_scale=SCALE,
            impala_entropy_cost=0.0,
            **values,
        )
        agent, actors = AQL(config), range(self.num_actors)
        environments = TwoStates()
        spec = EnvironmentSpec.of(environments)
        self.learner = agent.make_learner(spec, seed=0)
        self.policy = agent.make_actor(spec, actors, self.num_actors, seed=0)
        self._queue = agent.data.make_store(agent.step_specs(spec), seed=0)
        _, self._loop = make_loop(agent, self.policy, environments)
        self._update = tf.function(self._update_with)
        self.pull()

    def pull(self):
        self.policy.load(packing.to_numpy(self.learner.actor_variables))

    def draw(self) -> Batch:
        while (drawn := self._queue.draw(self.num_actors)) is None:
            put(self._queue, self._loop.step())
        return drawn.batch()

    def update(self, freezes_policy=False):
        """Makes an update on new unrolls; a frozen policy gets gradients of zero."""
        self._update(self.draw(), freezes_policy)
        self.pull()

    def _update_with(self, batch, freezes_policy):
        gradients, frozen = list(self.learner.gradients(batch).gradients), 0
        if freezes_policy:
            frozen = len(self.learner.network.parameters)
        self.learner.apply([*map(tf.zeros_like, gradients[:frozen]), *gradients[frozen:]])


def exact(probabilities):
    """V of both states and Q of [state, action], for an endless episode of scaled rewards."""
    to_1 = np.sum(probabilities * TO_STATE_1, axis=1)
    transitions = np.stack([1 - to_1, to_1], axis=1)
    reward = SCALE * np.sum(probabilities * REWARDS, axis=1)
    value = np.linalg.solve(np.eye(2) - GAMMA * transitions, reward)
    following = (1 - TO_STATE_1) * value[0] + TO_STATE_1 * value[1]
    return value, SCALE * REWARDS + GAMMA * following


@pytest.fixture(scope="module")
def evaluated():
    """A run whose policy was frozen until its baseline was learnt, and that policy."""
    run = Run(learning_rate=3e-3)
    policy = run.learner.network.policy
    initial = np.random.default_rng(1).standard_normal([UNITS, 2])
    policy.proposal.state_weights.assign(0.7 * initial)
    run.pull()
    for _ in range(500):
        run.update(freezes_policy=True)
    hidden = policy.trunk(tf.eye(2))
    logits = hidden @ policy.proposal.state_weights + policy.proposal.bias
    return run, hidden.numpy(), tf.nn.softmax(logits).numpy()


def test_the_baseline_approaches_the_values_of_a_fixed_policy(evaluated):
    """V crosses time limits: no value of a state depends on the steps that are left."""
    run, _, probabilities = evaluated
    value, _ = exact(probabilities)
    assert abs(value[0] - value[1]) > 0.5
    found = run.learner.baseline(run.learner.network.shared(tf.eye(2)))[:, 0]
    np.testing.assert_allclose(found, value, atol=0.1)


def test_the_gradient_of_the_policy_is_the_exact_one(evaluated):
    """d loss / d logit(s, a) = -(visits of s) pi(a|s) (Q(s, a) - V(s)), on average."""
    run, hidden, probabilities = evaluated
    weights = run.learner.network.policy.proposal.state_weights
    place = [variable is weights for variable in run.learner.variables_trained].index(True)
    gradient, visits = 0.0, 0.0
    for _ in range(60):
        batch = run.draw()
        gradient += run.learner.gradients(batch).gradients[place].numpy()
        taken = batch.steps.observation[~batch.steps.is_last & (np.arange(10) < 9)]
        visits += np.sum(taken, axis=0)
    value, q = exact(probabilities)
    of_logits = -visits[:, np.newaxis] * probabilities * (q - value[:, np.newaxis])
    assert np.abs(of_logits).min() > 500
    expected = hidden.T @ of_logits
    np.testing.assert_allclose(gradient, expected, atol=0.1 * np.abs(expected).max())


def test_actors_and_learner_agree_on_the_probability_of_every_action():
    """An unroll's first action is one of before the update: the one that completed the last."""
    run, ends = Run(learning_rate=0.03), 0
    policy = run.learner.network.policy

    def difference(unroll):
        trunk = policy.trunk(tf.reshape(unroll.observation, [-1, 2]))
        log_pi = policy.proposal.log_prob(trunk, tf.reshape(unroll.extras["action_index"], [-1, 1]))
        return np.abs(
            tf.reshape(log_pi, unroll.extras["log_prob"].shape) - unroll.extras["log_prob"]
        )

    for _ in range(6):
        batch = run.draw()
        np.testing.assert_allclose(difference(batch.steps)[:, 1:], 0, atol=1e-5)
        ends += np.count_nonzero(batch.steps.is_last)
        run.update()
        assert difference(batch.steps).max() > 1e-3
    assert ends
