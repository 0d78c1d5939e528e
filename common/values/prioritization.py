"""Importance weights of prioritised replay (TensorFlow)."""

import tensorflow as tf


def importance_weights(probabilities: tf.Tensor, size: tf.Tensor, exponent: float) -> tf.Tensor:
    """Returns w_k = (N P(k))^-exponent (Schaul et al. 2016; D4PG eq 10, Ape-X section 4.1).

    The weights are neither normalised nor bounded. With exponent 1 they fully correct for
    non-uniform sampling: their mean under P is 1.

    Args:
      probabilities: [B] floating, P(k) with which each item was drawn, above 0.
      size: scalar of the same dtype, N items in the memory.
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
