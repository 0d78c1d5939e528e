"""Actions that a policy samples before it chooses one of them."""

import abc
from typing import Any, NamedTuple

import numpy as np

from common.acting.policy import Policy
from common.types import Nest


class Proposals(NamedTuple):
    """A search for an action at one observation.

    Attributes:
      values: float32 [N], of the sampled actions.
      probabilities: of each sub-action, float32 [K], given the chosen sub-actions before it.
      chosen: int [D], the chosen value of each sub-action, below its K.
    """

    values: np.ndarray
    probabilities: tuple[np.ndarray, ...]
    chosen: np.ndarray


class ProposingPolicy(Policy):
    """A policy that may sample proposed actions and take the best."""

    @abc.abstractmethod
    def require_proposals(self) -> None:
        """Raises ValueError, in one line, if it has no proposals with probabilities."""

    @abc.abstractmethod
    def propose(self, observation: Nest) -> Proposals:
        """Returns a new search at an observation, a nest of arrays without a batch dimension."""


def require_proposals(policy: Policy) -> None:
    """Raises ValueError, in one line, if a policy has no proposals with probabilities."""
    if not isinstance(policy, ProposingPolicy):
        raise ValueError("its policy samples no actions to choose from")
    policy.require_proposals()


class ObservationRecorder(Policy):
    """A policy that keeps what the first environment of its batch showed.

    Attributes:
      observations: of the first environment, one for each call.
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
