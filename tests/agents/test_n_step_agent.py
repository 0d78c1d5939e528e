"""Tests of common.agents.agent and n_step_agent, by an agent of no paper.

Its steps have two numbers.
"""

import types

import numpy as np
import pytest
import tensorflow as tf

from common.acting.policy import ExploringPolicy
from common.agents.n_step_agent import NStepAgent
from common.environments.spec import EnvironmentSpec
from common.replay import distributions, keys
from common.replay.schedule import Schedule
from common.types import NStepTransitions, StoredTransition

SPEC = EnvironmentSpec(2, 1)


class Policy(ExploringPolicy):
    """Actions of 0; a transition's priority is its step and a half."""

    def load(self, flat):
        pass

    def __call__(self, observation, state):
        return np.zeros((len(observation), 1), np.float32), state, {}

    def initial_priorities(self, transitions):
        return transitions.step + np.float32(0.5)


class Learner(tf.Module):
    """Writes back each item's reward as its priority."""

    def __init__(self):
        super().__init__()
        self.steps = tf.Variable(0, dtype=tf.int64, trainable=False)
        self.actor_variables = ()

    def update(self, batch):
        self.steps.assign_add(1)
        rewards = batch.steps.n_step_reward
        return rewards, {"reward": tf.reduce_mean(rewards)}


class Agent(NStepAgent):
    paper = "none"
    metrics = ("reward",)
    jit_compile = False

    def require(self, spec):
        pass

    def step_specs(self, spec):
        scalar, observation = tf.TensorSpec([]), tf.TensorSpec([spec.observation_size])
        return StoredTransition(
            observation, tf.TensorSpec([spec.action_size]), scalar, scalar, observation
        )

    def distributions(self):
        sample = distributions.Proportional(1.0)
        return {"sample": sample, "remove": distributions.Fifo()}, "remove"

    def make_learner(self, spec, seed):
        return Learner()

    def make_actor(self, spec, actors, num_actors, seed):
        return Policy()

    def make_evaluator(self, spec, num_environments):
        return Policy()


def make_agent(**changes):
    fields = dict(
        n_step=3,
        discount=0.9,
        batch_size=4,
        actor_period=1,
        send_batch=10,
        replay_capacity=20,
        min_replay_size=6,
        samples_per_insert=0.0,
    )
    config = {name: changes.pop(name, value) for name, value in fields.items()}
    agent = Agent(types.SimpleNamespace(**config), "small")
    for name, value in changes.items():
        setattr(agent, name, value)
    return agent


def transitions(first_step, count):
    rewards = np.arange(first_step, first_step + count, dtype=np.float32) + 1
    return NStepTransitions(
        environment_index=np.arange(count) % 2,
        step=np.arange(first_step, first_step + count),
        observation_tm1=np.ones((count, 2), np.float32),
        action_tm1=np.zeros((count, 1), np.float32),
        n_step_reward=rewards,
        n_step_discount=np.full(count, 0.9, np.float32),
        observation_t=np.ones((count, 2), np.float32),
        extras_tm1={},
        extras_t={},
    )


def test_a_configuration_without_a_ratio_has_none():
    assert make_agent().samples_per_insert is None
    assert make_agent(samples_per_insert=8.0).samples_per_insert == 8.0
    assert make_agent().setting == "small"


def test_items_have_the_keys_of_the_papers_actors_and_the_actors_priorities():
    items = make_agent().items(Policy(), range(4, 6), 1, transitions(7, 3), incarnation=6)
    np.testing.assert_array_equal(items.keys, keys.make_keys(1, [4, 5, 4], 6, [7, 8, 9]))
    np.testing.assert_array_equal(items.priorities, [7.5, 8.5, 9.5])
    assert items.steps._fields == StoredTransition._fields
    for name, column in items.steps._asdict().items():
        np.testing.assert_array_equal(column, getattr(transitions(7, 3), name))


def test_copies_stand_beside_each_other_with_keys_of_their_own():
    agent = make_agent(num_copies=2)
    items = agent.items(Policy(), range(4, 6), 1, transitions(7, 3), incarnation=6)
    np.testing.assert_array_equal(
        items.keys, keys.make_keys(1, [4, 4, 5, 5, 4, 4], 6, [14, 15, 16, 17, 18, 19])
    )
    np.testing.assert_array_equal(items.steps.n_step_reward, [8, 8, 9, 9, 10, 10])
    np.testing.assert_array_equal(items.priorities, [7.5, 7.5, 8.5, 8.5, 9.5, 9.5])


@pytest.mark.parametrize(
    "changes, in_turns, tolerance",
    [
        ({}, False, 2 * 4),  # two calls
        ({"updates_per_call": 3}, False, 2 * 12),
        ({"prefetch": 5}, False, 6 * 4),  # the call and those ahead
        ({"prefetch": 5}, True, 2 * 4),
        ({"samples_per_insert": 8.0}, False, 2 * 80.0),  # two sends
        ({"samples_per_insert": 8.0}, True, 2 * 4),
        ({"samples_per_insert": 8.0, "num_copies": 3}, False, 2 * 240.0),
    ],
)
def test_the_schedule_covers_what_either_side_takes_at_once(changes, in_turns, tolerance):
    agent = make_agent(**changes)
    expected = Schedule(6, agent.samples_per_insert, float(tolerance))
    assert agent.schedule(in_turns) == expected


def fill(memory, agent, count):
    for step in range(count):
        items = agent.items(Policy(), range(1), 0, transitions(step, 1), incarnation=0)
        memory.insert(*items)


@pytest.mark.parametrize("num_shards, capacity", [(1, 20), (3, 7)])
def test_the_shards_of_a_memory_hold_its_capacity_together(num_shards, capacity):
    memory = make_agent().make_memory(SPEC, seed=0, num_shards=num_shards)
    fill(memory, make_agent(), 30)
    assert memory.statistics().items == capacity


def test_the_capacity_is_soft_where_the_learner_removes():
    agent = make_agent(removal_period=1)
    memory = agent.make_memory(SPEC, seed=0)
    fill(memory, agent, 25)
    assert memory.statistics().items == 25
    assert agent.replay_learner(Learner(), memory, SPEC, 0, agent.schedule()).step() is not None
    assert memory.statistics().items == 20


def test_a_learner_decodes_as_the_agent_says():
    class Doubling(Agent):
        def decode(self, steps, spec):
            assert spec == SPEC
            return steps._replace(n_step_reward=2 * steps.n_step_reward + 100)

    agent = make_agent()
    assert not agent.decodes
    agent.__class__ = Doubling
    assert agent.decodes
    memory = agent.make_memory(SPEC, seed=0)
    fill(memory, agent, 6)
    metrics = agent.replay_learner(Learner(), memory, SPEC, 0, agent.schedule()).step()
    assert metrics.keys() == set(agent.metrics)
    sample = memory.sample(500)
    rewards = sample.steps.n_step_reward.numpy()
    drawn = sample.masses.numpy() > 50
    np.testing.assert_array_equal(sample.masses.numpy()[drawn], 100 + 2 * rewards[drawn])
    assert drawn.any()


def test_an_adder_sums_clipped_rewards_over_the_agents_steps():
    from sides_task import make_environments

    agent, found, episodes = make_agent(n_step=2, discount=1.0, reward_clip=1.5), [], []

    class Left(Policy):
        def __call__(self, observation, state):
            return np.zeros(len(observation), np.int32), state, {}

    loop = agent.acting_loop(
        Left(), make_environments(0, 2), found.append, lambda *episode: episodes.append(episode)
    )
    for _ in range(11):
        loop.step()
    rewards = np.concatenate([batch.n_step_reward for batch in found])
    assert len(rewards) == 2 * 10 and set(rewards) == {0.0, 1.5, 3.0}
    assert sorted(index for index, _, _ in episodes) == [0, 1]
    assert all(total % 5 == 0 for _, total, _ in episodes)  # not clipped
