"""Bell-shaped advantages whose widths differ above and below the policy's mean (TensorFlow).

Source: ReF-ER (Novati & Koumoutsakos 2019), appendix E.
"""

import tensorflow as tf


def centred_advantage(
    action: tf.Tensor,
    mean: tf.Tensor,
    scale: tf.Tensor,
    above: tf.Tensor,
    below: tf.Tensor,
    variance: tf.Tensor,
) -> tf.Tensor:
    """Returns A(s, a) = f(s, a) - E_pi[f(s, .)] for the bell f of appendix E.

        f = K exp(-1/2 sum_i d_i^2 / L_i), with d = a - m and L_i that of the side of d_i
        E[f] = K prod_i 1/2 (sqrt(L+_i / (L+_i + Sigma_i)) + sqrt(L-_i / (L-_i + Sigma_i)))

    Args:
      action: [B, A] floating.
      mean: [B, A], m.
      scale: [B], K, above 0.
      above: [B, A], L+, the squared widths above the mean, above 0.
      below: [B, A], L-, the squared widths below it, above 0.
      variance: [B, A] or [A], the diagonal of Sigma.

    Returns:
      [B], with a mean of 0 under the policy.
    """
    difference = action - mean
    widths = tf.where(difference > 0, above, below)
    bell = tf.exp(-0.5 * tf.reduce_sum(tf.square(difference) / widths, axis=-1))
    halves = tf.sqrt(above / (above + variance)) + tf.sqrt(below / (below + variance))
    return scale * (bell - tf.reduce_prod(0.5 * halves, axis=-1))
