"""Generalised advantage estimates (TensorFlow)."""

import tensorflow as tf

from common.values import q_lambda


def estimate(
    rewards: tf.Tensor, values: tf.Tensor, discount: float | tf.Tensor, lambda_: float | tf.Tensor
) -> tf.Tensor:
    """Returns the advantages of the actions of a fragment (Schulman et al. 2016, eq 16).

        A_t = sum_l (discount lambda)^l (r_{t+l} + discount V_{t+l+1} - V_{t+l})

    This is the lambda-return less V, so that lambda 1 gives the discounted sum of rewards, with a
    bootstrap from the last value, and lambda 0 the one-step error.

    Args:
      rewards: [T] floating, with which each step arrives.
      values: [T + 1], V of each state; the last is 0 if the fragment ends with a true end.
      discount: scalar, gamma.
      lambda_: scalar.

    Returns:
      [T], in the dtype of `rewards`. Gradients flow into the arguments.
    """
    rewards = tf.convert_to_tensor(rewards)
    values = tf.cast(values, rewards.dtype)
    ones = tf.ones_like(rewards)  # a cast of a Python number would round it to single precision
    return q_lambda.returns(rewards, discount * ones, values[1:], lambda_ * ones) - values[:-1]
