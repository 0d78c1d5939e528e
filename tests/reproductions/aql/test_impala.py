"""Tests of IMPALA: targets, gradients and policy, against float64 twins, and a known optimum."""

import dm_env
from dm_env import specs
from ended_unrolls import METRICS, B, T, ends
from float64_networks import Float64Values, numeric_gradient
import numpy as np
from one_process import OneProcessRun
import pytest
import scipy.special
import tensorflow as tf

from common.data.unrolls import Unrolls
from common.environments.spec import EnvironmentSpec
from common.networks import packing
from common.types import Batch
from reproductions.aql import impala
from reproductions.aql.actions import ActionSpace
from reproductions.aql.agent import AQL
from reproductions.aql.config import AQLConfig
from reproductions.aql.impala import ImpalaLearner, SampledPolicy

OBSERVATION = 4
SPACE = ActionSpace((3, 2))


def config_of(**values):
    sizes = {"state_size": 4, "joint_sizes": (4, 3), "proposal_sizes": (4,)}
    fixed = {"search": "none", "replayed_unrolls": 0, "batch_size": B, "unroll_length": T}
    return AQLConfig(**{**sizes, **fixed, **values})


def make_unrolls(seed=0):
    generator = np.random.default_rng(seed)
    reward, discount, is_last = ends(generator)
    observation = generator.standard_normal((B, T, OBSERVATION)).astype(np.float32)
    index = SPACE.uniform((B, T), generator).astype(np.float32)
    extras = {"action_index": index, "log_prob": -generator.random((B, T), np.float32) * 3}
    return Unrolls(observation, reward, discount, is_last, extras)


def targets64(log_rho, reward, discount, is_last, value, gamma):
    """v_t and A_t of each row, episode by episode, as sums of products: [T, B] -> [T - 1, B]."""
    steps, rows = reward.shape
    rho = np.minimum(1, np.exp(log_rho))
    v, advantage = value.copy(), np.zeros((steps, rows))
    for b in range(rows):
        for t in range(steps - 1):
            product = 1.0
            for k in range(t, steps - 1):
                if is_last[k, b]:
                    break
                error = reward[k, b] + gamma * discount[k, b] * value[k + 1, b] - value[k, b]
                v[t, b] += product * rho[k, b] * error
                product *= gamma * discount[k, b] * rho[k, b]
        for t in range(steps - 1):
            following = reward[t, b] + gamma * discount[t, b] * v[t + 1, b]
            advantage[t, b] = rho[t, b] * (following - value[t, b])
    return v[:-1], advantage[:-1]


def columns_of(unroll):
    return [c.T for c in (unroll.reward, unroll.discount, unroll.is_last)]


def test_targets_are_v_traces_within_each_episode():
    unroll, generator = make_unrolls(), np.random.default_rng(1)
    value, log_rho = generator.standard_normal((2, T, B))
    reward, discount, is_last = columns_of(unroll)
    arguments = (log_rho, reward.astype(float), discount.astype(float), is_last, value)
    v, advantage, weight = impala.targets(*map(tf.constant, arguments), 0.9)
    expected_v, expected_advantage = targets64(*arguments, 0.9)
    np.testing.assert_array_equal(weight, 1.0 - is_last[:-1])
    np.testing.assert_allclose(v, expected_v, rtol=1e-10)
    np.testing.assert_allclose(weight * advantage, weight * expected_advantage, rtol=1e-10)


class Twin64(Float64Values):
    """The learner's networks in float64."""

    def __init__(self, learner):
        super().__init__(learner.variables_trained)
        self.learner = learner

    def forward(self, unroll):
        """V, log pi and the entropy along the actions, [T, B] each."""
        network = self.learner.network
        features = self.run(network.shared, unroll.observation.astype(np.float64))
        hidden, head = self.run(network.policy.trunk, features), network.policy.proposal
        encoded = SPACE.encode(unroll.extras["action_index"]).astype(np.float64)
        logits = hidden @ self.of(head.state_weights) + self.of(head.bias)
        logits[..., 3:] += encoded[..., :3] @ self.of(head.action_weights)[:3, 3:]
        log_prob = entropy = 0
        for block in (slice(0, 3), slice(3, 5)):
            log_p = scipy.special.log_softmax(logits[..., block], axis=-1)
            log_prob = log_prob + np.sum(encoded[..., block] * log_p, -1)
            entropy = entropy - np.sum(np.exp(log_p) * log_p, -1)
        value = self.run(self.learner.baseline, features)[..., 0]
        return value.T, log_prob.T, entropy.T


def test_the_gradients_are_those_of_the_loss():
    """Targets and advantages are constants; one loss trains shared layers as well."""
    config = config_of(
        shared_sizes=(4,),
        discount=0.9,
        impala_reward_scale=0.6,
        impala_entropy_cost=0.3,
        baseline_cost=0.7,
    )
    learner, unroll = ImpalaLearner(config, EnvironmentSpec(OBSERVATION, 2), SPACE), make_unrolls()
    generator = np.random.default_rng(2)
    for variable in learner.variables_trained:
        variable.assign(0.7 * generator.standard_normal(variable.shape))
    twin = Twin64(learner)
    value, log_pi, _ = twin.forward(unroll)
    reward, discount, is_last = columns_of(unroll)
    log_rho = log_pi - unroll.extras["log_prob"].T
    v, advantage = targets64(log_rho, 0.6 * reward, discount, is_last, value, 0.9)
    weight = 1.0 - is_last[:-1]

    def loss():
        value, log_pi, entropy = (column[:-1] for column in twin.forward(unroll))
        parts = -advantage * log_pi + 0.7 * 0.5 * np.square(v - value) - 0.3 / np.log(6) * entropy
        return np.sum(weight * parts)

    batch = Batch(tf.nest.map_structure(tf.constant, unroll), tf.ones([B]), tf.constant(1.0))
    gradients, outputs, metrics = learner.gradients(batch)
    assert outputs == () and list(metrics) == METRICS["none"]
    for gradient, variable in zip(gradients, learner.variables_trained, strict=True):
        expected = numeric_gradient(loss, twin.of(variable))
        np.testing.assert_allclose(gradient, expected, rtol=2e-3, atol=2e-3, err_msg=variable.name)
    np.testing.assert_allclose(metrics["mean_value"], value.mean(), rtol=1e-4)
    before = {v.ref() for v in learner.variables}
    eager = [v.numpy() for v in learner.variables]
    tf.function(learner.update, jit_compile=True)(batch)
    assert {v.ref() for v in learner.variables} == before
    assert any(np.any(v.numpy() != old) for v, old in zip(learner.variables, eager))


@pytest.mark.parametrize(
    "choices, cost, expected",
    [
        ([5], 1e-3, 6.2e-4),  # cartpole, as the next two of the best reward of a step that is known
        ([5] * 6, 1e-3, 1.0e-4),  # walker
        ([7, 7, 3, 3, 2, 2, 2], 5e-4, 6.1e-5),  # rover
        ([5] * 56, 1e-3, 1.1e-5),
        ([1], 1e-3, 1.4e-3),  # of no effect
    ],
)
def test_the_cost_of_a_nat_falls_with_the_number_of_actions(choices, cost, expected):
    """With one cost for all, the gain of a uniform policy was that of the best one and more."""
    space, config = ActionSpace(choices), config_of(impala_entropy_cost=cost)
    assert impala.entropy_cost(config, space) == pytest.approx(expected, rel=0.05)
    if space.num_actions > 1:
        gain = impala.entropy_cost(config, space) * np.log(float(space.num_actions))
        assert gain == pytest.approx(cost)


@pytest.mark.parametrize("autoregressive", [True, False])
def test_the_policy_stores_the_log_probability_of_what_it_samples(autoregressive):
    config = config_of(shared_sizes=(4,), autoregressive=autoregressive)
    learner = ImpalaLearner(config, EnvironmentSpec(OBSERVATION, 2), SPACE)
    generator = np.random.default_rng(3)
    for variable in learner.variables_trained:
        variable.assign(generator.standard_normal(variable.shape))
    policy = SampledPolicy(config, EnvironmentSpec(OBSERVATION, 2), SPACE, seed=0)
    policy.load(packing.to_numpy(learner.actor_variables))
    row = generator.standard_normal((1, OBSERVATION)).astype(np.float32)
    observation = np.repeat(row, 40_000, axis=0)
    action, state, extras = policy(observation, ())
    index, log_prob = extras["action_index"], extras["log_prob"]
    assert log_prob.dtype == np.float32 and state == ()
    np.testing.assert_array_equal(action, SPACE.values(index))
    network = learner.network
    hidden = network.policy.trunk(network.shared(tf.constant(observation)))
    expected, _ = network.policy.proposal.log_prob_and_entropy(hidden, tf.constant(index))
    np.testing.assert_allclose(log_prob, expected, rtol=1e-4, atol=1e-4)
    numbers, counts = np.unique(SPACE.flat_index(index), return_counts=True)
    stored = {number: np.exp(log_prob[SPACE.flat_index(index) == number][0]) for number in numbers}
    np.testing.assert_allclose(counts / len(index), list(stored.values()), atol=0.01)


# Its whole path, from environments to updates, on a problem with a known answer.

REWARDS = np.array([[0.0, 1.0], [3.0, -1.0]])
"""[state, action]."""
TO_STATE_1 = np.array([[0.2, 0.9], [0.7, 0.1]])
"""Probability of state 1 after [state, action]."""
EPISODE_STEPS = 17
"""Of two states: unrolls of 10 timesteps have ends of episodes at any place."""


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


class Run(OneProcessRun):
    """A learner, and actors that act with its newest parameters."""

    def __init__(self):
        environments = TwoStates()
        config = AQLConfig(
            search="none",
            replayed_unrolls=0,
            batch_size=environments.num_environments,
            queue_capacity=2 * environments.num_environments,
            state_size=16,
            joint_sizes=(16,),
            proposal_sizes=(16,),
            discount=0.9,
            unroll_length=10,
            impala_reward_scale=0.5,
            impala_entropy_cost=0.0,
            learning_rate=0.03,
        )
        super().__init__(AQL(config), environments)
        self._update = tf.function(self.learner.update)

    def draw(self) -> Batch:
        while (drawn := self.memory.draw(TwoStates.num_environments)) is None:
            self.act()
        return drawn.batch()

    def update(self):
        """Makes an update on new unrolls."""
        self._update(self.draw())
        self._actor.load(packing.to_numpy(self.learner.actor_variables))


def test_it_learns_and_actors_and_learner_agree_on_the_probability_of_every_action():
    """An unroll's first action is one of before the update: the one that completed the last."""
    run, num_ends = Run(), 0
    policy = run.learner.network.policy

    def difference(unroll):
        trunk = policy.trunk(tf.reshape(unroll.observation, [-1, 2]))
        taken = tf.reshape(unroll.extras["action_index"], [-1, 1])
        log_pi, _ = policy.proposal.log_prob_and_entropy(trunk, taken)
        return np.abs(
            tf.reshape(log_pi, unroll.extras["log_prob"].shape) - unroll.extras["log_prob"]
        )

    for _ in range(6):
        batch = run.draw()
        np.testing.assert_allclose(difference(batch.steps)[:, 1:], 0, atol=1e-5)
        num_ends += np.count_nonzero(batch.steps.is_last)
        run.update()
        assert difference(batch.steps).max() > 1e-3
    assert num_ends
    for _ in range(30):
        run.update()
    best = tf.constant([[1.0], [0.0]])  # it pays to be in state 1, and to stay there
    log_prob, _ = policy.proposal.log_prob_and_entropy(policy.trunk(tf.eye(2)), best)
    assert np.exp(log_prob).min() > 0.9
