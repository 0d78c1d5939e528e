"""Generalised advantage estimates (NumPy), for actors."""

import numpy as np


def estimate(
    rewards: np.ndarray, values: np.ndarray, discount: np.ndarray | float, lambda_: float
) -> np.ndarray:
    """Returns the advantages of the actions of fragments (Schulman et al. 2016, eq 16).

        A_t = r_t + d_t V_{t+1} - V_t + d_t lambda A_{t+1},  A_T = 0

    With lambda 1 this is the discounted sum of rewards, with a bootstrap from the last value, less
    V; with lambda 0 the one-step error.

    Args:
      rewards: [T, ...] floating, with which each step arrives.
      values: [T + 1, ...], V of each state.
      discount: scalar or [T, ...], d: gamma times the environment's discount, 0 at a true end.
      lambda_: in [0, 1].

    Returns:
      [T, ...], in the dtype of `rewards`.
    """
    errors = rewards + discount * values[1:] - values[:-1]
    traces = np.broadcast_to(np.asarray(lambda_ * discount, rewards.dtype), rewards.shape)
    advantages = np.empty_like(rewards)
    following = np.zeros_like(rewards[0])
    for t in reversed(range(len(rewards))):
        advantages[t] = following = errors[t] + traces[t] * following
    return advantages
