"""NumPy twins of `common.values.quadratic`, for the advantages that actors store."""

import numpy as np


def lower_triangular(outputs: np.ndarray, size: int) -> np.ndarray:
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


def centred_advantage(
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
