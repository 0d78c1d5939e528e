"""Tests of product action spaces."""

import itertools
import math

import numpy as np
import tensorflow as tf

from common.environments import lab_actions
from common.environments.spec import EnvironmentSpec
from reproductions.aql.actions import ActionSpace

HYBRID = ActionSpace((3, 0, 2))


def test_a_hybrid_space_is_encoded_one_hot_or_as_it_is():
    actions = np.array([[2, -0.25, 0], [0, 1, 1]], np.float32)
    expected = [[0, 0, 1, -0.25, 1, 0], [1, 0, 0, 1, 0, 1]]
    np.testing.assert_array_equal(HYBRID.encode(actions), expected)
    assert HYBRID.encode(actions).dtype == np.float32
    assert HYBRID.offsets == (0, 3, 4) and HYBRID.encoded_size == 6 and HYBRID.size == 3


def test_integers_are_encoded_as_float32():
    space, actions = ActionSpace((3, 2)), np.array([[2, 1]], np.int32)
    for encoded in (space.encode(actions), space.encode(tf.constant(actions)).numpy()):
        assert encoded.dtype == np.float32
        np.testing.assert_array_equal(encoded, [[0, 0, 1, 0, 1]])


def test_tensors_are_encoded_as_arrays_are():
    actions = HYBRID.uniform((4, 7), np.random.default_rng(0))
    encoded = tf.function(HYBRID.encode, jit_compile=True)(tf.constant(actions))
    np.testing.assert_array_equal(encoded, HYBRID.encode(actions))


def test_values_are_evenly_spaced():
    np.testing.assert_array_equal(
        ActionSpace((5,)).values(np.arange(5.0)[:, np.newaxis])[:, 0], [-1, -0.5, 0, 0.5, 1]
    )
    for k in range(2, 12):
        values = ActionSpace((k,)).values(np.arange(k, dtype=np.float32)[:, np.newaxis])
        np.testing.assert_array_equal(values[:, 0], np.linspace(-1, 1, k).astype(np.float32))
    values = ActionSpace((1, 0)).values(np.array([0, 0.3], np.float32))
    np.testing.assert_array_equal(values, np.array([0, 0.3], np.float32))


def test_uniform_actions_are_uniform_over_the_choices():
    actions = HYBRID.uniform((30_000,), np.random.default_rng(1))
    assert actions.shape == (30_000, 3) and actions.dtype == np.float32
    for column, k in ((0, 3), (2, 2)):
        counts = np.bincount(actions[:, column].astype(int), minlength=k)
        assert len(counts) == k
        np.testing.assert_allclose(counts / 30_000, 1 / k, atol=0.015)  # five deviations
    counts, _ = np.histogram(actions[:, 1], bins=10, range=(-1, 1))
    np.testing.assert_allclose(counts / 30_000, 0.1, atol=0.01)


def test_a_finite_space_is_enumerated():
    space = ActionSpace((3, 1, 2))
    every = space.all_actions()
    assert space.num_actions == 6 and every.shape == (6, 3)
    np.testing.assert_array_equal(space.flat_index(every), np.arange(6))
    np.testing.assert_array_equal(space.flat_index(np.array([[2, 0, 1]], np.float32)), [5])
    np.testing.assert_array_equal(space.flat_index(tf.constant(every)), np.arange(6))
    assert ActionSpace((5,) * 21).num_actions == 5**21
    assert HYBRID.num_actions == math.inf


def test_the_space_of_an_environment():
    continuous = EnvironmentSpec(observation_size=3, action_size=2)
    assert ActionSpace.of(continuous, 5).choices == (5, 5)
    assert ActionSpace.of(continuous, 0).choices == (0, 0)
    integers = EnvironmentSpec(observation_size=3, action_size=2, action_choices=(7, 3))
    assert ActionSpace.of(integers, 5).choices == (7, 3)
    discrete = EnvironmentSpec(observation_size=3, action_size=4, is_discrete=True)
    assert ActionSpace.of(discrete, 5).choices == (4,)


def test_actions_for_an_environment():
    actions = np.array([[4, 1], [0, 2]], np.float32)
    continuous = EnvironmentSpec(observation_size=3, action_size=2)
    taken = ActionSpace((5, 5)).to_environment(actions, continuous)
    np.testing.assert_array_equal(taken, [[1, -0.5], [-1, 0]])
    assert taken.dtype == np.float32
    integers = EnvironmentSpec(observation_size=3, action_size=2, action_choices=(7, 3))
    taken = ActionSpace((7, 3)).to_environment(actions, integers)
    np.testing.assert_array_equal(taken, [[4, 1], [0, 2]])
    assert taken.dtype == np.int32
    hybrid = EnvironmentSpec(observation_size=3, action_size=2, action_choices=(5, 0))
    for levels, action, expected in ((5, [4, 3], [4, 0.5]), (0, [2, -0.3], [2, -0.3])):
        space = ActionSpace.of(hybrid, levels)
        assert space.choices == (5, levels)
        taken = space.to_environment(np.array([action], np.float32), hybrid)
        np.testing.assert_array_equal(taken, np.array([expected], np.float32))
        assert taken.dtype == np.float32
    discrete = EnvironmentSpec(observation_size=3, action_size=5, is_discrete=True)
    taken = ActionSpace((5,)).to_environment(actions[:, :1], discrete)
    np.testing.assert_array_equal(taken, [4, 0])
    assert taken.dtype == np.int32


def test_the_sets_of_deepmind_labs_actions():
    """Each of the 3,528 and of the 11 is another action, and what its values say."""
    spec = EnvironmentSpec(3 * 84 * 84, 7, (84, 84, 3), action_choices=(1025, 1025, 3, 3, 2, 2, 2))
    structured = ActionSpace.of(spec, 5, "structured")
    curated = ActionSpace.of(spec, 5, "curated")
    assert (structured.num_actions, structured.encoded_size) == (3528, 26)
    assert (curated.num_actions, curated.encoded_size) == (11, 11)
    for space, expected in (
        (structured, list(itertools.product(*lab_actions.STRUCTURED))),
        (curated, list(lab_actions.CURATED)),
    ):
        actions = space.to_environment(space.all_actions(), spec)
        assert actions.dtype == np.int32 and len(set(map(tuple, actions))) == space.num_actions
        np.testing.assert_array_equal(actions, expected)
        for action in actions:
            lab_actions.require_valid(action)
