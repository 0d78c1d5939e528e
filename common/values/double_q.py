"""Double Q-learning (TensorFlow)."""

import tensorflow as tf


def double_q_target(
    reward: tf.Tensor, discount: tf.Tensor, q_value: tf.Tensor, q_selector: tf.Tensor
) -> tf.Tensor:
    """G = R + gamma q_value(S', argmax_a q_selector(S', a)) (van Hasselt et al. 2016).

    Ape-X (section 3.1) selects by the online network, values by the target network, and R and
    gamma are of several steps. No gradient flows into any argument.

    Args:
        reward: [B] floating.
        discount: [B], 0 where S' is no longer part of the episode.
        q_value: [B, A], action values of S' by the network that values.
        q_selector: [B, A], by the network that selects. Of equal ones the first is taken.

    Returns:
        [B].
    """
    best = tf.argmax(q_selector, axis=1)
    return tf.stop_gradient(reward + discount * of_action(q_value, best))


def of_action(q: tf.Tensor, action: tf.Tensor) -> tf.Tensor:
    """q(s, a): the values [B] of actions [B] (integers) among those of all [B, A]."""
    return tf.gather(q, action, axis=1, batch_dims=1)
