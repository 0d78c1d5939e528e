"""Advantages in closed form: functions of the distance between an action and the best action.

They are quadratic, or bell-shaped with different widths above and below the policy's mean. Sources:
NAF (Gu et al. 2016); ReF-ER (Novati & Koumoutsakos 2019), eq 4 and appendix E. Functions `*_np` are
NumPy twins, for the advantages that actors store.
"""

import numpy as np
import tensorflow as tf


def lower_triangular(outputs: tf.Tensor, size: int) -> tf.Tensor:
    """Returns lower triangular matrices L with a positive diagonal, given a network's outputs.

    The outputs fill the triangle in the order of `tfp.math.fill_triangular`, which needs no gather;
    the diagonal then goes through softplus (ReF-ER, appendix E).

    Args:
      outputs: [B, A (A + 1) / 2] floating.
      size: A.

    Returns:
      [B, A, A].
    """
    square = tf.concat([outputs[:, size:], tf.reverse(outputs, [-1])], axis=-1)
    matrix = tf.reshape(square, [-1, size, size])
    diagonal = tf.nn.softplus(tf.linalg.diag_part(matrix))
    return tf.linalg.set_diag(tf.linalg.band_part(matrix, -1, 0), diagonal)


def quadratic(action: tf.Tensor, mean: tf.Tensor, lower: tf.Tensor) -> tf.Tensor:
    """Returns -1/2 (a - m)^T L L^T (a - m), at most 0.

    ReF-ER prints the factor 1/2 in eq 18 but not in eq 4; L absorbs the difference. As in the
    authors' program, both have it here.

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


def centred_quadratic(
    action: tf.Tensor, mean: tf.Tensor, lower: tf.Tensor, variance: tf.Tensor
) -> tf.Tensor:
    """Returns the advantage less its mean under the policy N(m, Sigma): f(a) - E[f].

    E[f] is -1/2 Tr(L L^T Sigma). ReF-ER (eq 19) prints Tr(L L^T Sigma), without sign and factor,
    but its authors' program has both.

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
    return quadratic(action, mean, lower) + 0.5 * trace


def lower_triangular_np(outputs: np.ndarray, size: int) -> np.ndarray:
    """Returns lower triangular matrices with a positive diagonal; see the TensorFlow namesake.

    Args:
      outputs: [B, A (A + 1) / 2] floating.
      size: A.

    Returns:
      [B, A, A].
    """
    square = np.concatenate([outputs[:, size:], outputs[:, ::-1]], axis=-1)
    matrix = np.tril(square.reshape(-1, size, size))
    diagonal = np.einsum("bii->bi", matrix)  # a view
    diagonal[:] = np.logaddexp(np.float32(0), diagonal)
    return matrix


def centred_quadratic_np(
    action: np.ndarray, mean: np.ndarray, lower: np.ndarray, variance: np.ndarray
) -> np.ndarray:
    """Returns A(s, a) = f(s, a) - E_pi[f(s, .)], [B]; see the TensorFlow namesake.

    Args:
      action: [B, A] floating.
      mean: [B, A], m.
      lower: [B, A, A], L.
      variance: [B, A] or [A], the diagonal of Sigma.
    """
    product = np.einsum("bi,bij->bj", action - mean, lower)
    trace = np.sum(np.sum(np.square(lower), axis=-1) * variance, axis=-1)
    return np.float32(0.5) * (trace - np.sum(np.square(product), axis=-1))


def centred_bell(
    action: tf.Tensor,
    mean: tf.Tensor,
    scale: tf.Tensor,
    above: tf.Tensor,
    below: tf.Tensor,
    variance: tf.Tensor,
) -> tf.Tensor:
    """Returns A(s, a) = f(s, a) - E_pi[f(s, .)] for the bell f of appendix E.

        f = K exp(-1/2 sum_i d_i^2 / L_i), d = a - m, L_i = L+_i if d_i > 0, otherwise L-_i
        E[f] = K prod_i 1/2 (sqrt(L+_i / (L+_i + Sigma_i)) + sqrt(L-_i / (L-_i + Sigma_i)))

    Args:
      action: [B, A] floating.
      mean: [B, A], m.
      scale: [B], K, above 0.
      above: [B, A], L+, the squared widths above the mean, above 0.
      below: [B, A], L-, the squared widths below the mean, above 0.
      variance: [B, A] or [A], the diagonal of Sigma.

    Returns:
      [B], with a mean of 0 under the policy.
    """
    difference = action - mean
    widths = tf.where(difference > 0, above, below)
    bell = tf.exp(-0.5 * tf.reduce_sum(tf.square(difference) / widths, axis=-1))
    halves = tf.sqrt(above / (above + variance)) + tf.sqrt(below / (below + variance))
    return scale * (bell - tf.reduce_prod(0.5 * halves, axis=-1))


def centred_bell_np(
    action: np.ndarray,
    mean: np.ndarray,
    scale: np.ndarray,
    above: np.ndarray,
    below: np.ndarray,
    variance: np.ndarray,
) -> np.ndarray:
    """Returns A(s, a) = f(s, a) - E_pi[f(s, .)], [B]; see the TensorFlow namesake.

    Args:
      action: [B, A] floating.
      mean: [B, A], m.
      scale: [B], K, above 0.
      above: [B, A], L+, above 0.
      below: [B, A], L-, above 0.
      variance: [B, A] or [A], the diagonal of Sigma.
    """
    difference = action - mean
    widths = np.where(difference > 0, above, below)
    bell = np.exp(np.float32(-0.5) * np.sum(np.square(difference) / widths, axis=-1))
    halves = np.sqrt(above / (above + variance)) + np.sqrt(below / (below + variance))
    return scale * (bell - np.prod(np.float32(0.5) * halves, axis=-1))
