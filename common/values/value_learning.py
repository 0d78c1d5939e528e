"""Double Q-learning (TensorFlow)."""

import tensorflow as tf


def double_q_target(
    reward: tf.Tensor, discount: tf.Tensor, q_value: tf.Tensor, q_selector: tf.Tensor
) -> tf.Tensor:
    """Returns G = R + gamma q_value(S', argmax_a q_selector(S', a)) (van Hasselt et al. 2016).

    Ape-X (section 3.1) selects the action with the online network and evaluates it with the target
    network; R and gamma cover n steps. No gradient flows into any argument.

    Args:
      reward: [B] floating, R.
      discount: [B], gamma; 0 where nothing is bootstrapped from S'.
      q_value: [B, A], action values at S' from the network that evaluates the action.
      q_selector: [B, A], action values at S' from the network that selects the action. The first
        maximum wins a tie.

    Returns:
      [B].
    """
    best = tf.argmax(q_selector, axis=1)
    return tf.stop_gradient(reward + discount * action_value(q_value, best))


def action_value(q: tf.Tensor, action: tf.Tensor) -> tf.Tensor:
    """Returns q(s, a): action values [B, A], integer actions [B] -> values of these actions [B]."""
    return tf.gather(q, action, axis=1, batch_dims=1)
