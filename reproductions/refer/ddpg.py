"""DDPG's losses with ReF-ER (Novati & Koumoutsakos 2019, sections 2 and 3, algorithm 4)."""

import tensorflow as tf

from common.values import gaussian, policy_gradients
from reproductions.refer import rules


def importance_weight(
    action: tf.Tensor,
    mean: tf.Tensor,
    behaviour_mean: tf.Tensor,
    sigma: float,
    log_bound: float = gaussian.LOG_BOUND,
) -> tf.Tensor:
    """Returns rho of the policy N(m, sigma^2 I), [B]; no gradient flows into any argument.

    Args:
      action: [B, A] floating, of the behaviour mu.
      mean: [B, A], m.
      behaviour_mean: [B, A], of mu, whose standard deviation is sigma, too.
      sigma: standard deviation.
      log_bound: see `gaussian.importance_weight`.
    """
    variance = tf.constant(sigma**2, mean.dtype)
    return tf.stop_gradient(
        gaussian.importance_weight(action, mean, variance, behaviour_mean, variance, log_bound)
    )


def divergence(mean: tf.Tensor, behaviour_mean: tf.Tensor, sigma: float) -> tf.Tensor:
    """Returns D_KL(mu || pi) = |m - m_mu|^2 / (2 sigma^2) in nats: [B, A] twice -> [B].

    With means within [-1, 1] it is at most 2 A / sigma^2.
    """
    variance = tf.constant(sigma**2, mean.dtype)
    return gaussian.kl_divergence(tf.stop_gradient(behaviour_mean), variance, mean, variance)


def critic_loss(
    q: tf.Tensor, target: tf.Tensor, rho: tf.Tensor, c_max: tf.Tensor | float, gate: bool
) -> tf.Tensor:
    """Returns near 1/2 (Q(s, a) - y)^2, without beta (eq 2, algorithm 4).

    Gradients flow into `q` only.

    Args:
      q: [B] floating, Q(s, a) of the stored action.
      target: [B], y.
      rho: [B], importance weights.
      c_max: scalar above 1, see `rules.c_max`.
      gate: whether rule 1 is on, so that steps far from the policy have no gradient.

    Returns:
      [B].
    """
    near = rules.mask(rho, c_max, gate)
    return 0.5 * near * tf.square(q - tf.stop_gradient(target))


def policy_loss(
    mean: tf.Tensor,
    dqda: tf.Tensor,
    behaviour_mean: tf.Tensor,
    rho: tf.Tensor,
    beta: tf.Tensor | float,
    c_max: tf.Tensor | float,
    gate: bool,
    sigma: float,
) -> tf.Tensor:
    """Returns the deterministic policy gradient's loss under the rules of ReF-ER (eqs 3, 10, 11).

        -beta near dqda . m + (1 - beta) D_KL(mu || pi)

    Rule 1 masks by the importance weight of the stored action, although m itself is judged.
    Gradients flow into `mean` only, and only the gradient has a meaning.

    Args:
      mean: [B, A] floating, m, the policy's actions.
      dqda: [B, A], gradient of the critic's value at `mean`.
      behaviour_mean: [B, A], of mu.
      rho: [B], importance weights.
      beta: scalar in [0, 1]; 1 without rule 2.
      c_max: scalar above 1, see `rules.c_max`.
      gate: whether rule 1 is on, so that steps far from the policy have a gradient by D_KL alone.
      sigma: standard deviation of pi and mu.

    Returns:
      [B].
    """
    ascent = policy_gradients.deterministic_policy_gradient_loss(mean, dqda, None)
    near = rules.mask(rho, c_max, gate)
    return beta * near * ascent + (1.0 - beta) * divergence(mean, behaviour_mean, sigma)
