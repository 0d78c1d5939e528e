"""n-step returns over a sequence (TensorFlow)."""

import tensorflow as tf


def n_step_returns(
    rewards: tf.Tensor, discounts: tf.Tensor, bootstrap_values: tf.Tensor, n: int
) -> tf.Tensor:
    """Returns the bootstrapped n-step return from each step of a sequence.

    G_t = r_{t+1} + g_{t+1} (r_{t+2} + g_{t+2} (... (r_{t+n} + g_{t+n} v_{t+n}))), as in Ape-X
    (appendix F) and D4PG (eq 8). Steps with fewer than n successors bootstrap from the last value
    of the sequence. A discount of 0 cuts the return.

    Args:
      rewards: [T, B] floating, r at times 1..T.
      discounts: [T, B], g at times 1..T: gamma times the environments' discounts.
      bootstrap_values: [T, B], v at times 1..T: the value of the state reached with each reward.
      n: steps, at least 1; may exceed T.

    Returns:
      [T, B] returns from times 0..T-1, in the dtype of `rewards`. Gradients flow into
      `bootstrap_values`.

    Raises:
      ValueError: n is below 1.
    """
    if n < 1:
        raise ValueError(f"n must be at least 1, got {n}.")
    length = tf.shape(rewards)[0]
    padding = [[0, n - 1], [0, 0]]
    # Past the end rewards are 0 and discounts 1, so that the last value stays as it is.
    rewards = tf.pad(rewards, padding)
    discounts = tf.pad(discounts, padding, constant_values=1)
    last_value = tf.repeat(bootstrap_values[-1:], n - 1, axis=0)
    returns = tf.concat([bootstrap_values, last_value], axis=0)[n - 1 :]
    for step in reversed(range(n)):
        window = slice(step, step + length)
        returns = rewards[window] + discounts[window] * returns
    return returns
