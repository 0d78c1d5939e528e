"""NAF's loss with ReF-ER (Novati & Koumoutsakos 2019, sections 2 and 3)."""

from typing import NamedTuple

import tensorflow as tf

from common.values import closed_form, gaussian
from reproductions.refer import rules


class NafLoss(NamedTuple):
    """The loss of B steps and what it is made of, all [B].

    Attributes:
      loss: to minimise.
      rho: importance weights.
      divergence: D_KL in nats.
      q: Q(s, a) before the step.
    """

    loss: tf.Tensor
    rho: tf.Tensor
    divergence: tf.Tensor
    q: tf.Tensor


def loss(
    value: tf.Tensor,
    mean: tf.Tensor,
    lower: tf.Tensor,
    action: tf.Tensor,
    behaviour_mean: tf.Tensor,
    target: tf.Tensor,
    beta: tf.Tensor | float,
    c_max: tf.Tensor | float,
    gate: bool,
    sigma: float,
    log_bound: float = gaussian.LOG_BOUND,
) -> NafLoss:
    """Returns NAF's loss under the rules of ReF-ER (eqs 4, 10, 11).

        near 1/2 (Q(s, a) - y)^2 + (1 - beta) D_KL(mu || pi),  Q = V - 1/2 (a - m)^T L L^T (a - m)

    The gradient that the square sends into m is multiplied by beta; those of V and L are not. So it
    is in the authors' program; the paper does not say how ReF-ER splits NAF's gradient. The policy
    pi is N(m, sigma^2 I), of which mu is an earlier one.

    Gradients flow into `value`, `mean` and `lower` only.

    Args:
      value: [B] floating, V.
      mean: [B, A], m.
      lower: [B, A, A], L, see `closed_form.lower_triangular`.
      action: [B, A], of the behaviour mu.
      behaviour_mean: [B, A], of mu.
      target: [B], y.
      beta: scalar in [0, 1]; 1 without rule 2.
      c_max: scalar above 1, see `rules.c_max`.
      gate: whether rule 1 is on, so that steps far from the policy have a gradient by D_KL alone.
      sigma: standard deviation of pi and mu.
      log_bound: see `gaussian.importance_weight`.
    """
    action, behaviour_mean, target = map(tf.stop_gradient, (action, behaviour_mean, target))
    variance = tf.constant(sigma**2, mean.dtype)
    fixed = tf.stop_gradient(mean)
    rho = gaussian.importance_weight(action, fixed, variance, behaviour_mean, variance, log_bound)
    kl = gaussian.kl_divergence(behaviour_mean, variance, mean, variance)
    # The value of m, with beta times its gradient.
    scaled = fixed + beta * (mean - fixed)
    q = value + closed_form.quadratic(action, scaled, lower)
    q_loss = 0.5 * rules.mask(rho, c_max, gate) * tf.square(q - target)
    return NafLoss(q_loss + (1.0 - beta) * kl, rho, kl, q)
