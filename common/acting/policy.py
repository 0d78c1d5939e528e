"""What a policy is."""

from typing import Any, Protocol

import numpy as np
import tree

Nest = Any  # a tree of NumPy arrays, as the `tree` library understands it


class Policy(Protocol):
    """Acts for K environments at once.

    Calls are `policy(observation, state) -> action, state, extras`:
      observation: nest of [K, ...], as the environment's spec.
      state: nest of [K, ...], the recurrent state; () for a feedforward policy. The caller starts
        from an initial state and puts its rows back where an episode begins (`reset_rows`).
      action: [K, A] for continuous actions, [K] for discrete ones.
      extras: named arrays [K, ...] that the learner or the initial priority needs (q, mu, V, ...).
        They belong to the state that was observed, so they are asked for at the last state of an
        episode too.
    """

    def __call__(
        self, observation: Nest, state: Nest
    ) -> tuple[np.ndarray, Nest, dict[str, np.ndarray]]:
        """Returns the action, the next state and the extras."""


def reset_rows(state: Nest, initial_state: Nest, first: np.ndarray) -> Nest:
    """Returns `state` with the rows where `first`, bool [K], holds taken from `initial_state`."""
    if not first.any():
        return state

    def pick(leaf: np.ndarray, initial: np.ndarray) -> np.ndarray:
        return np.where(first.reshape(first.shape + (1,) * (leaf.ndim - 1)), initial, leaf)

    return tree.map_structure(pick, state, initial_state)
