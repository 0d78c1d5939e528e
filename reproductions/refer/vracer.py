"""V-RACER's loss with ReF-ER (Novati & Koumoutsakos 2019, sections 3 and 4)."""

from typing import NamedTuple

import tensorflow as tf

from common.values import gaussian
from reproductions.refer import rules


class VracerLoss(NamedTuple):
    """The loss of B steps and its parts, all [B].

    Attributes:
      loss: to minimise.
      rho: importance weights.
      divergence: D_KL in nats.
      policy_loss: off-policy policy gradient (eq 5), 0 at steps that are masked.
      value_loss: half the squared distance of V from V_tbc, 0 at steps that are masked.
      advantage_loss: half the squared error of A (eq 23), 0 at steps that are masked.
      error: squared distance of V from V_tbc, of all steps.
    """

    loss: tf.Tensor
    rho: tf.Tensor
    divergence: tf.Tensor
    policy_loss: tf.Tensor
    value_loss: tf.Tensor
    advantage_loss: tf.Tensor
    error: tf.Tensor


def loss(
    value: tf.Tensor,
    mean: tf.Tensor,
    variance: tf.Tensor,
    action: tf.Tensor,
    behaviour_mean: tf.Tensor,
    behaviour_variance: tf.Tensor,
    q_ret: tf.Tensor,
    beta: tf.Tensor | float,
    c_max: tf.Tensor | float,
    gate: bool,
    log_bound: float = gaussian.LOG_BOUND,
    divergence: str = "behavior_to_policy",
    advantage: tf.Tensor | None = None,
) -> VracerLoss:
    """Returns V-RACER's loss under the rules of ReF-ER (eqs 5, 8, 10, 11, 23).

        beta near (-rho (Q_ret - V) + 1/2 (V - V_tbc)^2 + 1/2 (rho (A + V - Q_ret))^2)
          + (1 - beta) D_KL(mu || pi),  V_tbc = V + min(1, rho) (Q_ret - V - A)

    Q_ret - V and V_tbc are constants to the gradient, and in the third term all but A. Without an
    advantage A = 0, and there is no third term. Equation 10 prints the penalty with a minus, beside
    a direction of ascent; in a loss it has a plus. The policy's rho is bounded by `log_bound`
    alone. No term has a weight of its own.

    Gradients flow into `value`, `mean`, `variance` and `advantage` only.

    Args:
      value: [B] floating, V.
      mean: [B, A], m of the policy pi.
      variance: [B, A] or [A], the diagonal of pi's covariance.
      action: [B, A], of the behaviour mu.
      behaviour_mean: [B, A], of mu.
      behaviour_variance: [B, A], of mu.
      q_ret: [B], the Retrace estimates of the action's value.
      beta: scalar in [0, 1]; 1 without rule 2.
      c_max: scalar above 1, see `rules.c_max`.
      gate: whether rule 1 is on, so that steps far from the policy have a gradient by D_KL alone.
      log_bound: see `gaussian.importance_weight`.
      divergence: "behavior_to_policy", as in the paper, or "policy_to_behavior", D_KL(pi || mu).
      advantage: [B], A, see `advantages.advantage`; None without one.
    """
    action, behaviour_mean, behaviour_variance = map(
        tf.stop_gradient, (action, behaviour_mean, behaviour_variance)
    )
    policy, behaviour = (mean, variance), (behaviour_mean, behaviour_variance)
    rho = gaussian.importance_weight(action, *policy, *behaviour, log_bound)
    if divergence == "behavior_to_policy":
        kl = gaussian.kl_divergence(*behaviour, *policy)
    else:
        kl = gaussian.kl_divergence(*policy, *behaviour)
    near = rules.mask(rho, c_max, gate)
    estimate = tf.stop_gradient(q_ret - value)
    residual = estimate if advantage is None else estimate - tf.stop_gradient(advantage)
    v_tbc = tf.stop_gradient(value + tf.minimum(1.0, rho) * residual)
    policy_loss = -near * rho * estimate
    error = tf.square(value - v_tbc)
    value_loss = 0.5 * near * error
    own, advantage_loss = policy_loss + value_loss, tf.zeros_like(value)
    if advantage is not None:
        advantage_loss = 0.5 * near * tf.square(tf.stop_gradient(rho) * (advantage - estimate))
        own += advantage_loss
    total = beta * own + (1.0 - beta) * kl
    return VracerLoss(total, rho, kl, policy_loss, value_loss, advantage_loss, error)
