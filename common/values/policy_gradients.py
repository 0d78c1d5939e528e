"""Policy-gradient losses (TensorFlow)."""

from collections.abc import Callable

import tensorflow as tf

SATURATED = 0.99
"""The magnitude above which a canonical action is saturated: its tanh has hardly a gradient."""


def deterministic_policy_gradient_loss(
    action: tf.Tensor, dqda: tf.Tensor, dqda_clip: float | None
) -> tf.Tensor:
    """Returns a loss whose gradient with respect to `action` is exactly -dqda.

    Minimising it ascends Q: the chain rule through the policy gives D4PG's eq 11 (Ape-X's eq 17)
    with the sign reversed. No gradient flows into `dqda`, and so none into the critic. Only the
    gradient has a meaning: log the mean of Q, not this value.

    Args:
      action: [B, A] floating, the policy's actions.
      dqda: [B, A], gradient of the critic's (mean) value at those actions.
      dqda_clip: bound on the magnitude of each element of `dqda`: 1 in Ape-X DPG (appendix D), None
        (no clipping) in D4PG.

    Returns:
      [B].

    Raises:
      ValueError: `dqda_clip` is not positive.
    """
    if dqda_clip is not None:
        if dqda_clip <= 0:
            raise ValueError(f"dqda_clip must be positive or None (off), got {dqda_clip}.")
        dqda = tf.clip_by_value(dqda, -dqda_clip, dqda_clip)
    return -tf.reduce_sum(tf.stop_gradient(dqda) * action, axis=-1)


def dpg_loss(
    action: tf.Tensor, value: Callable[[tf.Tensor], tf.Tensor], dqda_clip: float | None = None
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns the deterministic policy gradient loss of a policy's actions, and what they are like.

    Minimising the loss raises the critic's value of the actions; the critic is held fixed.

    Args:
      action: [B, A] floating, the policy's actions.
      value: the critic at the states of these actions, [B, A] -> values [B].
      dqda_clip: see `deterministic_policy_gradient_loss`.

    Returns:
      The batch mean of `deterministic_policy_gradient_loss`, the mean value of the actions, and the
      share of their elements that are saturated.
    """
    q, dqda = value_and_action_gradient(action, value)
    loss = deterministic_policy_gradient_loss(action, dqda, dqda_clip)
    return tf.reduce_mean(loss), tf.reduce_mean(q), saturated_share(action)


def value_and_action_gradient(
    action: tf.Tensor, value: Callable[[tf.Tensor], tf.Tensor]
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns a critic's values [B] of actions [B, A] and their gradients dqda [B, A].

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
      c: bound, at least 1 in the paper. 1 gives beta = 1 everywhere, which is LOO (eq 9) and
        Reactor's setting; infinity gives 1 / mu-LOO (eq 11), which is unbiased.

    Returns:
      [...].
    """
    return tf.minimum(tf.cast(c, mu_a.dtype), 1.0 / mu_a)


def leave_one_out_loss(
    pi: tf.Tensor, q: tf.Tensor, actions: tf.Tensor, returns: tf.Tensor, beta: tf.Tensor | float
) -> tf.Tensor:
    """Returns a loss whose gradient is minus the beta-LOO policy gradient (Reactor, eq 10).

    G = beta (R(a^) - Q(a^)) grad pi(a^) + sum_a Q(a) grad pi(a), where a^ is the action taken. It
    differentiates pi, not log pi, and has no importance ratio but beta. Gradients flow into `pi`
    only. Only the gradient has a meaning: the value is no measure of progress.

    Args:
      pi: [..., A] floating, the policy's probabilities, those it acts with.
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
    et al. 2017). Gradients flow into `pi` only, and there through log pi alone. Only the gradient
    has a meaning: the value is no measure of progress.

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
