"""The interface of a policy, and exploration: noise, epsilon-greedy choices, proposed actions.

Noise is called as `noise(action, state) -> noisy action, state`. Its state is part of the policy's
state, which is reset at the beginning of each episode.
"""

import abc
from collections.abc import Sequence
from typing import Any, NamedTuple

import dm_env
import numpy as np
import tree

from common.environments.batch import FIRST
from common.types import Nest


class Policy(abc.ABC):
    """A policy for a batch of K environments, with parameters that the learner publishes.

    Attributes:
      sees_rewards: whether the recurrent state depends on rewards; see `with_reward`.
    """

    sees_rewards: bool = False

    @abc.abstractmethod
    def load(self, flat: np.ndarray) -> None:
        """Replaces the parameters with a published vector, [P] float32."""

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
        del reward  # only policies with `sees_rewards` use it
        return state

    def layers(self) -> list[tuple[str, list[np.ndarray]]]:
        """Returns the kind and the parameters of each layer, if the policy is an MLP.

        Raises:
          ValueError: the policy is not an MLP.
        """
        raise ValueError("the policy is not an MLP: it is not defined by layers alone")

    @abc.abstractmethod
    def __call__(
        self, observation: Nest, state: Nest
    ) -> tuple[np.ndarray, Nest, dict[str, np.ndarray]]:
        """Returns the action, the next state and the extras.

        Args:
          observation: nest of [K, ...] in the structure of the environment's spec.
          state: nest of [K, ...], the recurrent state: `initial_state` at first, then from
            `state_at`.

        Returns:
          action: [K, A] for continuous actions, [K] for discrete ones.
          state: nest of [K, ...].
          extras: named arrays [K, ...] that the learner or initial priorities need (q, mu, V). They
            describe the observed state, so the loop also needs them at an episode's last state.
        """


def state_at(policy: Policy, state: Nest, initial_state: Nest, timestep: dm_env.TimeStep) -> Nest:
    """Returns the recurrent state with which to call a policy at a timestep.

    The state includes the reward that led to the timestep. Rows in which an episode begins have the
    initial state.

    Args:
      policy: a policy for K environments.
      state: nest of [K, ...], as the policy returned it at the previous timestep.
      initial_state: the policy's initial state, nest of [K, ...].
      timestep: a timestep of K environments, as an `EnvironmentBatch` returns it.
    """
    state = policy.with_reward(state, timestep.reward)
    return reset_rows(state, initial_state, timestep.step_type == FIRST)


def reset_rows(state: Nest, initial_state: Nest, first: np.ndarray) -> Nest:
    """Returns `state` with the rows of `initial_state` where `first`, bool [K], is True."""
    if not first.any():
        return state

    def pick(leaf: np.ndarray, initial: np.ndarray) -> np.ndarray:
        return np.where(first.reshape(first.shape + (1,) * (leaf.ndim - 1)), initial, leaf)

    return tree.map_structure(pick, state, initial_state)


def truncated_normal(
    generator: np.random.Generator, shape: tuple[int, ...], bound: float
) -> np.ndarray:
    """Returns standard normal numbers within +-bound, float32.

    Numbers beyond the bound are drawn again, so they do not pile up at it. With a bound of 3 the
    standard deviation is 0.9866.

    Args:
      generator: source of the random numbers.
      shape: shape of the result.
      bound: above 0; drawing takes long if it is very small.
    """
    samples = generator.standard_normal(shape, np.float32)
    while (beyond := np.abs(samples) > bound).any():
        samples[beyond] = generator.standard_normal(np.count_nonzero(beyond), np.float32)
    return samples


class OrnsteinUhlenbeckNoise:
    """Ornstein-Uhlenbeck noise, correlated over the steps of an episode (Lillicrap et al. 2015).

        x_t = x_{t-1} - theta x_{t-1} + sigma N(0, I),  x = 0 before an episode

    The variance tends to sigma^2 / (1 - (1 - theta)^2), and the correlation over k steps is
    (1 - theta)^k. With theta 1 the noise is Gaussian, sigma N(0, I), independent for each step, row
    and dimension. D4PG (algorithm 1, section 4) and Ape-X (appendix D) use this Gaussian noise with
    the same sigma for all actors. DDPG uses theta 0.15 and sigma 0.2. D4PG (section 4) also tried
    Ornstein-Uhlenbeck noise, with unnamed parameters, and found it unnecessary.
    """

    def __init__(self, sigma: float, theta: float, seed: int, clip: bool = True):
        """Creates the noise.

        Args:
          sigma: standard deviation of a step's increment, in canonical units.
          theta: rate per step at which x returns to 0, in (0, 1].
          seed: seed of the random numbers.
          clip: whether to clip noisy actions to [-1, 1], which is not in the D4PG paper.
        """
        self._sigma = np.float32(sigma)
        self._kept = np.float32(1 - theta)
        self._clip = clip
        self._generator = np.random.default_rng(seed)

    def initial_state(self, shape: tuple[int, ...]) -> np.ndarray:
        """Returns x before an episode for actions of this shape: float32 zeros."""
        return np.zeros(shape, np.float32)

    def __call__(
        self, action: np.ndarray, state: np.ndarray | float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns noisy actions and x as new float32 arrays, given actions [..., A] in [-1, 1]."""
        x = self._sigma * self._generator.standard_normal(action.shape, np.float32)
        x += self._kept * state
        noisy = action + x
        return np.clip(noisy, -1.0, 1.0, out=noisy) if self._clip else noisy, x


def epsilon_ladder(epsilon: float, alpha: float, num_actors: int) -> np.ndarray:
    """Returns a different epsilon for each actor (Ape-X section 4.1).

        epsilon_i = epsilon^(1 + i / (N - 1) * alpha),  i = 0 .. N - 1

    The paper does not cover a single actor, which here has `epsilon`.

    Args:
      epsilon: probability that actor 0 acts randomly.
      alpha: the last actor has epsilon^(1 + alpha).
      num_actors: N.

    Returns:
      float64 [N]; the last actor is the greediest.
    """
    return epsilon ** (1 + np.arange(num_actors) / max(num_actors - 1, 1) * alpha)


class EpsilonGreedy:
    """Choice of a uniformly random action with probability epsilon, otherwise of the greedy action.

    Each row has its own epsilon. The random action may be the greedy action.
    """

    def __init__(self, epsilons: Sequence[float], seed: int):
        """Prepares the exploration of K rows.

        Args:
          epsilons: K probabilities.
          seed: seed of the random numbers.
        """
        self._epsilons = np.array(epsilons, np.float64)
        self._generator = np.random.default_rng(seed)

    def __call__(self, q_values: np.ndarray) -> np.ndarray:
        """Returns the chosen actions, int32 [K], given action values [K, A]."""
        num_rows, num_actions = q_values.shape
        explores = self._generator.random(num_rows) < self._epsilons
        actions = self._generator.integers(num_actions, size=num_rows)
        return np.where(explores, actions, q_values.argmax(axis=1)).astype(np.int32)


class Proposals(NamedTuple):
    """A search for an action at one observation.

    Attributes:
      values: float32 [N], the action values of the sampled actions.
      probabilities: float32 [K] for each sub-action, given the chosen sub-actions before it.
      chosen: int [D], the chosen value of each sub-action, below its K.
    """

    values: np.ndarray
    probabilities: tuple[np.ndarray, ...]
    chosen: np.ndarray


class ProposingPolicy(Policy):
    """A policy that may sample proposed actions and take the best of them."""

    @abc.abstractmethod
    def require_proposals(self) -> None:
        """Raises ValueError, in one line, if the policy has no proposals with probabilities."""

    @abc.abstractmethod
    def propose(self, observation: Nest) -> Proposals:
        """Returns a new search at an observation, a nest of arrays without a batch dimension."""


def require_proposals(policy: Policy) -> None:
    """Raises ValueError, in one line, if a policy has no proposals with probabilities."""
    if not isinstance(policy, ProposingPolicy):
        raise ValueError("the policy does not propose actions")
    policy.require_proposals()


class ObservationRecorder(Policy):
    """A policy that records the observations of the first environment of its batch.

    Attributes:
      observations: the recorded observations, an array for each call.
    """

    def __init__(self, policy: Policy):
        self._policy = policy
        self.sees_rewards = policy.sees_rewards
        self.observations: list[np.ndarray] = []

    def load(self, flat: np.ndarray) -> None:
        """See base class."""
        self._policy.load(flat)

    def initial_state(self, num_environments: int) -> Nest:
        """See base class."""
        return self._policy.initial_state(num_environments)

    def with_reward(self, state: Nest, reward: np.ndarray) -> Nest:
        """See base class."""
        return self._policy.with_reward(state, reward)

    def __call__(
        self, observation: Any, state: Nest
    ) -> tuple[np.ndarray, Nest, dict[str, np.ndarray]]:
        """See base class."""
        self.observations.append(np.array(observation[0]))
        return self._policy(observation, state)
