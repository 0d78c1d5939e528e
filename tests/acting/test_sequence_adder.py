"""Tests of common.data.sequences; sequences are read from a real memory."""

import dm_env
import numpy as np
import pytest
import tensorflow as tf
from timesteps import FIRST, LAST, MID, random_experience, timestep

from common.data.sequences import SequenceAdder
from common.replay import columns
from common.replay.memory import Fifo, Memory, Uniform
from common.types import StoredTimestep, Timesteps

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


def insert(memory, added: Timesteps, length):
    memory.insert(
        columns.make_keys(1, added.environment_index, 5, added.step),
        added.timesteps,
        np.ones(len(added.item_step), np.float32),
        columns.make_keys(1, added.item_environment_index, 5, added.item_step),
        np.full(len(added.item_step), length, np.int32),
    )


@pytest.mark.parametrize("clip", [None, 1.0])
@pytest.mark.parametrize("length", [2, 3, 8, 33])
@pytest.mark.parametrize("seed", range(3))
def test_each_sequence_in_a_memory_is_a_part_of_the_stream(length, seed, clip):
    rng = np.random.default_rng([seed, length])
    k, num_steps = int(rng.integers(1, 6)), length + int(rng.integers(2, 60))
    stream = random_stream(rng, num_steps, k)
    adder = SequenceAdder(k, length, GAMMA, clip)
    memory = Memory(SPECS, 1000, {"all": Uniform(), "old": Fifo()}, "old", seed=1)
    for added in run(adder, *stream):
        if added is not None:
            insert(memory, added, length)
    memory.check()

    # The timestep of the last `act` is not given yet.
    starts = num_steps - 1 - length + 1
    statistics = memory.statistics()
    assert statistics.items == statistics.inserted == k * starts
    assert statistics.steps == k * (num_steps - 1)
    assert statistics.duplicates == statistics.incomplete == statistics.unviewed == 0

    sample = memory.sample(6 * k * starts, "all", max_length=length)
    assert np.all(sample.lengths == length)
    drawn = dict(zip(sample.keys.numpy().tolist(), range(len(sample.keys))))
    bound = np.inf if clip is None else clip
    seen = 0
    for environment in range(k):
        frames = [expected(t, environment, *stream, bound) for t in range(num_steps)]
        for start in range(starts):
            row = drawn.get(int(columns.make_keys(1, environment, 5, start)))
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


@pytest.mark.parametrize("k", [1, 3])
def test_the_first_call_that_gives_anything_gives_a_whole_sequence(k):
    stream = random_stream(np.random.default_rng(0), 12, k)
    given = run(SequenceAdder(k, 4, GAMMA), *stream)
    assert given[:4] == [None] * 4
    first, rows = given[4], np.arange(k)
    np.testing.assert_array_equal(first.step, np.repeat(np.arange(4), k))
    np.testing.assert_array_equal(first.environment_index, np.tile(rows, 4))
    np.testing.assert_array_equal(first.item_step, np.zeros(k))
    np.testing.assert_array_equal(first.item_environment_index, rows)
    for t, added in enumerate(given[5:], start=5):
        np.testing.assert_array_equal(added.step, np.full(k, t - 1))
        np.testing.assert_array_equal(added.environment_index, rows)
        np.testing.assert_array_equal(added.item_step, np.full(k, t - 4))
        np.testing.assert_array_equal(added.item_environment_index, rows)


def test_resets_lost_lives_and_time_limits():
    step_types = [FIRST, MID, MID, MID, LAST, FIRST, MID, LAST, FIRST, MID]
    rewards = [9, 1, 2, -3, 0.5, 9, 1, 1, 9, 1]  # one at FIRST would be of the episode before
    discounts = [1, 1, 0, 1, 1, 1, 1, 0, 1, 1]
    stream = [np.array(values)[:, None] for values in (step_types, rewards, discounts)]
    steps = run(SequenceAdder(1, 9, GAMMA, reward_clip=1.0), *stream)[-1].timesteps
    np.testing.assert_array_equal(steps.step_type, step_types[:9])
    np.testing.assert_array_equal(steps.reward, [0, 1, 1, -1, 0.5, 0, 1, 1, 0])
    g = np.float32(GAMMA)
    #                                                  life, limit,   end
    np.testing.assert_array_equal(steps.discount, [0, g, 0, g, g, 0, g, 0, 0])


def test_dtypes():
    stream = random_stream(np.random.default_rng(0), 6, 2)
    added = run(SequenceAdder(2, 3, GAMMA), *stream)[-1]
    assert isinstance(added, Timesteps) and isinstance(added.timesteps, StoredTimestep)
    assert added.environment_index.dtype == added.item_environment_index.dtype == np.int32
    assert added.step.dtype == added.item_step.dtype == np.int64
    tf.nest.map_structure(
        lambda spec, column: column.dtype == spec.dtype.as_numpy_dtype or pytest.fail(str(spec)),
        SPECS,
        added.timesteps,
    )


def test_observations_of_bytes():
    adder, k = SequenceAdder(2, 2, GAMMA), 2
    for t in range(4):
        files = np.empty(k, object)
        files[:] = [bytes([t, index]) * (t + 1) for index in range(k)]
        step = timestep([FIRST if t == 0 else MID] * k, [0] * k, [1] * k, files)
        added = adder.observe(step, {})
        adder.act(step, np.zeros(k, np.int32), {})
        files[:] = None
    assert added.timesteps.observation.tolist() == [b"\x02\x00" * 3, b"\x02\x01" * 3]


def test_actions_with_dimensions_and_no_extras():
    adder = SequenceAdder(2, 2, GAMMA)
    for t in range(3):
        step = timestep([MID] * 2, [0, 0], [1, 1], np.zeros((2, 3), np.float32))
        added = adder.observe(step, {})
        adder.act(step, np.full((2, 4), t, np.float32), {})
    np.testing.assert_array_equal(added.timesteps.action, np.repeat([[0], [0], [1], [1]], 4, 1))
    assert added.timesteps.extras == {}
