"""Tests of common.learning.learner; an update itself: test_dqn_learner."""

import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf

from common.learning import learner

RATE, DECAY, EPSILON = 0.00025 / 4, 0.95, 1.5e-7


class Descent:
    """A vector from 0, one of the optimiser's ways to apply gradients to it, and its moments."""

    def __init__(self, size, way="_apply_to"):
        self.variable = tf.Variable(tf.zeros(size))
        optimizer = learner.CenteredRMSProp(RATE, DECAY, EPSILON)
        learner.create_variables(optimizer, [self.variable])
        self.moments = optimizer.mom[0], optimizer.ms[0], optimizer.mg[0]
        self._apply = getattr(optimizer, way)

    @tf.function
    def go(self, gradient, steps):
        """Applies one gradient so many times."""
        for _ in tf.range(steps):
            self._apply(gradient, self.variable, *self.moments)


def gradients(scale):
    return tf.constant(scale * np.linspace(0.5, 1, 1024), tf.float32)


@pytest.mark.parametrize("before", [0.0, 2.0])
@pytest.mark.parametrize("scale", [1e-4, 0.16, 40.0])
def test_constant_gradients_stay_finite_and_make_bounded_steps(scale, before):
    """Their variance is 0, so the steps are rate g / sqrt(epsilon) but for rounding.

    It may make them far smaller, and at most twice as large. Up to 40, the bound of their norm, and
    from the first step on or after larger ones.
    """
    gradient, descent = gradients(scale), Descent(1024)
    descent.go(before * gradient, tf.constant(100))
    descent.go(gradient, tf.constant(2000))
    begin = descent.variable.numpy()
    descent.go(gradient, tf.constant(500))
    step = (begin - descent.variable.numpy()) / 500
    largest = RATE * gradient.numpy() / np.sqrt(EPSILON)
    assert np.all(np.isfinite(begin)) and np.all(step > 0)
    assert np.all(step < 2.01 * largest)
    if scale == 1e-4:
        np.testing.assert_allclose(step, largest, rtol=2e-3)


@pytest.mark.parametrize("scale", [1e-3, 0.1])
def test_kernel_and_operations_agree(scale):
    """On gradients that vary, as far as float32 can."""
    ways = Descent(100, "_apply_kernel"), Descent(100, "_apply_operations")
    generator = np.random.default_rng(0)
    for _ in range(20):
        gradient = tf.constant(scale * generator.normal(size=100), tf.float32)
        for way in ways:
            way.go(gradient, tf.constant(1))
    for kernel, operations in zip(*([way.variable, *way.moments[1:]] for way in ways)):
        np.testing.assert_allclose(kernel, operations, rtol=2e-4, atol=1e-9)


@pytest.mark.parametrize("beta1", [0.0, 0.9])
def test_adam_is_sonnets(beta1):
    """From gradients far above epsilon to some far below it, also in the first steps."""
    generator = np.random.default_rng(0)
    scales = np.array([1.0, 1e-4, 1e-7, 1e-9, 0.0])
    variables = tf.Variable(np.ones(5, np.float32)), tf.Variable(np.ones(5, np.float32))
    ways = [
        optimizer(1e-3, beta1, 0.999, 1e-8) for optimizer in (learner.Adam, snt.optimizers.Adam)
    ]
    for optimizer, variable in zip(ways, variables):
        learner.create_variables(optimizer, [variable])
        assert int(optimizer.step) == 0
    for step in range(1, 20):
        gradient = tf.constant(scales * generator.normal(size=5), tf.float32)
        for optimizer, variable in zip(ways, variables):
            optimizer.apply([gradient], [variable])
            assert int(optimizer.step) == step
        for ours, theirs in zip(*([v, o.m[0], o.v[0]] for o, v in zip(ways, variables))):
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=2e-7)
    assert variables[0][4] == 1.0


def _variables(value):
    return [tf.Variable(tf.fill([2, 3], value)), tf.Variable(tf.fill([4], 10 * value))]


@pytest.mark.parametrize("copy", [learner.copy_periodically, learner.copy_in_branch])
def test_periodic_copy_is_hard_and_exactly_at_multiples(copy):
    source, target = _variables(0.0), _variables(0.0)
    step = tf.Variable(0, dtype=tf.int64)

    @tf.function(jit_compile=True)
    def advance():
        for variable in source:
            variable.assign_add(tf.ones_like(variable))
        step.assign_add(1)
        copy(step, 3, source, target)

    for expected in (0, 0, 3, 3, 3, 6, 6):
        advance()
        for variable in target:
            np.testing.assert_array_equal(variable, np.full(variable.shape, expected))


def test_soft_updates_approach_by_the_rate():
    source, target = _variables(1.0), _variables(0.0)
    move = tf.function(lambda: learner.move_towards(source, target, 0.25), jit_compile=True)
    for expected in (0.25, 0.4375):
        move()
        for variable, goal in zip(target, source):
            np.testing.assert_allclose(variable, expected * goal, rtol=1e-6)
    np.testing.assert_array_equal(source[0], np.ones([2, 3], np.float32))


def test_other_numbers_of_variables_are_an_error():
    with pytest.raises(ValueError):
        learner.copy_variables(_variables(1.0), _variables(0.0)[:1])
    with pytest.raises(ValueError):
        learner.move_towards(_variables(1.0), _variables(0.0)[:1], 0.1)
    with pytest.raises(ValueError):
        learner.copy_periodically(tf.constant(0), 1, _variables(1.0)[:1], _variables(0.0))
