"""Peng's Q(lambda): returns that mix values of best actions with what follows (TensorFlow)."""

import tensorflow as tf


def returns(
    reward_t: tf.Tensor, discount_t: tf.Tensor, value_t: tf.Tensor, lambda_: tf.Tensor | float
) -> tf.Tensor:
    """Returns the lambda-returns from each step of a sequence.

        G_t = r_t + g_t ((1 - lambda_t) v_t + lambda_t G_{t+1})

    The last step bootstraps from its value alone. Peng's Q(lambda) has a constant lambda, also
    where actions explore; a lambda of 0 after an exploring action makes it Watkins'.

    Args:
      reward_t: [T, B] floating, with which each step arrives.
      discount_t: [T, B], gamma times the environment's discount of the step.
      value_t: [T, B], value of the best action where the step arrives.
      lambda_: scalar or [T, B], the share of what follows the arrival. The last is not used.

    Returns:
      [T, B], in the dtype of `reward_t`. Gradients flow into all arguments.
    """
    lambda_ = tf.broadcast_to(tf.cast(lambda_, reward_t.dtype), tf.shape(reward_t))

    def mix(following: tf.Tensor, step: tuple) -> tf.Tensor:
        reward, discount, value, share = step
        return reward + discount * (value + share * (following - value))

    return tf.scan(mix, (reward_t, discount_t, value_t, lambda_), value_t[-1], reverse=True)
