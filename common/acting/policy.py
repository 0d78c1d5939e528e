"""The contracts of policies and adders, as the acting loop calls them."""

import abc
from typing import Protocol

import dm_env
import numpy as np
import tree

from common.types import Nest, NStepTransitions


class Policy(abc.ABC):
    """A policy for K environments at once, with parameters that are loaded from outside."""

    @abc.abstractmethod
    def load(self, flat: np.ndarray) -> None:
        """Takes over published parameters, [P] float32."""

    def initial_state(self, num_environments: int) -> Nest:
        """Returns the recurrent state before an episode, [K, ...]; () for a feedforward policy."""
        del num_environments
        return ()

    @abc.abstractmethod
    def __call__(
        self, observation: Nest, state: Nest
    ) -> tuple[np.ndarray, Nest, dict[str, np.ndarray]]:
        """Returns the action, the next state and the extras.

        Args:
          observation: nest of [K, ...], as the environment's spec.
          state: nest of [K, ...], the recurrent state. The caller starts from `initial_state` and
            puts its rows back where an episode begins (`reset_rows`).

        Returns:
          action: [K, A] for continuous actions, [K] for discrete ones.
          state: nest of [K, ...].
          extras: named arrays [K, ...] that the learner or the initial priority needs (q, mu, V).
            They belong to the state that was observed, so the loop asks for them at the last state
            of an episode too.
        """


class ExploringPolicy(Policy):
    """A policy of training actors, which also gives the first priorities of what they add."""

    @abc.abstractmethod
    def initial_priorities(self, transitions: NStepTransitions) -> np.ndarray:
        """Returns raw priorities [M] float32, from values buffered in the transitions' extras."""


class Adder(Protocol):
    """A converter of a batch of environments' timesteps into what is added to a replay."""

    def observe(self, timestep: dm_env.TimeStep, extras: dict[str, np.ndarray]) -> Nest | None:
        """Takes a timestep with the policy's extras; returns what it completes, None if nothing."""

    def act(
        self, timestep: dm_env.TimeStep, action: np.ndarray, extras: dict[str, np.ndarray]
    ) -> None:
        """Takes the action at the timestep that `observe` was just given."""


def reset_rows(state: Nest, initial_state: Nest, first: np.ndarray) -> Nest:
    """Returns `state` with the rows where `first`, bool [K], holds taken from `initial_state`."""
    if not first.any():
        return state

    def pick(leaf: np.ndarray, initial: np.ndarray) -> np.ndarray:
        return np.where(first.reshape(first.shape + (1,) * (leaf.ndim - 1)), initial, leaf)

    return tree.map_structure(pick, state, initial_state)
