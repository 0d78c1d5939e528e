"""Tests of common.data.sequences: the adder alone, then with an agent that learns from images."""

import types

from agent_loops import StubAgent, StubLearner, StubPolicy, make_loop, put
import dm_env
import numpy as np
import pytest
from sides_task import EPISODE_STEPS, make_environments
import tensorflow as tf
from timesteps import ABSENT, FIRST, LAST, MID, random_experience, timestep

from common.data.sequences import SequenceAdder, Sequences, StoredTimestep
from common.environments.spec import EnvironmentSpec
from common.replay import columns, png
from common.replay import memory as memory_lib
from common.replay.memory import UNKNOWN_PRIORITY, Fifo, Memory, Uniform

GAMMA = 0.9
SPECS = StoredTimestep(
    observation={
        "where": tf.TensorSpec([2], tf.float32),
        "image": tf.TensorSpec([2, 3, 1], tf.uint8),
    },
    action=tf.TensorSpec([], tf.int32),
    reward=tf.TensorSpec([]),
    discount=tf.TensorSpec([]),
    step_type=tf.TensorSpec([], tf.uint8),
    extras={"mu": tf.TensorSpec([3])},
)


def random_stream(rng, num_steps, k):
    """Episodes in which lives are lost, and of which some are abandoned; rewards beyond a clip."""
    step_types, rewards, discounts = random_experience(rng, num_steps, k, {0: 0.2, 1: 0.8}, 0.9)
    return step_types, 5 * rewards, discounts


def expected(t, k, step_types, rewards, discounts, clip):
    """Returns the stored timestep t of environment k, one element at a time."""
    is_first = step_types[t, k] == FIRST
    reward = 0.0 if is_first else min(max(float(rewards[t, k]), -clip), clip)
    discount = 0.0 if is_first else GAMMA * float(discounts[t, k])
    return StoredTimestep(
        observation={"where": np.array([t, k]), "image": np.full((2, 3, 1), (7 * t + k) % 256)},
        action=10 * t + k,
        reward=reward,
        discount=discount,
        step_type=step_types[t, k],
        extras={"mu": np.array([t, k, t + 0.5])},
    )


def make_adder(k, length, reward_clip=None):
    """An adder of actors 4, 5, ... to shard 1."""
    adder = SequenceAdder(range(4, 4 + k), length, GAMMA, reward_clip, shard=1)
    adder.incarnation = 5
    return adder


def run(adder, step_types, rewards, discounts):
    """Returns what each call of `observe` gave; the arguments are [T, K]."""
    num_steps, k = step_types.shape
    given = []
    # One buffer each, overwritten: whatever the adder does not copy shows.
    where, mu = np.zeros((k, 2), np.float32), np.zeros((k, 3), np.float32)
    image, action = np.zeros((k, 2, 3, 1), np.uint8), np.zeros(k, np.int32)
    numbers = np.zeros(k, np.int32), np.zeros(k, np.float32), np.zeros(k, np.float32)
    rows = np.arange(k)
    for t in range(num_steps):
        for buffer, values in zip(numbers, (step_types, rewards, discounts)):
            buffer[:] = values[t]
        where[:, 0], where[:, 1], action[:] = t, rows, 10 * t + rows
        mu[:, 0], mu[:, 1], mu[:, 2] = t, rows, t + 0.5
        image[:] = ((7 * t + rows) % 256)[:, None, None, None]
        step = dm_env.TimeStep(*numbers, {"where": where, "image": image})
        given.append(adder.observe(step, {"mu": mu}))
        adder.act(step, action, {"mu": mu})
        for buffer in (where, mu, image, action, *numbers):
            buffer[:] = 99
    return given


@pytest.mark.parametrize(
    "length, seed, clip", [(2, 0, None), (3, 1, 1.0), (8, 2, None), (33, 0, 1.0)]
)
def test_each_sequence_in_a_memory_is_a_part_of_the_stream(length, seed, clip):
    rng = np.random.default_rng([seed, length])
    k, num_steps = int(rng.integers(1, 6)), length + int(rng.integers(2, 60))
    stream = random_stream(rng, num_steps, k)
    adder = make_adder(k, length, clip)
    memory = Memory(SPECS, 1000, {"all": Uniform(), "old": Fifo()}, "old", seed=1)
    for deliveries in run(adder, *stream):
        put(memory, deliveries)
    memory.check()

    # The timestep of the last `act` is not given yet.
    starts = num_steps - 1 - length + 1
    statistics = memory.statistics()
    assert statistics.items == statistics.inserted == k * starts
    assert statistics.steps == k * (num_steps - 1)
    repeated = k * (length - 1) * ((num_steps - 1) // (10 * length))
    assert statistics.duplicates == repeated and statistics.incomplete == statistics.unviewed == 0

    sample = memory.sample(6 * k * starts, "all", max_length=length)
    assert np.all(sample.lengths == length)
    drawn = dict(zip(sample.keys.numpy().tolist(), range(len(sample.keys))))
    bound = np.inf if clip is None else clip
    seen = 0
    for environment in range(k):
        frames = [expected(t, environment, *stream, bound) for t in range(num_steps)]
        for start in range(starts):
            row = drawn.get(int(columns.make_keys(1, 4 + environment, 5, start)))
            if row is None:
                continue
            seen += 1
            tf.nest.map_structure(
                lambda column, *wanted: np.testing.assert_array_equal(
                    column[row], np.asarray(wanted, column.dtype.as_numpy_dtype)
                ),
                sample.steps,
                *frames[start : start + length],
            )
    assert seen == len(drawn) > 0.9 * k * starts


def test_a_store_that_lost_timesteps_takes_sequences_again():
    """Without them the next sequence is refused, by which the one after it lacks a timestep."""
    k, length, num_steps, restart = 3, 4, 200, 50
    adder = make_adder(k, length)
    given = run(adder, *random_stream(np.random.default_rng(0), num_steps, k))
    memory = Memory(SPECS, 1000, {"all": Uniform()}, "all", seed=1)
    for deliveries in given[restart:]:
        put(memory, deliveries)
    memory.check()
    repeat = 80  # the first multiple of ten sequences after the restart
    assert memory.statistics().inserted == k * (num_steps - repeat)
    assert adder.num_steps == sum(count for deliveries in given for _, count in deliveries)
    assert adder.num_steps < k * num_steps  # no step is counted again


@pytest.mark.parametrize("k", [1, 3])
def test_the_first_call_that_gives_anything_gives_a_whole_sequence(k):
    stream = random_stream(np.random.default_rng(0), 12, k)
    adder, length = make_adder(k, 4), 4
    given = run(adder, *stream)
    assert not any(given[:length])
    rows, num_steps = 4 + np.arange(k), 0
    for t, ((items, count),) in enumerate(given[length:], start=length):
        times = np.arange(0 if t == length else t - 1, t)[:, None]
        np.testing.assert_array_equal(items.keys, columns.make_keys(1, rows, 5, times).ravel())
        np.testing.assert_array_equal(
            items.item_keys, columns.make_keys(1, rows, 5, np.full(k, t - length))
        )
        np.testing.assert_array_equal(items.item_lengths, [length] * k)
        np.testing.assert_array_equal(items.priorities, [UNKNOWN_PRIORITY] * k)
        # No action is taken at the last timestep of an episode.
        assert count == np.count_nonzero(items.steps.step_type != LAST)
        num_steps += count
    assert adder.num_steps == num_steps and not adder.flush()


def test_resets_lost_lives_and_time_limits():
    step_types = [FIRST, MID, MID, MID, LAST, FIRST, MID, LAST, FIRST, MID]
    rewards = [9, 1, 2, -3, 0.5, 9, 1, 1, 9, 1]  # one at FIRST would be of the episode before
    discounts = [1, 1, 0, 1, 1, 1, 1, 0, 1, 1]
    stream = [np.array(values)[:, None] for values in (step_types, rewards, discounts)]
    ((items, _),) = run(make_adder(1, 9, reward_clip=1.0), *stream)[-1]
    steps = items.steps
    np.testing.assert_array_equal(steps.step_type, step_types[:9])
    np.testing.assert_array_equal(steps.reward, [0, 1, 1, -1, 0.5, 0, 1, 1, 0])
    g = np.float32(GAMMA)
    #                                                  life, limit,   end
    np.testing.assert_array_equal(steps.discount, [0, g, 0, g, g, 0, g, 0, 0])


def test_where_an_environment_is_gone_an_episode_ends_without_reward():
    step_types = [FIRST, MID, ABSENT, ABSENT, FIRST, MID]
    stream = [np.array(values)[:, None] for values in (step_types, [0, 1, 0, 0, 0, 1], [1] * 6)]
    ((items, count),) = run(make_adder(1, 5), *stream)[-1]
    np.testing.assert_array_equal(items.steps.step_type, [FIRST, MID, LAST, LAST, FIRST])
    np.testing.assert_array_equal(items.steps.reward, [0, 1, 0, 0, 0])
    np.testing.assert_array_equal(items.steps.discount, [0, np.float32(GAMMA), 0, 0, 0])
    assert count == 3


def test_actions_with_dimensions_and_no_extras():
    adder = make_adder(2, 2)
    for t in range(3):
        step = timestep([MID] * 2, [0, 0], [1, 1], np.zeros((2, 3), np.float32))
        deliveries = adder.observe(step, {})
        adder.act(step, np.full((2, 4), t, np.float32), {})
    ((items, _),) = deliveries
    np.testing.assert_array_equal(items.steps.action, np.repeat([[0], [0], [1], [1]], 4, 1))
    assert items.steps.extras == {}


# With an agent.

SHAPE = (36, 36, 2)
SPEC = EnvironmentSpec(36 * 36 * 2, 3, image_shape=SHAPE, is_discrete=True)
LENGTH = 5


class Actor(StubPolicy):
    """Action 0; its recurrent state and its extras count the timesteps of the episode."""

    def initial_state(self, num_environments):
        return np.zeros(num_environments, np.int32)

    def __call__(self, observation, state):
        return np.zeros(len(observation), np.int32), state + 1, {"count": state}


class Learner(StubLearner):
    """Writes back the sum of each sequence's rewards as its priority."""

    def __init__(self):
        super().__init__()
        self.batches = []

    def update(self, batch):
        self.steps.assign_add(1)
        self.batches.append(tf.nest.map_structure(lambda x: x.shape, batch.steps))
        image = tf.cast(batch.steps.observation, tf.float32)
        return tf.reduce_sum(batch.steps.reward, 1), {"brightest": tf.reduce_max(image)}


class SequenceAgent(StubAgent):
    policy, learner = Actor, Learner

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


def make_trainer(agent, learner, memory):
    return agent.make_trainer(learner, memory, SPEC, 1, agent.rate_limiter(in_turns=True))


@pytest.mark.parametrize("kind", [SequenceAgent, PngAgent])
def test_from_the_acting_loop_through_the_memory_to_the_learner(kind):
    agent, episodes = make_agent(kind), []
    assert agent.data.sequence_length == LENGTH
    memory, learner = agent.data.make_store(agent.step_specs(SPEC), seed=0), Learner()
    _, loop = make_loop(
        agent, Actor(), make_environments(0, 2), lambda *episode: episodes.append(episode)
    )
    trainer = make_trainer(agent, learner, memory)
    for _ in range(LENGTH + 2):  # two sequences of each actor
        put(memory, loop.step())
    assert memory.statistics().items == 4 and trainer.step() is None
    for _ in range(60):
        put(memory, loop.step())
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
    memory, learner = agent.data.make_store(agent.step_specs(SPEC), seed=0), Learner()
    _, loop = make_loop(agent, Actor(), make_environments(0, 2))
    for _ in range(30):
        put(memory, loop.step())
    assert make_trainer(agent, learner, memory).step() is not None and int(learner.steps) == 3
    assert all(shapes.observation == [4, LENGTH, *SHAPE] for shapes in learner.batches)
