"""Exploration noise on continuous actions.

A noise is called as `noise(action, state) -> noisy action, state`; its state is part of a policy's,
so that it begins anew with each episode.
"""

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
        _check_sigma(sigma)
        self._sigma = np.float32(sigma)
        self._clip = clip
        self._generator = np.random.default_rng(seed)

    def initial_state(self, shape: tuple[int, ...]) -> tuple:
        """None is needed, whatever the `shape` of the actions."""
        del shape
        return ()

    def __call__(self, action: np.ndarray, state: tuple = ()) -> tuple[np.ndarray, tuple]:
        """Returns a new float32 array, `action`, [..., A] in [-1, 1], with noise; and the state."""
        noisy = self._generator.standard_normal(action.shape, np.float32)
        noisy *= self._sigma
        noisy += action
        return np.clip(noisy, -1.0, 1.0, out=noisy) if self._clip else noisy, state


class OrnsteinUhlenbeckNoise:
    """Adds noise that is correlated over the steps of an episode (DDPG, Lillicrap et al. 2015).

        x_t = x_{t-1} - theta x_{t-1} + sigma N(0, I),  x = 0 before an episode

    which tends to a variance of sigma^2 / (1 - (1 - theta)^2) and a correlation of (1 - theta)^k
    over k steps. D4PG (section 4) tried it and found it unnecessary, without saying with which
    parameters; DDPG has theta 0.15 and sigma 0.2.
    """

    def __init__(self, sigma: float, theta: float, seed: int, clip: bool = True):
        """Makes the noise.

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
        """X before an episode, for actions of this `shape`: float32 zeros."""
        return np.zeros(shape, np.float32)

    def __call__(self, action: np.ndarray, state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns new float32 arrays: `action`, [..., A] in [-1, 1], with noise; and the next x."""
        state = self._kept * state
        state += self._sigma * self._generator.standard_normal(action.shape, np.float32)
        noisy = action + state
        return np.clip(noisy, -1.0, 1.0, out=noisy) if self._clip else noisy, state


def _check_sigma(sigma: float) -> None:
    if not 0 <= sigma < np.inf:
        raise ValueError(f"the noise's sigma must be finite and at least 0, got {sigma}")
