"""Tests of common.agents.agent, items and transitions, by an agent of no paper.

Its steps have two numbers.
"""

import types

import numpy as np
import pytest
import tensorflow as tf

from common.acting import policy as policy_lib
from common.agents.agent import Agent
from common.data.transitions import Transitions
from common.environments.spec import EnvironmentSpec
from common.replay import columns
from common.replay import memory as memory_lib
from common.replay.store import RateLimiter
from common.types import NStepTransitions, StoredTransition

SPEC = EnvironmentSpec(2, 1)


class Policy(policy_lib.Policy):
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


class TransitionAgent(Agent):
    jit_compile = False

    def __init__(self, config, setting, **options):
        super().__init__(config, setting)
        sample, remove = memory_lib.Proportional(1.0), memory_lib.Fifo()
        self.data = Transitions(config, sample, remove, **options)

    def step_specs(self, spec):
        scalar, observation = tf.TensorSpec([]), tf.TensorSpec([spec.observation_size])
        return StoredTransition(
            observation, tf.TensorSpec([spec.action_size]), scalar, scalar, observation
        )

    def make_learner(self, spec, seed):
        return Learner()

    def make_actor(self, spec, actors, num_actors, seed):
        return Policy()

    def make_evaluator(self, spec, num_environments):
        return Policy()


OPTIONS = ("num_copies", "reward_clip", "is_soft")


def make_agent(kind=TransitionAgent, **changes):
    """Returns an agent; `changes` are of its configuration, its data or its attributes."""
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
    options = {name: changes.pop(name) for name in OPTIONS if name in changes}
    agent = kind(types.SimpleNamespace(**config), "small", **options)
    for name, value in changes.items():
        setattr(agent, name, value)
    return agent


def make_writer(agent, actors=range(2), incarnation=0, **options):
    writer = agent.make_writer(Policy(), actors, SPEC, 0, **options)
    writer.incarnation = incarnation
    return writer


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
    writer = make_writer(make_agent(), range(4, 6), incarnation=6, shard=1)
    ((items, num_steps),) = writer.add(transitions(7, 3))
    assert num_steps == writer.count_steps(transitions(7, 3)) == 3
    np.testing.assert_array_equal(items.keys, columns.make_keys(1, [4, 5, 4], 6, [7, 8, 9]))
    np.testing.assert_array_equal(items.priorities, [7.5, 8.5, 9.5])
    assert items.steps._fields == StoredTransition._fields
    for name, column in items.steps._asdict().items():
        np.testing.assert_array_equal(column, getattr(transitions(7, 3), name))


def test_copies_stand_beside_each_other_with_keys_of_their_own():
    writer = make_writer(make_agent(num_copies=2), range(4, 6), incarnation=6, shard=1)
    ((items, num_steps),) = writer.add(transitions(7, 3))
    assert num_steps == writer.count_steps(transitions(7, 3)) == 3  # of the actors
    np.testing.assert_array_equal(
        items.keys, columns.make_keys(1, [4, 4, 5, 5, 4, 4], 6, [14, 15, 16, 17, 18, 19])
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
def test_the_rate_limiter_covers_what_either_side_takes_at_once(changes, in_turns, tolerance):
    agent = make_agent(**changes)
    expected = RateLimiter(6, agent.samples_per_insert, float(tolerance))
    assert agent.rate_limiter(in_turns) == expected


def steps_of(deliveries):
    """Returns the first steps of deliveries' transitions, after a check of their number."""
    for items, num_steps in deliveries:
        assert len(items.keys) == num_steps
    return [(items.priorities - 0.5).astype(int).tolist() for items, _ in deliveries]


def test_a_store_elsewhere_gets_so_many_transitions_at_a_time():
    writer = make_writer(make_agent(), in_batches=True)
    assert not list(writer.add(transitions(0, 4)))  # not enough yet
    ends = writer.add(transitions(4, 31))  # an episode's end gives many at once
    assert steps_of(ends) == [[*range(0, 11)], [*range(11, 23)], [*range(23, 35)]]  # no small rest
    assert not list(writer.add(transitions(35, 9))) and not list(writer.add(transitions(44, 0)))
    assert steps_of(writer.flush()) == [[*range(35, 44)]] and not list(writer.flush())
    assert steps_of(make_writer(make_agent()).add(transitions(0, 31))) == [[*range(31)]]


def fill(memory, agent, count):
    writer = make_writer(agent)
    for step in range(count):
        for delivery in writer.add(transitions(step, 1)):
            assert memory.put(delivery.rows)


def make_trainer(agent, memory):
    return agent.make_trainer(Learner(), memory, SPEC, 0, agent.rate_limiter())


@pytest.mark.parametrize("num_shards, capacity", [(1, 20), (3, 7)])
def test_the_shards_of_a_memory_hold_its_capacity_together(num_shards, capacity):
    memory = make_agent().make_store(SPEC, seed=0, num_shards=num_shards)
    fill(memory, make_agent(), 30)
    assert memory.statistics().items == capacity


def test_the_capacity_is_soft_where_the_learner_removes():
    agent = make_agent(trim_period=1, is_soft=True)
    memory = agent.make_store(SPEC, seed=0)
    fill(memory, agent, 25)
    assert memory.statistics().items == 25
    assert make_trainer(agent, memory).step() is not None
    assert memory.statistics().items == 20


def test_a_learner_decodes_as_the_agent_says():
    class Doubling(TransitionAgent):
        decodes = True

        def decode(self, steps, spec):
            assert spec == SPEC
            return steps._replace(n_step_reward=2 * steps.n_step_reward + 100)

    assert not make_agent().decodes
    agent = make_agent(Doubling)
    memory = agent.make_store(SPEC, seed=0)
    fill(memory, agent, 6)
    metrics = make_trainer(agent, memory).step()
    assert metrics.keys() == {"reward"}
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
