"""Tests of what learns from images with an LSTM: states, gradients, what is stored, refusals."""

from agent_loops import make_loop
from dm_env import specs
import numpy as np
import pytest
import small_agents
from small_agents import check_one_call, randomize
import tensorflow as tf

from common.environments import lab_actions
from common.environments.batch import BatchedEnvironment
from common.environments.episodic_environment import EpisodicEnvironment, StepOutcome
from common.environments.spec import EnvironmentSpec
from common.networks import packing
from common.roles.evaluator import run_episodes
from common.types import Batch
from reproductions.aql import networks
from reproductions.aql.actions import ActionSpace
from reproductions.aql.proposals import FlatPolicy, FlatPolicyTwin

T, K, EPISODE_STEPS, SIDE = 5, 2, 7, 9
CNN = {"channels": (3, 4), "lstm_size": 6}
SPEC = EnvironmentSpec(
    observation_size=SIDE * SIDE * 3,
    action_size=7,
    image_shape=(SIDE, SIDE, 3),
    action_choices=(1025, 1025, 3, 3, 2, 2, 2),
)


class Noise(EpisodicEnvironment):
    """Random images and rewards beyond the clip; a time limit ends an episode."""

    def __init__(self, seed):
        super().__init__(EPISODE_STEPS)
        self._random = np.random.default_rng(seed)

    def _start(self):
        pass

    def _act(self, action):
        lab_actions.require_valid(action)
        return StepOutcome(float(self._random.normal() * 3))

    def _observe(self):
        return self._random.integers(0, 256, (SIDE, SIDE, 3), np.uint8)

    def observation_spec(self):
        return specs.Array((SIDE, SIDE, 3), np.uint8)

    def action_spec(self):
        return lab_actions.action_spec()


def make_agent(name="aql_3528_actions", **values):
    return small_agents.make_agent(name, **{**CNN, **values})


def environments():
    return BatchedEnvironment([Noise(seed) for seed in range(K)])


def acted(agent, learner, num_steps):
    """Returns what a policy with the learner's parameters added, and the features it acted on."""
    policy, found, rows = agent.make_actor(SPEC, range(K), K, seed=2), [], []
    policy.load(packing.to_numpy(learner.actor_variables))
    act = policy.act

    def recorded(features):
        found.append(features)
        return act(features)

    policy.act = recorded
    _, loop = make_loop(agent, policy, environments(), seed=1)
    for _ in range(num_steps):
        rows += [delivery.rows for delivery in loop.step()]
    return rows, np.stack(found, axis=1)


def joined(rows):
    return tf.nest.map_structure(lambda *parts: np.concatenate(parts), *rows)


def batch_of(agent, rows):
    steps = agent.decode(tf.nest.map_structure(tf.convert_to_tensor, joined(rows)), SPEC)
    size = len(steps.reward)
    return Batch(steps, tf.fill([size], 1.0 / size), tf.constant(float(size)))


@pytest.mark.parametrize("name", ["aql_3528_actions", "impala_11_actions"])
def test_an_unroll_in_one_call_is_step_by_step_from_the_stored_state(name):
    """Over five unrolls, whose episodes of eight timesteps end within them."""
    agent = make_agent(name, replayed_unrolls=0)
    learner = agent.make_learner(SPEC, seed=1)
    randomize(learner.actor_variables)
    rows, features = acted(agent, learner, 5 * T + 1)
    shared = (learner.network if "impala" in name else learner.value).shared
    is_last = np.concatenate([unrolls.is_last for unrolls in rows], axis=1)
    assert is_last[:, 1:-1].any() and len(rows) == 5
    for number, unrolls in enumerate(rows):
        found = networks.features_of(shared, batch_of(agent, [unrolls]).steps)
        found = found.numpy().reshape(K, T, -1)
        expected = features[:, number * T : (number + 1) * T]
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
        begins = number > 0 and is_last[:, number * T - 1]
        np.testing.assert_array_equal(
            (unrolls.state.lstm.cell != 0).any(axis=1), np.zeros(K, bool) if not number else ~begins
        )


def test_the_last_reward_is_clipped_for_the_network_alone():
    agent = make_agent(replayed_unrolls=0)
    learner = agent.make_learner(SPEC, seed=1)
    randomize(learner.actor_variables)
    rows, _ = acted(agent, learner, 2 * T + 1)
    steps = batch_of(agent, rows).steps
    assert np.abs(steps.reward).max() > 1
    clipped = steps._replace(reward=tf.clip_by_value(steps.reward, -1, 1))
    halved = steps._replace(reward=0.1 * steps.reward)
    found, same, other = (
        networks.features_of(learner.value.shared, unroll) for unroll in (steps, clipped, halved)
    )
    np.testing.assert_array_equal(found, same)
    assert np.any(found != other)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("name", ["aql_3528_actions", "exact_q_11_actions", "impala_3528_actions"])
def test_acts_stores_and_learns(name):
    """Through the queue, with the replay's unrolls as PNG files."""
    evaluator = check_one_call(make_agent(name), environments())
    assert np.all(np.isfinite(run_episodes(environments(), evaluator, K)))


def test_a_flat_policy_samples_what_it_says():
    space = ActionSpace((3, 2, 2))
    tf.random.set_seed(0)
    policy = FlatPolicy(4, space)
    randomize(policy.parameters)
    twin = FlatPolicyTwin(policy)
    features = np.random.default_rng(0).standard_normal((2, 4)).astype(np.float32)
    logits = features @ policy.weights.numpy() + policy.bias.numpy()
    expected = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    drawn = twin.sample(features, 40_000, np.random.default_rng(1))
    for row in range(2):
        share = np.bincount(space.flat_index(drawn[row]), minlength=12) / 40_000
        np.testing.assert_allclose(share, expected[row], atol=0.01)
        every = space.all_actions()
        repeated = np.repeat(features[row : row + 1], 12, axis=0)
        log_prob, entropy = policy.log_prob_and_entropy(tf.constant(repeated), tf.constant(every))
        np.testing.assert_allclose(log_prob, np.log(expected[row]), rtol=1e-4)
        np.testing.assert_allclose(twin.log_prob(repeated, every), log_prob, rtol=1e-4)
        np.testing.assert_allclose(
            entropy, -(expected[row] * np.log(expected[row])).sum(), rtol=1e-4
        )
