"""NumPy twins of `common.values.categorical`, for the actors' initial priorities.

Actors process small batches many times a second, where the overhead of a TensorFlow call would
dominate. Each function agrees with its TensorFlow namesake to 1e-5.
"""

import numpy as np


def project(positions: np.ndarray, probabilities: np.ndarray, support: np.ndarray) -> np.ndarray:
    """Projects distributions on arbitrary positions onto the atoms of `support` (eq 15).

    Scatters each mass to its two neighbours: O(B M log K), where the hat functions of the
    TensorFlow version take O(B M K).

    Args:
      positions: [B, M] floating, in any order within a row.
      probabilities: [B, M] floating.
      support: [K] strictly increasing, K >= 2, evenly spaced or not.

    Returns:
      [B, K], in the dtype of `probabilities`.

    Raises:
      ValueError: a shape differs from those above.
    """
    if positions.ndim != 2 or positions.shape != probabilities.shape:
        raise ValueError(
            "positions and probabilities must both be [B, M], "
            f"got {positions.shape} and {probabilities.shape}."
        )
    if support.ndim != 1 or support.size < 2:
        raise ValueError(f"support must be [K] with K >= 2, got {support.shape}.")
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


def softmax(logits: np.ndarray) -> np.ndarray:
    """Returns the softmax over the last axis: [B, K] floating -> [B, K] of the same dtype."""
    exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
    exponentials /= exponentials.sum(axis=-1, keepdims=True)
    return exponentials


def cross_entropy(target_probabilities: np.ndarray, logits: np.ndarray) -> np.ndarray:
    """Returns -sum_i p'_i log softmax(logits)_i (eq 16): [B, K], [B, K] -> [B]."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    log_normaliser = np.log(np.exp(shifted).sum(axis=-1))
    mass = target_probabilities.sum(axis=-1)
    return mass * log_normaliser - (target_probabilities * shifted).sum(axis=-1)


def mean(logits: np.ndarray, support: np.ndarray) -> np.ndarray:
    """Returns the expected value sum_i z_i softmax(logits)_i (eq 7): [B, K], [K] -> [B]."""
    return softmax(logits) @ support
