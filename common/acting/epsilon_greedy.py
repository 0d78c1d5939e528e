"""Epsilon-greedy exploration with discrete actions."""

from collections.abc import Sequence

import numpy as np


def ladder(epsilon: float, alpha: float, num_actors: int) -> np.ndarray:
    """Returns a different epsilon for each actor (Ape-X section 4.1).

        epsilon_i = epsilon^(1 + i / (N - 1) * alpha),  i = 0 .. N - 1

    The paper does not cover a single actor; it gets `epsilon`.

    Args:
      epsilon: probability of a random action of actor 0.
      alpha: the last actor has epsilon^(1 + alpha).
      num_actors: N.

    Returns:
      float64 [N]; the last actor is the greediest.

    Raises:
      ValueError: `num_actors` is less than 1.
    """
    if num_actors < 1:
        raise ValueError(f"num_actors must be at least 1, got {num_actors}")
    return epsilon ** (1 + np.arange(num_actors) / max(num_actors - 1, 1) * alpha)


class EpsilonGreedy:
    """Choice of a uniformly random action with probability epsilon, else of a greedy one.

    Each row has its own epsilon. The random action may be the greedy one.
    """

    def __init__(self, epsilons: Sequence[float], seed: int):
        """Prepares the exploration of K rows.

        Args:
          epsilons: K probabilities.
          seed: of the random numbers.

        Raises:
          ValueError: an epsilon is not in [0, 1].
        """
        self._epsilons = np.array(epsilons, np.float64)
        if not np.all((self._epsilons >= 0) & (self._epsilons <= 1)):
            raise ValueError(f"epsilons must be in [0, 1], got {list(epsilons)}")
        self._generator = np.random.default_rng(seed)

    def __call__(self, q_values: np.ndarray) -> np.ndarray:
        """Returns actions: action values [K, A] -> int32 [K]."""
        num_rows, num_actions = q_values.shape
        explores = self._generator.random(num_rows) < self._epsilons
        actions = self._generator.integers(num_actions, size=num_rows)
        return np.where(explores, actions, q_values.argmax(axis=1)).astype(np.int32)
