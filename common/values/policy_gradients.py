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
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        fixed = tf.stop_gradient(action)
        tape.watch(fixed)
        q = value(fixed)
    dqda = tape.gradient(q, fixed)
    loss = deterministic_policy_gradient_loss(action, dqda, dqda_clip)
    saturated = tf.reduce_mean(tf.cast(tf.abs(action) > SATURATED, action.dtype))
    return tf.reduce_mean(loss), tf.reduce_mean(q), saturated
