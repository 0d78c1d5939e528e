"""Exploration noise on continuous actions.

A noise is called as `noise(action, state) -> noisy action, state`. Its state is part of the
policy's state, which is reset at the beginning of each episode.
"""

import numpy as np


def truncated_normal(
    generator: np.random.Generator, shape: tuple[int, ...], bound: float
) -> np.ndarray:
    """Returns standard normal numbers within +-bound, float32.

    Numbers beyond the bound are drawn again, so that none gather at it. Within 3 their standard
    deviation is 0.9866.

    Args:
      generator: of the random numbers.
      shape: of the result.
      bound: above 0; with a very small one, drawing takes long.

    Raises:
      ValueError: `bound` is not above 0.
    """
    if not bound > 0:
        raise ValueError(f"the noise's bound must be above 0, got {bound}")
    samples = generator.standard_normal(shape, np.float32)
    while (beyond := np.abs(samples) > bound).any():
        samples[beyond] = generator.standard_normal(np.count_nonzero(beyond), np.float32)
    return samples


class GaussianNoise:
    """Gaussian noise sigma * N(0, I), independent for each step, row and dimension.

    Source: D4PG algorithm 1 and section 4 (sigma 0.3), the same for all actors; Ape-X appendix D.
    """

    def __init__(self, sigma: float, seed: int, clip: bool = True):
        """Makes the noise.

        Args:
          sigma: standard deviation in canonical units, in which actions are in [-1, 1].
          seed: of the random numbers.
          clip: whether noisy actions are clipped to [-1, 1], which is not in the D4PG paper.

        Raises:
          ValueError: `sigma` is negative or not finite.
        """
        _check_sigma(sigma)
        self._sigma = np.float32(sigma)
        self._clip = clip
        self._generator = np.random.default_rng(seed)

    def initial_state(self, shape: tuple[int, ...]) -> tuple:
        """Returns an empty state."""
        del shape
        return ()

    def __call__(self, action: np.ndarray, state: tuple = ()) -> tuple[np.ndarray, tuple]:
        """Adds noise to actions [..., A] in [-1, 1]; returns a new float32 array and the state."""
        noisy = self._generator.standard_normal(action.shape, np.float32)
        noisy *= self._sigma
        noisy += action
        return np.clip(noisy, -1.0, 1.0, out=noisy) if self._clip else noisy, state


class OrnsteinUhlenbeckNoise:
    """Ornstein-Uhlenbeck noise, correlated over the steps of an episode (Lillicrap et al. 2015).

        x_t = x_{t-1} - theta x_{t-1} + sigma N(0, I),  x = 0 before an episode

    The variance tends to sigma^2 / (1 - (1 - theta)^2), the correlation over k steps is
    (1 - theta)^k. DDPG uses theta 0.15 and sigma 0.2. D4PG (section 4) tried this noise with
    unnamed parameters and found it unnecessary.
    """

    def __init__(self, sigma: float, theta: float, seed: int, clip: bool = True):
        """Makes the noise.

        Args:
          sigma: standard deviation of a step's increment, in canonical units.
          theta: rate per step at which x returns to 0.
          seed: of the random numbers.
          clip: whether noisy actions are clipped to [-1, 1].

        Raises:
          ValueError: `sigma` is negative or not finite, or `theta` is not in (0, 1].
        """
        _check_sigma(sigma)
        if not 0 < theta <= 1:
            raise ValueError(f"the noise's theta must be in (0, 1], got {theta}")
        self._sigma = np.float32(sigma)
        self._kept = np.float32(1 - theta)
        self._clip = clip
        self._generator = np.random.default_rng(seed)

    def initial_state(self, shape: tuple[int, ...]) -> np.ndarray:
        """Returns x before an episode for actions of this shape: float32 zeros."""
        return np.zeros(shape, np.float32)

    def __call__(self, action: np.ndarray, state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Adds noise to actions [..., A] in [-1, 1]; returns new float32 arrays: actions and x."""
        state = self._kept * state
        state += self._sigma * self._generator.standard_normal(action.shape, np.float32)
        noisy = action + state
        return np.clip(noisy, -1.0, 1.0, out=noisy) if self._clip else noisy, state


def _check_sigma(sigma: float) -> None:
    if not 0 <= sigma < np.inf:
        raise ValueError(f"the noise's sigma must be finite and at least 0, got {sigma}")
