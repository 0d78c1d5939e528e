"""NAF's losses and its learner's update against their equations in NumPy (float64)."""

import numpy as np
import pytest
from refer_learners import (
    BETA,
    C_MAX,
    NUM_ACTIONS,
    NUM_STEPS,
    SIGMA,
    A,
    Float64,
    chained,
    gradients_of,
    loss_inputs,
    make_batch,
    make_learner,
    near_of,
    normal,
    numeric_gradients,
    of_state,
    output_gradients,
    standardized,
    stored,
    weight_of,
    weights_of,
)
import tensorflow as tf

from common.values import closed_form
from reproductions.refer import naf


@pytest.mark.parametrize("gate, beta_of_all", [(True, False), (False, False), (True, True)])
def test_nafs_loss_and_gradients(gate, beta_of_all):
    batch = loss_inputs()
    outputs = normal(NUM_STEPS, NUM_ACTIONS * (NUM_ACTIONS + 1) // 2, seed=2)
    target, sigma = normal(NUM_STEPS, seed=3), SIGMA
    mean, mu, action, value = (
        batch[name] for name in ("mean", "behaviour_mean", "action", "value")
    )
    lower = closed_form.lower_triangular(tf.constant(outputs), NUM_ACTIONS).numpy()
    variance = np.full(NUM_ACTIONS, sigma**2)
    rho = weight_of(action, mean, variance, mu, variance)
    near = near_of(rho, gate)
    assert gate == (near.sum() < NUM_STEPS) and near.sum() > 1

    def q_of(value, mean, lower):
        d = np.einsum("bi,bij->bj", action - mean, lower)
        return value - 0.5 * np.sum(d**2, axis=-1)

    def q_losses(value, mean, lower):
        return near * 0.5 * (q_of(value, mean, lower) - target) ** 2

    def kls(mean):
        return np.sum((mean - mu) ** 2, axis=-1) / (2 * sigma**2)

    online = [tf.constant(x) for x in (value, mean, lower)]
    stored = [tf.constant(x) for x in (action, mu, target)]

    def call():
        return naf.losses(*online, *stored, BETA, C_MAX, gate, sigma, beta_of_all=beta_of_all)

    result, weight = call(), BETA if beta_of_all else 1.0
    np.testing.assert_allclose(
        result.loss, weight * q_losses(value, mean, lower) + (1 - BETA) * kls(mean), rtol=1e-9
    )
    np.testing.assert_allclose(result.rho, rho, rtol=1e-8)
    np.testing.assert_allclose(result.divergence, kls(mean), rtol=1e-9)
    np.testing.assert_allclose(result.q, q_of(value, mean, lower), rtol=1e-9)
    # V and L as they are or with beta, m with beta, and the penalty for m alone.
    of_value, of_mean, of_lower = numeric_gradients(q_losses, [value, mean, lower])
    (of_kl,) = numeric_gradients(kls, [mean])
    expected = weight * of_value, BETA * of_mean + (1 - BETA) * of_kl, weight * of_lower
    for gradient, e in zip(gradients_of(lambda: call().loss, online), expected):
        np.testing.assert_allclose(gradient, e, rtol=1e-5, atol=1e-7)
    assert gradients_of(lambda: call().loss, stored) == [None] * 3


@pytest.mark.parametrize("setting", ["naf_refer", "naf_per"])
def test_nafs_gradients(setting):
    config, learner = make_learner(setting, max_importance_weight=20.0)
    batch = make_batch()
    x, networks = standardized(batch.steps.states.observation), Float64(learner)
    action, mu, _ = stored(batch)
    next_x = standardized(batch.steps.next_states.observation)
    next_value = networks.run(learner.target_network.mlp, next_x)[:, 0]
    target = batch.steps.rewards.numpy() + batch.steps.discounts.numpy() * next_value
    assert target[0] == batch.steps.rewards[0]  # a true end

    def outputs():
        h = networks.run(learner.network.mlp, x)
        lower = closed_form.lower_triangular(tf.constant(h[:, 1 + A :]), A).numpy()
        return h[:, 0], h[:, 1 : 1 + A], lower

    def loss(*outputs):
        state = of_state(config, learner)
        return naf.losses(*outputs, action, mu, tf.constant(target), *state, 0.2, np.log(20))

    gradients = output_gradients(lambda *o: weights_of(config, batch) * loss(*o).loss, outputs())
    result = learner.gradients(batch)
    for gradient, variable in zip(result.gradients, learner.network.parameters, strict=True):
        expected = chained(outputs, gradients, networks.of(variable))
        np.testing.assert_allclose(gradient, expected, rtol=2e-3, atol=5e-5)
    refresh, expected = result.outputs, loss(*outputs())
    np.testing.assert_allclose(refresh.values, outputs()[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(refresh.rhos, expected.rho, rtol=1e-3)
    np.testing.assert_allclose(refresh.divergences, expected.divergence, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(refresh.errors, (expected.q - target) ** 2, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(refresh.next_values, next_value, rtol=1e-4, atol=1e-5)
