"""ACER for continuous actions (Wang et al. 2017, section 5) as ReF-ER compares with it.

Equations are numbered as in the README, from 38 on.
"""

from typing import NamedTuple

import tensorflow as tf


class Targets(NamedTuple):
    """The estimates of the values of T actions, [T, ...]; constants to gradients.

    Attributes:
      q_ret: by Retrace with roots of the importance weights, of which the critic learns.
      q_opc: by returns without traces, of which the policy learns.
    """

    q_ret: tf.Tensor
    q_opc: tf.Tensor


def targets(
    rewards: tf.Tensor,
    discounts: tf.Tensor,
    values: tf.Tensor,
    q: tf.Tensor,
    rho: tf.Tensor,
    dimensions: int,
    bootstrap: tf.Tensor,
    exponent: float = 1.0,
) -> Targets:
    """Returns Q_ret and Q_opc of each step (eqs 40, 41).

        Q_ret_t = r_t + g_t (V_{t+1} + c_{t+1} (Q_ret_{t+1} - Q_{t+1})),  c = min(1, rho)^(1 / dA),
        Q_opc_t = r_t + g_t (V_{t+1} + Q_opc_{t+1} - Q_{t+1}),

    where the last step is followed by `bootstrap` alone.

    Args:
      rewards: [T, ...] floating, scaled.
      discounts: [T, ...], g, or a scalar.
      values: [T, ...], V.
      q: [T, ...], Q of the actions.
      rho: [T, ...], importance weights.
      dimensions: dA, of actions.
      bootstrap: [...], V of the state after the last step, 0 at a true end.
      exponent: p of the trace's exponent dA^-p: 1, or 1/2 in the authors' program.
    """
    values, q, rho, bootstrap = map(tf.stop_gradient, (values, q, rho, bootstrap))
    trace = tf.minimum(1.0, rho) ** (dimensions**-exponent)
    discounts = tf.broadcast_to(tf.convert_to_tensor(discounts, q.dtype), tf.shape(q))

    def before(after: tuple, step: tuple) -> tuple:
        following, correction = after[2:]
        reward, discount, value, q, trace = step
        q_ret = reward + discount * following
        q_opc = reward + discount * correction
        return q_ret, q_opc, value + trace * (q_ret - q), value + (q_opc - q)

    zeros = tf.zeros_like(bootstrap)
    q_ret, q_opc, _, _ = tf.scan(
        before,
        (rewards, discounts, values, q, trace),
        (zeros, zeros, bootstrap, bootstrap),
        reverse=True,
    )
    return Targets(q_ret, q_opc)


def trust_region(gradient: tf.Tensor, k: tf.Tensor, delta: float) -> tf.Tensor:
    """Returns z = g - max(0, (k . g - delta) / |k|^2) k, with k . z <= delta (eq 43).

    It is g itself where k = 0.

    Args:
      gradient: [..., n] floating, g, a direction of ascent.
      k: [..., n], the gradient of the divergence that is to grow by `delta` at most.
      delta: above 0.

    Returns:
      [..., n].
    """
    excess = tf.reduce_sum(k * gradient, axis=-1, keepdims=True) - delta
    square = tf.reduce_sum(tf.square(k), axis=-1, keepdims=True)
    return gradient - tf.math.divide_no_nan(tf.maximum(excess, 0.0), square) * k


def score(action: tf.Tensor, mean: tf.Tensor, deviation: tf.Tensor) -> tf.Tensor:
    """Returns the gradient of log pi(a) for the mean and the standard deviations.

    Args:
      action: [..., A] floating.
      mean: [..., A], of pi.
      deviation: [..., A], of pi, above 0.

    Returns:
      [..., 2 A].
    """
    z = (action - mean) / deviation
    return tf.concat([z, tf.square(z) - 1.0], axis=-1) / tf.concat([deviation] * 2, axis=-1)


def divergence_gradient(
    mean: tf.Tensor, deviation: tf.Tensor, average_mean: tf.Tensor, average_deviation: tf.Tensor
) -> tf.Tensor:
    """Returns k, the gradient of D_KL(pi_avg || pi) for pi's mean and standard deviations.

    Args:
      mean: [..., A] floating, of pi.
      deviation: [..., A], of pi, above 0.
      average_mean: [..., A], of the average policy.
      average_deviation: [..., A], of the average policy, above 0.

    Returns:
      [..., 2 A].
    """
    z = (mean - average_mean) / deviation
    ratio = average_deviation / deviation
    of_deviation = 1.0 - tf.square(ratio) - tf.square(z)
    return tf.concat([z, of_deviation], axis=-1) / tf.concat([deviation] * 2, axis=-1)


def ascent(
    rho: tf.Tensor,
    advantage_opc: tf.Tensor,
    score_of_action: tf.Tensor,
    rho_of_sample: tf.Tensor,
    advantage_of_sample: tf.Tensor,
    score_of_sample: tf.Tensor,
    truncation: float,
) -> tf.Tensor:
    """Returns the truncated policy gradient with its correction (eq 42).

        g = min(c, rho) (Q_opc - V) score(a) + max(0, 1 - c / rho') (Q(a') - V) score(a')

    where a' is drawn from the policy, so that the second term makes up for the truncation.

    Args:
      rho: [...] floating, importance weights of the stored actions.
      advantage_opc: [...], Q_opc - V.
      score_of_action: [..., n], see `score`.
      rho_of_sample: [...], pi(a') / mu(a'), above 0.
      advantage_of_sample: [...], Q(a') - V.
      score_of_sample: [..., n].
      truncation: c.

    Returns:
      [..., n].
    """
    weight = tf.minimum(truncation, rho) * advantage_opc
    correction = tf.maximum(0.0, 1.0 - truncation / rho_of_sample) * advantage_of_sample
    return weight[..., tf.newaxis] * score_of_action + correction[..., tf.newaxis] * score_of_sample


def critic_loss(value: tf.Tensor, q: tf.Tensor, q_ret: tf.Tensor, rho: tf.Tensor) -> tf.Tensor:
    """Returns 1/2 (Q - Q_ret)^2 + 1/2 (V - V_target)^2 (eq 44).

    V_target = V + min(1, rho) (Q_ret - Q) is a constant. As Q contains V, the gradient for V is
    -(1 + min(1, rho)) (Q_ret - Q). Gradients flow into `value` and `q` only.

    Args:
      value: [...] floating, V.
      q: [...], Q of the stored actions.
      q_ret: [...], targets of Q.
      rho: [...], importance weights.

    Returns:
      [...].
    """
    error = tf.stop_gradient(q_ret) - q
    target = tf.stop_gradient(value + tf.minimum(1.0, rho) * error)
    return 0.5 * (tf.square(error) + tf.square(value - target))


def truncated_normal(shape: tf.Tensor, bound: float, seed: tf.Tensor) -> tf.Tensor:
    """Returns standard normal numbers within +-bound, float32 of `shape`, that `seed` determines.

    Args:
      shape: of the result.
      bound: above 0, in standard deviations.
      seed: [2] integer.
    """
    low = 0.5 * tf.math.erfc(bound / 2**0.5)
    uniform = tf.random.stateless_uniform(shape, seed, low, 1.0 - low)
    return tf.math.ndtri(uniform)
