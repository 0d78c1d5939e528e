"""NumPy twin of `common.values.asymmetric_gaussian`, for the advantages that actors store."""

import numpy as np


def centred_advantage(
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
