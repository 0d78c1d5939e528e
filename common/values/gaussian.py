"""Gaussians with diagonal covariance: importance weights and Kullback-Leibler divergences."""

import tensorflow as tf

LOG_BOUND = 7.0
"""Bound of a log importance weight, as in the program of ReF-ER's authors: e^7 is 1,097."""


def importance_weight(
    action: tf.Tensor,
    mean: tf.Tensor,
    variance: tf.Tensor,
    behaviour_mean: tf.Tensor,
    behaviour_variance: tf.Tensor,
    log_bound: float = LOG_BOUND,
) -> tf.Tensor:
    """Returns rho = pi(a|s) / mu(a|s), bounded by e^-log_bound and e^log_bound.

    Source: ReF-ER (Novati & Koumoutsakos 2019), sections 1 and 3. The densities are those of plain
    Gaussians even if actions were drawn from truncated ones: truncation multiplies both by the same
    constant, and a policy that has moved would give an action beyond its bounds a density of 0.

    The gradient is rho grad log pi(a|s) also at the bounds, where that of a clipped value would be
    0: a step at the bound has a bounded weight, not none.

    Args:
      action: [B, A] floating.
      mean: [B, A], of pi.
      variance: [B, A] or [A], the diagonal of pi's covariance, above 0.
      behaviour_mean: [B, A], of mu.
      behaviour_variance: [B, A] or [A], of mu, above 0.
      log_bound: bound of |log rho|.

    Returns:
      [B].
    """
    ratio = _log_kernel(action, mean, variance) - _log_kernel(
        action, behaviour_mean, behaviour_variance
    )
    log_weight = tf.reduce_sum(ratio, axis=-1)
    fixed = tf.stop_gradient(log_weight)
    return tf.exp(tf.clip_by_value(fixed, -log_bound, log_bound) + (log_weight - fixed))


def kl_divergence(
    mean_p: tf.Tensor, variance_p: tf.Tensor, mean_q: tf.Tensor, variance_q: tf.Tensor
) -> tf.Tensor:
    """Returns D_KL(p || q) = E_p[log p - log q] in nats.

    Args:
      mean_p: [B, A] floating.
      variance_p: [B, A] or [A], the diagonal of p's covariance, above 0.
      mean_q: [B, A].
      variance_q: [B, A] or [A], above 0.

    Returns:
      [B].
    """
    ratio = variance_p / variance_q
    distance = tf.square(mean_p - mean_q) / variance_q
    return 0.5 * tf.reduce_sum(distance + (ratio - 1.0 - tf.math.log(ratio)), axis=-1)


def _log_kernel(action: tf.Tensor, mean: tf.Tensor, variance: tf.Tensor) -> tf.Tensor:
    """Returns each dimension's log density without the constant log sqrt(2 pi): [B, A]."""
    return -0.5 * (tf.square(action - mean) / variance + tf.math.log(variance))
