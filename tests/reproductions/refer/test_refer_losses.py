"""The losses of V-RACER, NAF and DDPG against their equations in NumPy (float64)."""

import numpy as np
import pytest
import tensorflow as tf

from common.values import closed_form
from reproductions.refer import ddpg, naf, vracer

B, A = 12, 3
C_MAX, BETA, SIGMA = 2.5, 0.3, 0.4
STEP = 1e-6


def normal(*shape, seed=0, scale=1.0):
    return np.random.default_rng(seed).normal(scale=scale, size=shape)


def make_batch():
    """Float64: what the memory has of B steps, some of them far from the policy of `mean`."""
    rng = np.random.default_rng(1)
    behaviour_mean = rng.normal(size=[B, A])
    behaviour_variance = rng.uniform(0.1, 0.4, [B, A])
    return dict(
        action=behaviour_mean + np.sqrt(behaviour_variance) * rng.normal(size=[B, A]),
        behaviour_mean=behaviour_mean,
        behaviour_variance=behaviour_variance,
        mean=behaviour_mean + rng.normal(scale=0.2, size=[B, A]),
        variance=rng.uniform(0.1, 0.4, A),
        value=rng.normal(size=B),
        q_ret=rng.normal(size=B),
        advantage=None,
    )


def weight_of(action, mean, variance, behaviour_mean, behaviour_variance):
    """rho from the densities."""

    def density(m, v):
        return np.prod(np.exp(-((action - m) ** 2) / (2 * v)) / np.sqrt(2 * np.pi * v), axis=-1)

    return density(mean, variance) / density(behaviour_mean, behaviour_variance)


def divergence_of(m_p, v_p, m_q, v_q):
    """D_KL(p || q)."""
    return 0.5 * np.sum(v_p / v_q - 1 - np.log(v_p / v_q) + (m_p - m_q) ** 2 / v_q, axis=-1)


def near_of(rho, gate):
    return np.array([float(1 / C_MAX < r < C_MAX) if gate else 1.0 for r in rho])


def numeric_gradients(function, arrays):
    """Central differences of the sum of `function(*arrays)` in each number of each array."""
    gradients = []
    for i, array in enumerate(arrays):
        gradient = np.zeros_like(array)
        for index in np.ndindex(array.shape):
            shift = np.zeros_like(array)
            shift[index] = STEP
            above, below = (
                np.sum(function(*arrays[:i], array + s, *arrays[i + 1 :])) for s in (shift, -shift)
            )
            gradient[index] = (above - below) / (2 * STEP)
        gradients.append(gradient)
    return gradients


def gradients_of(function, watched):
    """Gradients of the sum of `function()`."""
    with tf.GradientTape() as tape:
        tape.watch(watched)
        total = tf.reduce_sum(function())
    return tape.gradient(total, watched)


def tensors(batch):
    return {name: None if array is None else tf.constant(array) for name, array in batch.items()}


@pytest.mark.parametrize("gate", [True, False])
@pytest.mark.parametrize(
    "direction, has_advantage",
    [("behavior_to_policy", False), ("policy_to_behavior", False), ("behavior_to_policy", True)],
)
def test_vracers_loss_and_gradients(gate, direction, has_advantage):
    batch = make_batch()
    if has_advantage:
        batch["advantage"] = normal(B, seed=5)
    behaviour = batch["behaviour_mean"], batch["behaviour_variance"]
    rho0 = weight_of(batch["action"], batch["mean"], batch["variance"], *behaviour)
    near = near_of(rho0, gate)
    assert gate == (near.sum() < B) and near.sum() > 3
    estimate = batch["q_ret"] - batch["value"]
    residual = estimate - (batch["advantage"] if has_advantage else 0)
    v_tbc = batch["value"] + np.minimum(1, rho0) * residual

    def losses(value, mean, variance, advantage=None):
        """With Q_ret - V, V_tbc and the mask as constants (eqs 5, 8, 10, 11, 23)."""
        rho = weight_of(batch["action"], mean, variance, *behaviour)
        pi = mean, variance
        to_policy = direction == "behavior_to_policy"
        kl = divergence_of(*behaviour, *pi) if to_policy else divergence_of(*pi, *behaviour)
        own = -rho * estimate + 0.5 * (value - v_tbc) ** 2
        if has_advantage:
            own += 0.5 * (rho0 * (advantage + batch["value"] - batch["q_ret"])) ** 2
        return BETA * near * own + (1 - BETA) * kl

    inputs = tensors(batch)
    names = ("value", "mean", "variance", *(["advantage"] if has_advantage else []))
    online = [inputs[name] for name in names]
    arrays = [batch[name] for name in names]

    def call():
        return vracer.loss(**inputs, beta=BETA, c_max=C_MAX, gate=gate, divergence=direction)

    result = call()
    np.testing.assert_allclose(result.loss, losses(*arrays), rtol=1e-9)
    np.testing.assert_allclose(result.rho, rho0, rtol=1e-9)
    np.testing.assert_allclose(result.policy_loss, -near * rho0 * estimate, rtol=1e-9)
    error = (np.minimum(1, rho0) * residual) ** 2
    np.testing.assert_allclose(result.error, error, rtol=1e-9)
    np.testing.assert_allclose(result.value_loss, 0.5 * near * error, rtol=1e-9)
    expected = 0.5 * near * (rho0 * residual) ** 2 if has_advantage else np.zeros(B)
    np.testing.assert_allclose(result.advantage_loss, expected, rtol=1e-9)
    actual = gradients_of(lambda: call().loss, online)
    for gradient, expected in zip(actual, numeric_gradients(losses, arrays)):
        np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-7)
    # dL/dV = -beta near rho-bar (Q_ret - V - A).
    expected = -BETA * near * np.minimum(1, rho0) * residual
    np.testing.assert_allclose(actual[0], expected, rtol=1e-9, atol=1e-12)


def test_nothing_flows_into_what_vracers_memory_has():
    inputs = tensors(make_batch())
    names = ("action", "behaviour_mean", "behaviour_variance", "q_ret")
    gradients = gradients_of(
        lambda: vracer.loss(**inputs, beta=BETA, c_max=C_MAX, gate=True).loss,
        [inputs[name] for name in names],
    )
    assert gradients == [None] * len(names)


def test_steps_far_from_the_policy_have_no_gradient_of_vracers_own():
    inputs = tensors(make_batch() | {"advantage": normal(B, seed=5)})
    rho = vracer.loss(**inputs, beta=1.0, c_max=C_MAX, gate=True).rho.numpy()
    far = near_of(rho, True) == 0
    gradients = gradients_of(
        lambda: vracer.loss(**inputs, beta=1.0, c_max=C_MAX, gate=True).loss,
        [inputs["value"], inputs["mean"], inputs["advantage"]],
    )
    for gradient in gradients:
        assert np.all(gradient.numpy()[far] == 0) and np.all(gradient.numpy()[~far] != 0)


def test_vracers_penalty_pulls_the_policy_back_to_the_behaviour():
    """In a loss the penalty has a plus (eq 10 prints a direction of ascent)."""
    inputs = tensors(make_batch())
    (gradient,) = gradients_of(
        lambda: vracer.loss(**inputs, beta=0.0, c_max=C_MAX, gate=True).loss, [inputs["mean"]]
    )
    offset = inputs["mean"] - inputs["behaviour_mean"]
    np.testing.assert_allclose(gradient, offset / inputs["variance"], rtol=1e-9)


def test_vracers_weight_is_bounded_in_its_loss():
    inputs = tensors(make_batch())
    inputs["mean"] += 5.0
    result = vracer.loss(**inputs, beta=1.0, c_max=C_MAX, gate=False, log_bound=np.log(1000.0))
    assert np.all(result.rho.numpy() >= 0.999e-3) and np.any(result.rho.numpy() < 1.001e-3)


@pytest.mark.parametrize("gate", [True, False])
def test_nafs_loss_and_gradients(gate):
    batch = make_batch()
    outputs = normal(B, A * (A + 1) // 2, seed=2)
    target, sigma = normal(B, seed=3), SIGMA
    mean, mu, action, value = (
        batch[name] for name in ("mean", "behaviour_mean", "action", "value")
    )
    lower = closed_form.lower_triangular(tf.constant(outputs), A).numpy()
    variance = np.full(A, sigma**2)
    rho = weight_of(action, mean, variance, mu, variance)
    near = near_of(rho, gate)
    assert gate == (near.sum() < B) and near.sum() > 1

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
        return naf.loss(*online, *stored, BETA, C_MAX, gate, sigma)

    result = call()
    np.testing.assert_allclose(
        result.loss, q_losses(value, mean, lower) + (1 - BETA) * kls(mean), rtol=1e-9
    )
    np.testing.assert_allclose(result.rho, rho, rtol=1e-8)
    np.testing.assert_allclose(result.divergence, kls(mean), rtol=1e-9)
    np.testing.assert_allclose(result.q, q_of(value, mean, lower), rtol=1e-9)
    # V and L as they are, m with beta, and the penalty for m alone.
    of_value, of_mean, of_lower = numeric_gradients(q_losses, [value, mean, lower])
    (of_kl,) = numeric_gradients(kls, [mean])
    expected = of_value, BETA * of_mean + (1 - BETA) * of_kl, of_lower
    for gradient, e in zip(gradients_of(lambda: call().loss, online), expected):
        np.testing.assert_allclose(gradient, e, rtol=1e-5, atol=1e-7)
    assert gradients_of(lambda: call().loss, stored) == [None] * 3


@pytest.mark.parametrize("gate", [True, False])
def test_ddpgs_losses_and_gradients(gate):
    batch = make_batch()
    mean, mu, action = (batch[name] for name in ("mean", "behaviour_mean", "action"))
    variance = np.full(A, SIGMA**2)
    q, target, dqda = normal(B, seed=2), normal(B, seed=3), normal(B, A, seed=4)
    online = tf.constant(mean)
    with tf.GradientTape() as tape:
        tape.watch(online)
        rho = ddpg.importance_weight(action, online, mu, SIGMA)
    assert tape.gradient(rho, online) is None
    expected = weight_of(action, mean, variance, mu, variance)
    np.testing.assert_allclose(rho, expected.clip(np.exp(-7), np.exp(7)), rtol=1e-8)
    near = near_of(rho.numpy(), gate)
    assert gate == (near.sum() < B) and near.sum() > 1

    value, y = tf.constant(q), tf.constant(target)
    critic = ddpg.critic_loss(value, y, rho, C_MAX, gate)
    np.testing.assert_allclose(critic, near * 0.5 * (q - target) ** 2, rtol=1e-9)
    gradients = gradients_of(lambda: ddpg.critic_loss(value, y, rho, C_MAX, gate), [value, y, rho])
    np.testing.assert_allclose(gradients[0], near * (q - target), rtol=1e-9)  # without beta
    assert gradients[1:] == [None, None]

    gradient_of_q, behaviour = tf.constant(dqda), tf.constant(mu)

    def policy_loss():
        return ddpg.policy_loss(online, gradient_of_q, behaviour, rho, BETA, C_MAX, gate, SIGMA)

    def losses(mean):
        kl = np.sum((mean - mu) ** 2, axis=-1) / (2 * SIGMA**2)
        return -BETA * near * np.sum(dqda * mean, axis=-1) + (1 - BETA) * kl

    np.testing.assert_allclose(policy_loss(), losses(mean), rtol=1e-8)
    actual, *others = gradients_of(policy_loss, [online, gradient_of_q, behaviour, rho])
    np.testing.assert_allclose(actual, numeric_gradients(losses, [mean])[0], rtol=1e-5, atol=1e-7)
    assert others == [None] * 3
    np.testing.assert_allclose(
        ddpg.divergence(online, behaviour, SIGMA),
        np.sum((mean - mu) ** 2, axis=-1) / (2 * SIGMA**2),
        rtol=1e-9,
    )
