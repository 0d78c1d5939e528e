"""Tests of common.values.policy_gradients."""

import numpy as np
import pytest
import tensorflow as tf

from common.values import policy_gradients


@pytest.mark.parametrize(
    "clip, norm, dqda, expected",
    [
        (None, None, [[1e-7, -3.0], [0.5, 2e-8]], [[1e-7, -3.0], [0.5, 2e-8]]),
        (1.0, None, [[3.0, -3.0], [0.5, 0.0]], [[1.0, -1.0], [0.5, 0.0]]),
        (None, 1.0, [[3.0, -4.0], [0.3, 0.4], [0, 0]], [[0.6, -0.8], [0.3, 0.4], [0, 0]]),
    ],
)
def test_gradient_of_the_action_is_minus_the_clipped_dqda(clip, norm, dqda, expected):
    """Without a norm to the last bit."""
    action, dqda = tf.Variable([[0.9, -0.8], [0.1, 0.2], [0, 0]][: len(dqda)]), tf.constant(dqda)
    with tf.GradientTape() as tape:
        loss = policy_gradients.deterministic_policy_gradient_loss(action, dqda, clip, norm)
    assert loss.shape == (len(dqda),)
    expected = -np.array(expected, np.float32)
    np.testing.assert_allclose(tape.gradient(loss, action), expected, rtol=1e-6 if norm else 0)


@pytest.mark.parametrize("dqda_clip, dqda", [(None, [2.0, -0.3]), (1.0, [1.0, -0.3])])
def test_dpg_loss_raises_the_mean_value_of_a_critic_that_is_held_fixed(dqda_clip, dqda):
    action, w = tf.Variable([[0.5, 0.995], [0.9, -1.0]]), tf.Variable([2.0, -0.3])

    def value(a):
        return tf.linalg.matvec(a, w)

    with tf.GradientTape(persistent=True) as tape:
        loss, q, saturated = policy_gradients.dpg_loss(action, value, dqda_clip)
    np.testing.assert_allclose(q, (0.7015 + 2.1) / 2, rtol=1e-6)
    np.testing.assert_allclose(tape.gradient(loss, action), [-np.array(dqda) / 2] * 2)
    assert tape.gradient(loss, w) is None
    assert float(saturated) == 0.5


def policy_case(seed, leading=(3, 2), num_actions=4):
    """Logits, mu, q, actions and returns, float64, with any leading dimensions."""
    rng = np.random.default_rng(seed)
    shape = (*leading, num_actions)
    return (
        rng.normal(size=shape),
        rng.dirichlet(np.ones(num_actions), leading),
        rng.normal(size=shape),
        rng.integers(num_actions, size=leading),
        rng.normal(size=leading),
    )


def gradient_of_logits(loss, logits, floor=0.0):
    """The gradient with respect to the logits of a policy with a floor of floor / A."""
    variable = tf.Variable(logits)
    with tf.GradientTape() as tape:
        pi = (1 - floor) * tf.nn.softmax(variable) + floor / logits.shape[-1]
        value = loss(pi)
    assert value.shape == logits.shape[:-1]
    return tape.gradient(value, variable).numpy()


def softmax(logits):
    exponentials = np.exp(logits)
    return exponentials / exponentials.sum(-1, keepdims=True)


def differences_of_pi(logits, floor=0.0, step=1e-6):
    """d pi(a) / d logits_k by central differences, [a, k], of one state."""

    def pi(values):
        return (1 - floor) * softmax(values) + floor / len(values)

    shifts = step * np.eye(len(logits))
    return np.stack([(pi(logits + d) - pi(logits - d)) / (2 * step) for d in shifts], axis=1)


def estimator_10(gradients, q, a, R, beta):
    """beta-LOO as printed; row a of `gradients` is grad pi(a)."""
    return beta * (R - q[a]) * gradients[a] + sum(q[b] * gradients[b] for b in range(len(q)))


def estimator_tislr(gradients, pi, mu, q, a, R, c):
    """TISLR as printed, with grad log pi = grad pi / pi."""
    logs = gradients / pi[:, np.newaxis]
    v = pi @ q
    return min(c, pi[a] / mu[a]) * (R - v) * logs[a] + sum(
        max(pi[b] / mu[b] - c, 0) * mu[b] * (q[b] - v) * logs[b] for b in range(len(q))
    )


@pytest.mark.parametrize("floor", [0.0, 0.01, 0.3])
@pytest.mark.parametrize("c", [1.0, 3.0, np.inf])
def test_leave_one_out_equals_differences(c, floor):
    logits, mu, q, actions, returns = policy_case(0)
    mu_a = np.take_along_axis(mu, actions[..., np.newaxis], -1)[..., 0]
    beta = policy_gradients.leave_one_out_beta(tf.constant(mu_a), c)
    gradient = gradient_of_logits(
        lambda pi: policy_gradients.leave_one_out_loss(pi, q, actions, returns, beta), logits, floor
    )
    for i in np.ndindex(*actions.shape):
        expected = estimator_10(
            differences_of_pi(logits[i], floor), q[i], actions[i], returns[i], min(c, 1 / mu_a[i])
        )
        np.testing.assert_allclose(gradient[i], -expected, atol=1e-8)


@pytest.mark.parametrize("c", [0.0, 1.0, 2.0, np.inf])
def test_truncated_islr_equals_differences(c):
    logits, mu, q, actions, returns = policy_case(1)
    gradient = gradient_of_logits(
        lambda pi: policy_gradients.truncated_islr_loss(pi, mu, q, actions, returns, c), logits
    )
    ratios = softmax(logits) / mu
    assert ratios.min() < 1 and ratios.max() > 2
    for i in np.ndindex(*actions.shape):
        expected = estimator_tislr(
            differences_of_pi(logits[i]), softmax(logits[i]), mu[i], q[i], actions[i], returns[i], c
        )
        np.testing.assert_allclose(gradient[i], -expected, atol=1e-7)


def test_beta_has_its_limits():
    mu_a = tf.constant([[0.01, 0.25], [0.5, 1.0]])
    beta = policy_gradients.leave_one_out_beta
    np.testing.assert_allclose(beta(mu_a, 3.0), [[3, 3], [2, 1]])
    np.testing.assert_array_equal(beta(mu_a, 1.0), np.ones([2, 2]))
    np.testing.assert_array_equal(beta(mu_a, 0.0), np.zeros([2, 2]))
    np.testing.assert_allclose(beta(mu_a, np.inf), [[100, 4], [2, 1]])
    assert beta(mu_a, 1).dtype == tf.float32


def expected_gradient(loss, logits, mu, q_pi):
    """E[gradient] of an estimator over a^ ~ mu with R(a^) = Q^pi(a^), exactly."""
    return sum(
        mu[a] * -gradient_of_logits(lambda pi: loss(pi, np.int64(a), q_pi[a]), logits)
        for a in range(len(mu))
    )


@pytest.mark.parametrize("c", [0.0, 1.0, 2.0, 4.0, np.inf])
def test_leave_one_out_has_the_bias_of_proposition_1(c):
    logits, mu, q, _, _ = policy_case(3, leading=())
    q_pi = q + np.random.default_rng(4).normal(size=q.shape)
    gradients = differences_of_pi(logits)

    def loss(pi, a, R):
        beta = policy_gradients.leave_one_out_beta(tf.constant(mu[a]), c)
        return policy_gradients.leave_one_out_loss(pi, q, a, R, beta)

    bias = expected_gradient(loss, logits, mu, q_pi) - q_pi @ gradients
    beta = np.minimum(c, 1 / mu)
    expected = ((1 - mu * beta) * (q - q_pi)) @ gradients
    np.testing.assert_allclose(bias, expected, atol=1e-8)
    if c == np.inf:
        np.testing.assert_allclose(bias, np.zeros(len(mu)), atol=1e-8)
    else:
        assert np.abs(bias).max() > 0.01


def test_gradients_of_the_off_policy_losses_reach_pi_only():
    logits, mu, q, actions, returns = policy_case(7)
    pi = tf.Variable(softmax(logits))
    others = [tf.Variable(value) for value in (mu, q, returns)]
    mu, q, returns = others
    with tf.GradientTape(persistent=True) as tape:
        beta = policy_gradients.leave_one_out_beta(mu[..., 0], 3.0)
        losses = (
            policy_gradients.leave_one_out_loss(pi, q, actions, returns, beta),
            policy_gradients.truncated_islr_loss(pi, mu, q, actions, returns, 2.0),
        )
    for loss in losses:
        assert tape.gradient(loss, others) == [None] * 3
        assert np.all(np.abs(tape.gradient(loss, pi)).max(-1) > 0)


# The clipped surrogate.

CLIP, HINGE = 0.2, 50.0


def test_the_gradient_is_0_beyond_the_clip_on_the_side_of_the_advantage_only():
    rho = tf.constant([1.0, 1.1, 1.3, 0.7, 1.3, 0.7])
    advantage = tf.constant([2.0, -2.0, 2.0, -2.0, -2.0, 2.0])
    with tf.GradientTape() as tape:
        tape.watch(rho)
        loss = policy_gradients.clipped_surrogate(rho, advantage, CLIP)
    np.testing.assert_array_equal(tape.gradient(loss, rho), [-2, 2, 0, 0, 2, -2])


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


@pytest.mark.parametrize("loss", ["clipped_surrogate", "penalized_surrogate"])
def test_no_gradient_flows_into_advantages(loss):
    rho, advantage = tf.constant([1.1]), tf.constant([2.0])
    arguments = {
        "clipped_surrogate": (CLIP,),
        "penalized_surrogate": (tf.constant([0.1]), 1.0, 0.01, HINGE),
    }[loss]
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
