"""Quadratic advantages: a value's fall with the distance of an action from the best one.

Sources: NAF (Gu et al. 2016); ReF-ER (Novati & Koumoutsakos 2019), eq 4 and appendix E.
"""

import tensorflow as tf


def lower_triangular(outputs: tf.Tensor, size: int) -> tf.Tensor:
    """Returns lower triangular matrices L with a positive diagonal, made from a network's outputs.

    The outputs fill the triangle in the order of `tfp.math.fill_triangular`, which needs no gather;
    the diagonal then goes through softplus (ReF-ER, appendix E).

    Args:
      outputs: [B, A (A + 1) / 2] floating.
      size: A.

    Returns:
      [B, A, A].

    Raises:
      ValueError: `outputs` has another number of columns.
    """
    if outputs.shape[-1] != size * (size + 1) // 2:
        raise ValueError(
            f"A triangle of size {size} takes {size * (size + 1) // 2} outputs, got "
            f"{outputs.shape[-1]}."
        )
    square = tf.concat([outputs[:, size:], tf.reverse(outputs, [-1])], axis=-1)
    matrix = tf.reshape(square, [-1, size, size])
    diagonal = tf.nn.softplus(tf.linalg.diag_part(matrix))
    return tf.linalg.set_diag(tf.linalg.band_part(matrix, -1, 0), diagonal)


def advantage(action: tf.Tensor, mean: tf.Tensor, lower: tf.Tensor) -> tf.Tensor:
    """Returns -1/2 (a - m)^T L L^T (a - m), at most 0.

    ReF-ER prints no factor of 1/2 in eq 4, but in eq 18; L absorbs it. As in the authors' program,
    both have it here.

    Args:
      action: [B, A] floating.
      mean: [B, A], m, the best action.
      lower: [B, A, A], L.

    Returns:
      [B].
    """
    # No matvec: in TensorFlow 2.21 its kernel corrupts memory when it broadcasts a matrix.
    product = tf.reduce_sum((action - mean)[:, :, tf.newaxis] * lower, axis=1)  # L^T (a - m)
    return -0.5 * tf.reduce_sum(tf.square(product), axis=-1)


def centred_advantage(
    action: tf.Tensor, mean: tf.Tensor, lower: tf.Tensor, variance: tf.Tensor
) -> tf.Tensor:
    """Returns the advantage less its mean under the policy N(m, Sigma): f(a) - E[f].

    E[f] is -1/2 Tr(L L^T Sigma). ReF-ER (eq 19) prints Tr(L L^T Sigma), without sign and factor;
    its authors' program has them.

    Args:
      action: [B, A] floating.
      mean: [B, A], m.
      lower: [B, A, A], L.
      variance: [B, A] or [A], the diagonal of Sigma.

    Returns:
      [B], with a mean of 0 under the policy.
    """
    precision = tf.reduce_sum(tf.square(lower), axis=-1)  # the diagonal of L L^T
    trace = tf.reduce_sum(precision * variance, axis=-1)
    return advantage(action, mean, lower) + 0.5 * trace
