"""Tests of common.values.policy_gradients."""

import numpy as np
import pytest
import tensorflow as tf

from common.values import policy_gradients

CLIP, HINGE = 0.2, 50.0


def clipped_gradient(rho, advantage):
    rho = tf.constant([rho], tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(rho)
        loss = policy_gradients.clipped_surrogate(rho, tf.constant([advantage], tf.float64), CLIP)
    return tape.gradient(loss, rho).numpy()[0]


@pytest.mark.parametrize(
    ("rho", "advantage", "expected"),
    [
        (1.0, 2.0, -2.0),
        (1.1, -2.0, 2.0),
        (1.3, 2.0, 0.0),  # pushed beyond the clip: no further
        (0.7, -2.0, 0.0),
        (1.3, -2.0, 2.0),  # on the other side it is pulled back
        (0.7, 2.0, -2.0),
    ],
)
def test_the_gradient_is_0_beyond_the_clip_on_the_side_of_the_advantage_only(
    rho, advantage, expected
):
    assert clipped_gradient(rho, advantage) == expected


def test_the_clipped_loss_is_that_of_the_paper():
    rng = np.random.default_rng(0)
    rho, advantage = rng.uniform(0.5, 1.5, 50), rng.normal(size=50)
    expected = -np.minimum(rho * advantage, np.clip(rho, 0.8, 1.2) * advantage)
    np.testing.assert_allclose(
        policy_gradients.clipped_surrogate(rho, advantage, CLIP), expected, rtol=1e-12
    )


@pytest.mark.parametrize("divergence", [np.array([0.0, 0.01, 0.05]), np.array(0.05)])
def test_the_penalty_grows_with_the_square_beyond_twice_the_target(divergence):
    rho, advantage = np.array([0.9, 1.1, 1.2]), np.array([1.0, -2.0, 3.0])
    loss = policy_gradients.penalized_surrogate(
        *(tf.constant(array) for array in (rho, advantage, divergence)), 3.0, 0.01, HINGE
    )
    excess = np.maximum(divergence - 0.02, 0)
    expected = -rho * advantage + 3 * divergence + HINGE * excess**2
    assert loss.shape == (3,)
    np.testing.assert_allclose(loss, expected, rtol=1e-12)


@pytest.mark.parametrize("loss", ["clipped", "penalized"])
def test_no_gradient_flows_into_advantages(loss):
    rho, advantage = tf.constant([1.1]), tf.constant([2.0])
    arguments = {"clipped": (CLIP,), "penalized": (tf.constant([0.1]), 1.0, 0.01, HINGE)}[loss]
    with tf.GradientTape() as tape:
        tape.watch(advantage)
        value = getattr(policy_gradients, loss)(rho, advantage, *arguments)
    assert tape.gradient(value, advantage) is None


@pytest.mark.parametrize(
    ("divergence", "expected"),
    [(0.0, 2.0), (0.0066, 2.0), (0.0067, 4.0), (0.01, 4.0), (0.0149, 4.0), (0.0151, 8.0), (9, 8.0)],
)
def test_the_coefficient_grows_beyond_the_target_and_shrinks_below_it(divergence, expected):
    assert (
        float(policy_gradients.next_penalty_coefficient(4.0, divergence, 0.01, 1.5, 2.0))
        == expected
    )
