"""Double Q-learning, and the importance weights of prioritised replay."""

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


def importance_weights(probabilities: tf.Tensor, size: tf.Tensor, exponent: float) -> tf.Tensor:
    """Returns w_k = (N P(k))^-exponent (Schaul et al. 2016; D4PG eq 10, Ape-X section 4.1).

    The weights are neither normalised nor bounded. With exponent 1 they fully correct for
    non-uniform sampling: their mean under P is 1.

    Args:
      probabilities: [B] floating, P(k), the probability with which each item was drawn, above 0.
      size: scalar of the same dtype, N, the number of items in the memory.
      exponent: beta; 0 gives weights of 1.

    Returns:
      [B].
    """
    return (size * probabilities) ** -exponent


def normalize_by_max(weights: tf.Tensor) -> tf.Tensor:
    """Divides weights [B] by the largest in the batch, so that they only scale updates down.

    See Schaul et al. 2016, section 3.4.
    """
    return weights / tf.reduce_max(weights)
