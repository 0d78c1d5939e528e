"""Exploration noise on continuous actions."""

import numpy as np


class GaussianNoise:
    """Adds sigma * N(0, I), independent for each step, row and dimension.

    D4PG algorithm 1 and section 4 (sigma 0.3); Ape-X appendix D. `sigma` is a standard deviation in
    canonical action units, where the bounds are [-1, 1], and is the same for all actors. That the
    sum is clipped to [-1, 1] is not in the D4PG paper; `clip=False` leaves it as it is.
    """

    def __init__(self, sigma: float, seed: int, clip: bool = True):
        """Makes the noise.

        Raises:
          ValueError: `sigma` is negative or not finite.
        """
        if not 0 <= sigma < np.inf:
            raise ValueError(f"the noise's sigma must be finite and at least 0, got {sigma}")
        self._sigma = np.float32(sigma)
        self._clip = clip
        self._generator = np.random.default_rng(seed)

    def __call__(self, action: np.ndarray) -> np.ndarray:
        """Returns a new float32 array: `action`, [..., A] in [-1, 1], with noise."""
        noisy = self._generator.standard_normal(action.shape, np.float32)
        noisy *= self._sigma
        noisy += action
        return np.clip(noisy, -1.0, 1.0, out=noisy) if self._clip else noisy
