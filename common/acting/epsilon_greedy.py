"""Exploration with discrete actions."""

from collections.abc import Sequence

import numpy as np


def ladder(epsilon: float, alpha: float, num_actors: int) -> np.ndarray:
    """Each actor's own epsilon (Ape-X section 4.1): from `epsilon` down to epsilon^(1 + alpha).

        epsilon_i = epsilon^(1 + i / (N - 1) * alpha),  i = 0 .. N - 1

    A single actor has epsilon^1, which the paper does not say.

    Returns:
      float64 [num_actors]; the last one is the greediest.

    Raises:
      ValueError: `num_actors` is less than 1.
    """
    if num_actors < 1:
        raise ValueError(f"num_actors must be at least 1, got {num_actors}")
    return epsilon ** (1 + np.arange(num_actors) / max(num_actors - 1, 1) * alpha)


class EpsilonGreedy:
    """Takes an action of largest value, or with probability epsilon one at random.

    A row has an epsilon of its own. The random action may be the greedy one.
    """

    def __init__(self, epsilons: Sequence[float], seed: int):
        """Makes the exploration of K rows.

        Raises:
          ValueError: one of the epsilons is not in [0, 1].
        """
        self._epsilons = np.array(epsilons, np.float64)
        if not np.all((self._epsilons >= 0) & (self._epsilons <= 1)):
            raise ValueError(f"epsilons must be in [0, 1], got {list(epsilons)}")
        self._generator = np.random.default_rng(seed)

    def __call__(self, q_values: np.ndarray) -> np.ndarray:
        """Action values [K, A] -> actions int32 [K]."""
        num_rows, num_actions = q_values.shape
        explores = self._generator.random(num_rows) < self._epsilons
        actions = self._generator.integers(num_actions, size=num_rows)
        return np.where(explores, actions, q_values.argmax(axis=1)).astype(np.int32)
