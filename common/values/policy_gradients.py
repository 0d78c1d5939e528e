"""Losses of policies: deterministic policy gradients, and surrogates of proximal optimisation.

Sources of the surrogates: PPO (Schulman et al. 2017), sections 3 and 4, and its distributed form
(Heess et al. 2017). rho is pi(a|s) / mu(a|s), where mu is the policy that acted.
"""

from collections.abc import Callable

import tensorflow as tf

SATURATED = 0.99
"""Magnitude above which an element of a canonical action is saturated: its tanh is nearly flat."""


def deterministic_policy_gradient_loss(
    action: tf.Tensor, dqda: tf.Tensor, dqda_clip: float | None, dqda_norm: float | None = None
) -> tf.Tensor:
    """Returns a loss whose gradient with respect to `action` is exactly -dqda.

    Minimising it ascends Q: the chain rule through the policy gives D4PG's eq 11 (Ape-X's eq 17)
    with the sign reversed. No gradient flows into `dqda`, so none flows into the critic. Only the
    gradient has a meaning: log the mean of Q, not this value.

    Args:
      action: [B, A] floating, the policy's actions.
      dqda: [B, A], gradient of the critic's (mean) value at those actions.
      dqda_clip: bound on the magnitude of each element of `dqda`: 1 in Ape-X DPG (appendix D), None
        (no clipping) in D4PG.
      dqda_norm: bound on the Euclidean norm of each row of `dqda`: 1 in Acme's D4PG, None (no
        clipping) in the papers.

    Returns:
      [B].
    """
    if dqda_clip is not None:
        dqda = tf.clip_by_value(dqda, -dqda_clip, dqda_clip)
    if dqda_norm is not None:
        dqda = tf.clip_by_norm(dqda, dqda_norm, axes=-1)
    return -tf.reduce_sum(tf.stop_gradient(dqda) * action, axis=-1)


def dpg_loss(
    action: tf.Tensor,
    value: Callable[[tf.Tensor], tf.Tensor],
    dqda_clip: float | None = None,
    dqda_norm: float | None = None,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns the deterministic policy gradient loss of a policy's actions, with two statistics.

    Minimising the loss raises the critic's value of the actions; the critic is held fixed.

    Args:
      action: [B, A] floating, the policy's actions.
      value: the critic at the states of these actions, [B, A] -> values [B].
      dqda_clip: see `deterministic_policy_gradient_loss`.
      dqda_norm: see `deterministic_policy_gradient_loss`.

    Returns:
      The batch mean of `deterministic_policy_gradient_loss`, the mean value of the actions, and the
      share of their elements that are saturated.
    """
    q, dqda = value_and_action_gradient(action, value)
    loss = deterministic_policy_gradient_loss(action, dqda, dqda_clip, dqda_norm)
    return tf.reduce_mean(loss), tf.reduce_mean(q), saturated_share(action)


def value_and_action_gradient(
    action: tf.Tensor, value: Callable[[tf.Tensor], tf.Tensor]
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns a critic's values [B] of actions and the gradients dqda [B, A] at these actions.

    No gradient flows through the result into the policy.

    Args:
      action: [B, A] floating, the policy's actions.
      value: the critic at the states of these actions, [B, A] -> values [B].
    """
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        fixed = tf.stop_gradient(action)
        tape.watch(fixed)
        q = value(fixed)
    return q, tape.gradient(q, fixed)


def saturated_share(action: tf.Tensor) -> tf.Tensor:
    """Returns the share of saturated elements of canonical actions, a scalar."""
    return tf.reduce_mean(tf.cast(tf.abs(action) > SATURATED, action.dtype))


def leave_one_out_beta(mu_a: tf.Tensor, c: float) -> tf.Tensor:
    """Returns beta = min(c, 1 / mu(a)), the weight of beta-LOO (Reactor, section 3.1).

    Args:
      mu_a: [...] floating, the behaviour policy's probabilities of the actions taken, above 0.
      c: bound, at least 1 in the paper. With 1, beta is 1 everywhere, which is LOO (eq 9) and
        Reactor's setting. Infinity gives 1 / mu-LOO (eq 11), which is unbiased.

    Returns:
      [...].
    """
    return tf.minimum(tf.cast(c, mu_a.dtype), 1.0 / mu_a)


def leave_one_out_loss(
    pi: tf.Tensor, q: tf.Tensor, actions: tf.Tensor, returns: tf.Tensor, beta: tf.Tensor | float
) -> tf.Tensor:
    """Returns a loss whose gradient is minus the beta-LOO policy gradient (Reactor, eq 10).

    G = beta (R(a^) - Q(a^)) grad pi(a^) + sum_a Q(a) grad pi(a), where a^ is the action taken. G
    differentiates pi, not log pi, and beta is its only importance ratio. Gradients flow into `pi`
    only. Only the gradient has a meaning: the value does not measure progress.

    Args:
      pi: [..., A] floating, the probabilities with which the policy acts.
      q: [..., A], the critic's action values.
      actions: [...] integer, the actions taken.
      returns: [...], R, estimates of the value of the actions taken.
      beta: scalar or [...], see `leave_one_out_beta`.

    Returns:
      [...].
    """
    taken = tf.one_hot(actions, pi.shape[-1], dtype=pi.dtype)
    q_taken = tf.reduce_sum(taken * q, axis=-1)
    correction = taken * tf.expand_dims(beta * (returns - q_taken), -1)
    return -tf.reduce_sum(tf.stop_gradient(q + correction) * pi, axis=-1)


def truncated_islr_loss(
    pi: tf.Tensor, mu: tf.Tensor, q: tf.Tensor, actions: tf.Tensor, returns: tf.Tensor, c: float
) -> tf.Tensor:
    """Returns a loss whose gradient is minus the TISLR policy gradient (Reactor, section 3.1).

    G = min(c, pi(a^) / mu(a^)) (R(a^) - V) grad log pi(a^) + sum_a (pi(a) / mu(a) - c)_+ mu(a)
    (Q(a) - V) grad log pi(a), with the baseline V = sum_a pi(a) Q(a). The estimator is ACER's (Wang
    et al. 2017). Gradients flow into `pi` only, and only through log pi. Only the gradient has a
    meaning: the value does not measure progress.

    Args:
      pi: [..., A] floating, the policy's probabilities, all above 0.
      mu: [..., A], the behaviour policy's probabilities when it acted, all above 0.
      q: [..., A], the critic's action values.
      actions: [...] integer, the actions taken.
      returns: [...], R, estimates of the value of the actions taken.
      c: bound on the importance ratio. Infinity gives ISLR (the equation before eq 9).

    Returns:
      [...].
    """
    taken = tf.one_hot(actions, pi.shape[-1], dtype=pi.dtype)
    v = tf.reduce_sum(pi * q, axis=-1, keepdims=True)
    ratio = pi / mu
    sampled = taken * tf.minimum(ratio, c) * (tf.expand_dims(returns, -1) - v)
    correction = tf.nn.relu(ratio - c) * mu * (q - v)
    weights = tf.stop_gradient(sampled + correction)
    return -tf.reduce_sum(weights * tf.math.log(pi), axis=-1)


def clipped_surrogate(rho: tf.Tensor, advantage: tf.Tensor, clip: float) -> tf.Tensor:
    """Returns -min(rho A, clip(rho, 1 - clip, 1 + clip) A) (PPO, eq 7), to be minimised.

    The gradient is 0 where the advantage would push rho further beyond the clip: above 1 + clip for
    a positive advantage, below 1 - clip for a negative one. Elsewhere it is not clipped, so that it
    can pull rho back.

    Args:
      rho: [B] floating.
      advantage: [B]. No gradient flows into it.
      clip: epsilon, 0.2 in PPO.

    Returns:
      [B].
    """
    advantage = tf.stop_gradient(advantage)
    return -tf.minimum(rho * advantage, tf.clip_by_value(rho, 1 - clip, 1 + clip) * advantage)


def penalized_surrogate(
    rho: tf.Tensor,
    advantage: tf.Tensor,
    divergence: tf.Tensor,
    coefficient: float | tf.Tensor,
    target: float | tf.Tensor,
    hinge: float = 1000.0,
) -> tf.Tensor:
    """Returns the surrogate loss with a penalty on the divergence (Heess et al. 2017).

        -rho A + coefficient D + hinge max(0, D - 2 target)^2

    Args:
      rho: [B] floating.
      advantage: [B]. No gradient flows into it.
      divergence: [B] or scalar, D, D_KL(mu || pi). The paper's hinge applies to the mean divergence
        of a batch, for which the mean must be given.
      coefficient: scalar, not negative.
      target: scalar, the desired divergence.
      hinge: weight of the squared excess; 1000 in Schulman's modular_rl.

    Returns:
      [B], to be minimised.
    """
    excess = tf.maximum(divergence - 2 * target, 0)
    penalty = coefficient * divergence + hinge * tf.square(excess)
    return penalty - rho * tf.stop_gradient(advantage)


def next_penalty_coefficient(
    coefficient: float | tf.Tensor,
    divergence: float | tf.Tensor,
    target: float | tf.Tensor,
    tolerance: float = 2.0,
    factor: float = 1.5,
) -> tf.Tensor:
    """Returns the penalty coefficient for the next rollout (PPO, section 4; Heess et al. 2017).

    It grows if the divergence is above `target * tolerance`, and shrinks if the divergence is below
    `target / tolerance`. The defaults are an interval of 0.5 to 2 times the target and modular_rl's
    factor. PPO has a tolerance of 1.5 and a factor of 2.

    Args:
      coefficient: scalar, the coefficient for the last rollout.
      divergence: scalar, the mean divergence on the last rollout after its updates.
      target: scalar, the desired divergence, above 0.
      tolerance: ratio between divergence and target up to which nothing changes, at least 1.
      factor: factor by which the coefficient grows or shrinks, above 1.

    Returns:
      The coefficient, a scalar.
    """
    coefficient = tf.convert_to_tensor(coefficient)
    too_far = divergence > tolerance * target
    too_near = divergence < target / tolerance
    return tf.where(
        too_far, coefficient * factor, tf.where(too_near, coefficient / factor, coefficient)
    )
