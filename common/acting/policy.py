"""Interfaces of policies and adders that the acting loop calls."""

import abc
from typing import Protocol

import dm_env
import numpy as np
import tree

from common.types import Nest, NStepTransitions

_FIRST = int(dm_env.StepType.FIRST)


class Policy(abc.ABC):
    """A policy for a batch of K environments whose parameters the learner publishes.

    Attributes:
      sees_rewards: whether its recurrent state has the reward that led to an observation.
    """

    sees_rewards: bool = False

    @abc.abstractmethod
    def load(self, flat: np.ndarray) -> None:
        """Replaces the parameters with published ones, [P] float32."""

    def initial_state(self, num_environments: int) -> Nest:
        """Returns the recurrent state before an episode, [K, ...]; () for a feedforward policy."""
        del num_environments
        return ()

    def with_reward(self, state: Nest, reward: np.ndarray) -> Nest:
        """Returns the recurrent state before a timestep with the reward that led to it.

        Args:
          state: nest of [K, ...], as `__call__` returned it.
          reward: float32 [K], unclipped.
        """
        del reward  # for a policy that sees rewards
        return state

    def layers(self) -> list[tuple[str, list[np.ndarray]]]:
        """Returns the layers of a policy that is an MLP, each as its kind and its parameters.

        Raises:
          ValueError: the policy is more than layers.
        """
        raise ValueError("it is not a function of the observation through layers alone")

    @abc.abstractmethod
    def __call__(
        self, observation: Nest, state: Nest
    ) -> tuple[np.ndarray, Nest, dict[str, np.ndarray]]:
        """Returns the action, the next state and the extras.

        Args:
          observation: nest of [K, ...] in the structure of the environment's spec.
          state: nest of [K, ...], the recurrent state. The caller begins with `initial_state` and
            goes on with `state_at`.

        Returns:
          action: [K, A] for continuous actions, [K] for discrete ones.
          state: nest of [K, ...].
          extras: named arrays [K, ...] that the learner or initial priorities need (q, mu, V). They
            belong to the observed state, so the loop also needs them at an episode's last state.
        """


class ExploringPolicy(Policy):
    """A policy of training actors, which also computes initial priorities."""

    @abc.abstractmethod
    def initial_priorities(self, transitions: NStepTransitions) -> np.ndarray:
        """Returns raw priorities [M] float32, computed from the transitions' extras."""


class Adder(Protocol):
    """A converter of timesteps of a batch of environments to the steps that a replay stores."""

    def observe(self, timestep: dm_env.TimeStep, extras: dict[str, np.ndarray]) -> Nest | None:
        """Takes a timestep and the policy's extras; returns completed steps, or None."""

    def act(
        self, timestep: dm_env.TimeStep, action: np.ndarray, extras: dict[str, np.ndarray]
    ) -> None:
        """Takes the action at the timestep that `observe` just got."""


def state_at(policy: Policy, state: Nest, initial_state: Nest, timestep: dm_env.TimeStep) -> Nest:
    """Returns the recurrent state with which a policy is called at a timestep.

    The reward that led to the timestep enters here. Where an episode begins, the state is the
    initial one.

    Args:
      policy: of K environments.
      state: nest of [K, ...], after the timestep before.
      initial_state: of the policy, nest of [K, ...].
      timestep: of K environments, as an `EnvironmentBatch` returns it.
    """
    state = policy.with_reward(state, timestep.reward)
    return reset_rows(state, initial_state, timestep.step_type == _FIRST)


def reset_rows(state: Nest, initial_state: Nest, first: np.ndarray) -> Nest:
    """Returns `state` with the rows of `initial_state` where `first`, bool [K], is True."""
    if not first.any():
        return state

    def pick(leaf: np.ndarray, initial: np.ndarray) -> np.ndarray:
        return np.where(first.reshape(first.shape + (1,) * (leaf.ndim - 1)), initial, leaf)

    return tree.map_structure(pick, state, initial_state)
