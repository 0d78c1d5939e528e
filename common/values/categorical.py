"""Value distributions on fixed atoms: support, projection, cross-entropy, mean.

Source: D4PG (Barth-Maron et al. 2018), appendices A and B; the projection comes from C51 (Bellemare
et al. 2017). Equation numbers follow reproductions/d4pg/README.md. K is the number of atoms of the
support (l in the paper) and M the number of atoms to project, which often equals K.

Functions `*_np` are NumPy twins, for the actors' initial priorities. Actors process small batches
many times a second, where the overhead of a TensorFlow call would dominate. Each agrees with its
TensorFlow namesake to 1e-5.
"""

import numpy as np
import tensorflow as tf


def support(v_min: float, v_max: float, num_atoms: int) -> tf.Tensor:
    """Returns evenly spaced atoms from `v_min` to `v_max`, both included (eq 14).

    Args:
      v_min: position of the first atom, in units of return.
      v_max: position of the last atom, above `v_min`.
      num_atoms: K, at least 2.

    Returns:
      [K] float32, increasing.
    """
    return tf.constant(np.linspace(v_min, v_max, num_atoms, dtype=np.float32))


def target_positions(returns: tf.Tensor, discounts: tf.Tensor, support: tf.Tensor) -> tf.Tensor:
    """Returns the atoms after a Bellman backup, z'_j = R + gamma z_j (eq 15).

    Args:
      returns: [B] floating, n-step sums of discounted rewards.
      discounts: [B] floating, gamma^n times the environments' discounts; 0 after termination.
      support: [M] atoms of the bootstrap distribution.

    Returns:
      [B, M], in the dtype of `returns`.
    """
    returns = _floating(returns)
    discounts = tf.cast(discounts, returns.dtype)
    support = tf.cast(support, returns.dtype)
    return returns[:, tf.newaxis] + discounts[:, tf.newaxis] * support


def project(positions: tf.Tensor, probabilities: tf.Tensor, support: tf.Tensor) -> tf.Tensor:
    """Projects distributions on arbitrary positions onto the atoms of `support` (eq 15).

    Each position z'_j is clipped to the range of the support. Its mass p_j is then shared between
    the two neighbouring atoms in proportion to nearness: (Phi p)_i = sum_j h_i(z'_j) p_j, where h_i
    is the hat function of atom i. The projection conserves mass; it conserves the mean unless a
    position is clipped.

    Args:
      positions: [B, M], in any order within a row.
      probabilities: [B, M] mass at each position; need not sum to 1.
      support: [K] strictly increasing, K >= 2, evenly spaced or not.

    Returns:
      [B, K], in the dtype of `probabilities` (float32 or float64; float32 for integers).

    Raises:
      ValueError: a static shape differs from those above.
    """
    probabilities = _floating(probabilities)
    positions = tf.cast(positions, probabilities.dtype)
    support = tf.cast(support, probabilities.dtype)
    _check_projection_shapes(positions.shape, probabilities.shape, support.shape)

    positions = tf.clip_by_value(positions, support[0], support[-1])
    slopes = 1.0 / (support[1:] - support[:-1])  # multiplying is faster than dividing below
    # Clipped positions never reach the outer side of the first or last hat: any slope will do.
    slope_below = tf.concat([slopes[:1], slopes], axis=0)
    slope_above = tf.concat([slopes, slopes[-1:]], axis=0)
    offset = positions[:, :, tf.newaxis] - support  # [B, M, K]
    hat = tf.nn.relu(1.0 - tf.maximum(-offset * slope_below, offset * slope_above))
    # Not a matrix product: GPUs would round it to TF32 and lose mass.
    return tf.reduce_sum(hat * probabilities[:, :, tf.newaxis], axis=1)


def cross_entropy(target_probabilities: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """Returns d = -sum_i p'_i log softmax(logits)_i, the cross-entropy with fixed targets (eq 16).

    No gradient flows into the targets. This is not a Kullback-Leibler divergence: a priority
    computed from it is at least the entropy of the target.

    Args:
      target_probabilities: [B, K], p'.
      logits: [B, K] floating.

    Returns:
      [B], in the dtype of `logits`.
    """
    logits = _floating(logits)
    target_probabilities = tf.stop_gradient(tf.cast(target_probabilities, logits.dtype))
    return -tf.reduce_sum(target_probabilities * tf.nn.log_softmax(logits), axis=-1)


def mean(logits: tf.Tensor, support: tf.Tensor) -> tf.Tensor:
    """Returns the expected value of each distribution, sum_i z_i softmax(logits)_i (eq 7).

    Args:
      logits: [B, K] floating.
      support: [K], the atoms z.

    Returns:
      [B], in the dtype of `logits`.
    """
    logits = _floating(logits)
    return tf.reduce_sum(tf.nn.softmax(logits) * tf.cast(support, logits.dtype), axis=-1)


def total_variation(p: tf.Tensor, q: tf.Tensor) -> tf.Tensor:
    """Returns sum_i |p_i - q_i|, Reactor's priority of one step (section 3.3, footnote 3).

    The factor 1/2 of the usual definition is omitted. If p is the target of a cross-entropy and q
    the softmax of its logits, this is the L1 norm of the gradient with respect to the logits. It is
    at most 2 for probabilities, but may be larger for signed masses.

    Args:
      p: [..., K] floating.
      q: [..., K] of the same dtype.

    Returns:
      [...].
    """
    return tf.reduce_sum(tf.abs(p - q), axis=-1)


def _floating(values: tf.Tensor) -> tf.Tensor:
    values = tf.convert_to_tensor(values)
    return values if values.dtype.is_floating else tf.cast(values, tf.float32)


def _check_projection_shapes(
    positions: tf.TensorShape, probabilities: tf.TensorShape, support: tf.TensorShape
) -> None:
    matching = positions.rank == 2 and positions.is_compatible_with(probabilities)
    if not matching:
        raise ValueError(
            f"positions and probabilities must both be [B, M], got {positions} and {probabilities}."
        )
    if support.rank != 1 or (support[0] is not None and support[0] < 2):
        raise ValueError(f"support must be [K] with K >= 2, got {support}.")


def project_np(positions: np.ndarray, probabilities: np.ndarray, support: np.ndarray) -> np.ndarray:
    """Projects distributions on arbitrary positions onto the atoms of `support` (eq 15).

    Scatters each mass to its two neighbours in O(B M log K) operations, whereas the hat functions
    of the TensorFlow version take O(B M K).

    Args:
      positions: [B, M] floating, in any order within a row.
      probabilities: [B, M] floating.
      support: [K] strictly increasing, K >= 2, evenly spaced or not.

    Returns:
      [B, K], in the dtype of `probabilities`.
    """
    num_rows, num_atoms = positions.shape[0], support.size
    positions = np.clip(positions, support[0], support[-1])
    # Searches the inner atoms only, so that a position on the last atom has an upper neighbour too.
    lower = np.searchsorted(support[1:-1], positions, side="right")
    share_above = (positions - support[lower]) / np.diff(support)[lower]
    mass_above = share_above * probabilities
    mass_below = probabilities - mass_above

    lower += num_atoms * np.arange(num_rows)[:, np.newaxis]  # indices into the flattened [B, K]
    lower = lower.ravel()
    size = num_rows * num_atoms
    projected = np.bincount(lower, mass_below.ravel(), size)
    projected += np.bincount(lower + 1, mass_above.ravel(), size)
    return projected.reshape(num_rows, num_atoms).astype(probabilities.dtype)


def softmax_np(logits: np.ndarray) -> np.ndarray:
    """Returns the softmax over the last axis: [B, K] floating -> [B, K] of the same dtype."""
    exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
    exponentials /= exponentials.sum(axis=-1, keepdims=True)
    return exponentials


def cross_entropy_np(target_probabilities: np.ndarray, logits: np.ndarray) -> np.ndarray:
    """Returns -sum_i p'_i log softmax(logits)_i (eq 16): [B, K], [B, K] -> [B]."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    log_normaliser = np.log(np.exp(shifted).sum(axis=-1))
    mass = target_probabilities.sum(axis=-1)
    return mass * log_normaliser - (target_probabilities * shifted).sum(axis=-1)
