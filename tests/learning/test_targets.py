"""Tests of common.learning.learner."""

import numpy as np
import pytest
import tensorflow as tf

from common.learning import learner


def _variables(value):
    return [tf.Variable(tf.fill([2, 3], value)), tf.Variable(tf.fill([4], 10 * value))]


def _values(variables):
    return [variable.numpy() for variable in variables]


def test_copy_makes_equal():
    source, target = _variables(1.5), _variables(0.0)
    learner.copy_variables(source, target)
    for s, t in zip(source, target):
        np.testing.assert_array_equal(s, t)
    source[0].assign_add(tf.ones([2, 3]))
    np.testing.assert_array_equal(target[0], np.full([2, 3], 1.5, np.float32))


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("copy", [learner.copy_periodically, learner.copy_in_branch])
def test_periodic_copy_is_hard_and_exactly_at_multiples(copy, jit_compile):
    source, target = _variables(0.0), _variables(0.0)
    step = tf.Variable(0, dtype=tf.int64)

    @tf.function(jit_compile=jit_compile)
    def advance():
        for variable in source:
            variable.assign_add(tf.ones_like(variable))
        step.assign_add(1)
        copy(step, 3, source, target)

    seen = []
    for _ in range(10):
        advance()
        assert len({float(v) for value in _values(target) for v in value.ravel()}) == 1
        seen.append(float(target[0][0, 0]))
    assert seen == [0, 0, 3, 3, 3, 6, 6, 6, 9, 9]
    np.testing.assert_array_equal(source[0], np.full([2, 3], 10, np.float32))


@pytest.mark.parametrize("jit_compile", [False, True])
def test_soft_updates_approach_by_the_rate(jit_compile):
    source, target = _variables(1.0), _variables(0.0)
    move = tf.function(lambda: learner.move_towards(source, target, 0.25), jit_compile=jit_compile)
    for expected in (0.25, 0.4375):
        move()
        np.testing.assert_allclose(target[0], np.full([2, 3], expected), rtol=1e-6)
        np.testing.assert_allclose(target[1], np.full([4], 10 * expected), rtol=1e-6)
    np.testing.assert_array_equal(source[0], np.ones([2, 3], np.float32))
    learner.move_towards(source, target, 1.0)
    np.testing.assert_array_equal(target[1], source[1])


def test_other_numbers_of_variables_are_an_error():
    with pytest.raises(ValueError):
        learner.copy_variables(_variables(1.0), _variables(0.0)[:1])
    with pytest.raises(ValueError):
        learner.move_towards(_variables(1.0), _variables(0.0)[:1], 0.1)
    with pytest.raises(ValueError):
        learner.copy_periodically(tf.constant(0), 1, _variables(1.0)[:1], _variables(0.0))
