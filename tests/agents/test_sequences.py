"""Tests of common.data.sequences, by an agent of no paper that learns from images."""

import types

import numpy as np
import pytest
from sides_task import EPISODE_STEPS, make_environments
import tensorflow as tf

from common.acting.policy import Policy
from common.agents.agent import Agent
from common.data.sequences import Sequences
from common.environments.spec import EnvironmentSpec
from common.replay import columns, png
from common.replay import memory as memory_lib
from common.replay.memory import UNKNOWN_PRIORITY
from common.types import StoredTimestep, Timesteps

SHAPE = (36, 36, 2)
SPEC = EnvironmentSpec(36 * 36 * 2, 3, image_shape=SHAPE, is_discrete=True)
FIRST, LAST = 0, 2
LENGTH = 5


class Actor(Policy):
    """Action 0; its recurrent state and its extras count the timesteps of the episode."""

    def load(self, flat):
        pass

    def initial_state(self, num_environments):
        return np.zeros(num_environments, np.int32)

    def __call__(self, observation, state):
        return np.zeros(len(observation), np.int32), state + 1, {"count": state}


class Learner(tf.Module):
    """Writes back the sum of each sequence's rewards as its priority."""

    def __init__(self):
        super().__init__()
        self.steps = tf.Variable(0, dtype=tf.int64, trainable=False)
        self.actor_variables = ()
        self.batches = []

    def update(self, batch):
        self.steps.assign_add(1)
        self.batches.append(tf.nest.map_structure(lambda x: x.shape, batch.steps))
        image = tf.cast(batch.steps.observation, tf.float32)
        return tf.reduce_sum(batch.steps.reward, 1), {"brightest": tf.reduce_max(image)}


class SequenceAgent(Agent):
    jit_compile = False

    def __init__(self, config, setting):
        super().__init__(config, setting)
        sample, remove = memory_lib.ContextualPriorityTree(), memory_lib.Fifo()
        self.data = Sequences(config, sample, remove, reward_clip=1.0)

    def step_specs(self, spec):
        scalar = tf.TensorSpec([])
        return StoredTimestep(
            observation=tf.TensorSpec(spec.image_shape, tf.uint8),
            action=tf.TensorSpec([], tf.int32),
            reward=scalar,
            discount=scalar,
            step_type=tf.TensorSpec([], tf.uint8),
            extras={"count": tf.TensorSpec([], tf.int32)},
        )

    def make_learner(self, spec, seed):
        return Learner()

    def make_actor(self, spec, actors, num_actors, seed):
        return Actor()

    def make_evaluator(self, spec, num_environments):
        return Actor()


class PngAgent(SequenceAgent):
    """The same with compressed images."""

    decodes = True

    def step_specs(self, spec):
        return super().step_specs(spec)._replace(observation=png.column(spec.image_shape))

    def encode(self, observation):
        return png.encode(observation)

    def decode(self, steps, spec):
        return steps._replace(observation=png.decode(steps.observation, spec.image_shape))


def make_agent(kind=SequenceAgent, **changes):
    fields = dict(
        sequence_length=LENGTH,
        discount=0.9,
        batch_size=4,
        actor_period=1,
        replay_capacity=50,
        min_replay_size=6,
        samples_per_insert=0.0,
    )
    return kind(types.SimpleNamespace(**fields | changes), "small")


def make_writer(agent, actors, incarnation, **options):
    writer = agent.make_writer(Actor(), actors, SPEC, 0, **options)
    writer.incarnation = incarnation
    return writer


def make_loop(agent, memory, on_episode=lambda *episode: None):
    """Two actors that add to the memory."""
    writer = make_writer(agent, range(2), incarnation=3)

    def add(added):
        for delivery in writer.add(added):
            memory.put(delivery.rows)

    return agent.acting_loop(Actor(), make_environments(0, 2), add, on_episode)


def make_trainer(agent, learner, memory):
    return agent.make_trainer(learner, memory, SPEC, 1, agent.rate_limiter(in_turns=True))


@pytest.mark.parametrize("in_batches", [False, True])
def test_items_have_the_keys_of_their_timesteps_and_unknown_priorities(in_batches):
    steps = StoredTimestep(*(np.arange(4) for _ in range(5)), {"count": np.arange(4)})
    added = Timesteps(np.array([0, 1, 0, 1]), np.array([7, 7, 8, 8]), steps, [1, 0], [3, 4])
    writer = make_writer(make_agent(), range(4, 6), 6, shard=1, in_batches=in_batches)
    ((items, num_steps),) = writer.add(added)
    assert num_steps == writer.count_steps(added) == 3  # no action is taken at the last timestep
    assert not writer.flush()
    np.testing.assert_array_equal(items.keys, columns.make_keys(1, [4, 5, 4, 5], 6, [7, 7, 8, 8]))
    np.testing.assert_array_equal(items.item_keys, columns.make_keys(1, [5, 4], 6, [3, 4]))
    np.testing.assert_array_equal(items.item_lengths, [LENGTH] * 2)
    np.testing.assert_array_equal(items.priorities, [UNKNOWN_PRIORITY] * 2)
    assert items.steps is steps
    assert items.item_lengths.dtype == np.int32 and items.priorities.dtype == np.float32


@pytest.mark.parametrize("kind", [SequenceAgent, PngAgent])
def test_from_the_acting_loop_through_the_memory_to_the_learner(kind):
    agent, episodes = make_agent(kind), []
    assert agent.data.sequence_length == LENGTH
    memory, learner = agent.make_store(SPEC, seed=0), Learner()
    loop = make_loop(agent, memory, lambda *episode: episodes.append(episode))
    trainer = make_trainer(agent, learner, memory)
    for _ in range(LENGTH + 2):  # two sequences of each actor
        loop.step()
    assert memory.statistics().items == 4 and trainer.step() is None
    for _ in range(60):
        loop.step()
    assert memory.statistics().steps == agent.config.replay_capacity

    assert trainer.step() == {"brightest": 200}
    (shapes,) = learner.batches
    assert shapes.observation == [4, LENGTH, *SHAPE] and shapes.extras["count"] == [4, LENGTH]
    sample = memory.sample(200, max_length=LENGTH)
    steps = sample.steps
    # The reward of 5 is clipped, and the count begins anew with each episode.
    assert set(np.unique(steps.reward)) == {0, 1}
    np.testing.assert_array_equal(steps.extras["count"] == 0, steps.step_type == FIRST)
    ends = steps.step_type == LAST
    np.testing.assert_array_equal(ends, steps.extras["count"] == EPISODE_STEPS)
    is_cut = ends.numpy() | (steps.step_type == FIRST).numpy()
    np.testing.assert_array_equal(steps.discount, np.where(is_cut, 0, np.float32(0.9)))
    assert episodes and all(length == EPISODE_STEPS for _, _, length in episodes)


def test_a_call_of_several_updates_takes_sequences_apart():
    agent = make_agent()
    agent.updates_per_call = 3
    memory, learner = agent.make_store(SPEC, seed=0), Learner()
    loop = make_loop(agent, memory)
    for _ in range(30):
        loop.step()
    assert make_trainer(agent, learner, memory).step() is not None and int(learner.steps) == 3
    assert all(shapes.observation == [4, LENGTH, *SHAPE] for shapes in learner.batches)
