"""Tests of common.learning.updates."""

from typing import NamedTuple

import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf

from common.learning.updates import UpdateLoop
from common.types import Batch


class Steps(NamedTuple):
    """A nest, so that its structure must survive the loop."""

    x: tf.Tensor
    y: dict[str, tf.Tensor]


class Regression(tf.Module):
    """Weighted least squares by Adam: an update with all that a learner has."""

    def __init__(self):
        super().__init__()
        self.w = tf.Variable(tf.zeros([3]))
        self.optimizer = snt.optimizers.Adam(0.1)
        self.steps = tf.Variable(0, dtype=tf.int64, trainable=False)

    def update(self, batch):
        """Returns |error| as the priority."""
        weights = 1 / (batch.size * batch.probabilities)
        with tf.GradientTape() as tape:
            error = batch.steps.y["value"] - tf.linalg.matvec(batch.steps.x, self.w)
            loss = tf.reduce_mean(weights * error**2)
        self.optimizer.apply(tape.gradient(loss, [self.w]), [self.w])
        self.steps.assign_add(1)
        metrics = {
            "loss": loss,
            "weight_max": tf.reduce_max(weights),
            "size": batch.size,
            "first": batch.steps.x[0, 0],
        }
        return tf.abs(error), metrics


def make_samples(size, seed=0):
    """A draw of `size` items from a memory of 40."""
    generator = np.random.default_rng(seed)
    return Batch(
        steps=Steps(
            tf.constant(generator.normal(size=[size, 3]), tf.float32),
            {"value": tf.constant(generator.normal(size=[size]), tf.float32)},
        ),
        probabilities=tf.constant(generator.uniform(1, 3, size) / 80, tf.float32),
        size=tf.constant(40.0),
    )


def rows(samples, begin, end):
    """A part of a draw, as a draw of its own."""
    return samples._replace(
        probabilities=samples.probabilities[begin:end],
        steps=tf.nest.map_structure(lambda column: column[begin:end], samples.steps),
    )


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("num_updates", [2, 5])
def test_updates_in_one_call_are_those_of_as_many_calls(num_updates, jit_compile):
    batch_size = 4
    together, apart = Regression(), Regression()
    loop = UpdateLoop(together.update, num_updates, batch_size, jit_compile)
    single = UpdateLoop(apart.update, 1, batch_size, jit_compile)
    assert loop.num_samples == num_updates * batch_size
    for call in range(2):
        samples = make_samples(num_updates * batch_size, seed=call)
        priorities, metrics = loop.learn(samples)
        parts = [
            single.learn(rows(samples, begin, begin + batch_size))
            for begin in range(0, loop.num_samples, batch_size)
        ]
        assert priorities.shape == [loop.num_samples]
        np.testing.assert_allclose(
            priorities, np.concatenate([p for p, _ in parts]), rtol=1e-5, atol=1e-6
        )
        np.testing.assert_allclose(together.w, apart.w, rtol=1e-5, atol=1e-6)
        assert int(together.steps) == int(apart.steps) == (call + 1) * num_updates
        for name in ("loss", "size", "first"):
            mean = np.mean([m[name] for _, m in parts])
            np.testing.assert_allclose(metrics[name], mean, rtol=1e-5)
        maximum = max(float(m["weight_max"]) for _, m in parts)
        np.testing.assert_allclose(metrics["weight_max"], maximum, rtol=1e-6)


def test_an_update_sees_probabilities_and_the_size_of_the_memory_and_may_put_out_any_nest():
    samples = make_samples(6)
    seen = []

    def update(batch):
        seen.append(batch)
        return {"p": batch.probabilities, "steps": batch.steps}, {"size": batch.size}

    outputs, metrics = UpdateLoop(update, 3, 2, jit_compile=False).learn(samples)
    np.testing.assert_array_equal(outputs["p"], samples.probabilities)
    np.testing.assert_array_equal(outputs["steps"].x, samples.steps.x)  # [B, 3]
    np.testing.assert_array_equal(outputs["steps"].y["value"], samples.steps.y["value"])
    assert float(metrics["size"]) == 40
    assert isinstance(seen[0].steps, Steps) and isinstance(outputs["steps"], Steps)


def test_traces_once():
    traces = []

    def update(batch):
        traces.append(1)
        return batch.probabilities, {}

    loop = UpdateLoop(update, 1, 4, jit_compile=False)
    for seed in range(3):
        loop.learn(make_samples(4, seed))
    assert len(traces) == 1
