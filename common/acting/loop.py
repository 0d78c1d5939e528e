"""The acting loop, which connects a policy, a batch of environments and an adder."""

from collections.abc import Callable

import dm_env
import numpy as np

from common.acting.policy import Adder, Policy, state_at
from common.environments.batch import EnvironmentBatch
from common.types import Nest

_FIRST = int(dm_env.StepType.FIRST)
_LAST = int(dm_env.StepType.LAST)


class ActingLoop:
    """The actor's loop over K environments (Ape-X and D4PG, algorithm 1).

    The policy is also called at the last state of an episode, because a transition that ends there
    needs its extras. That action is ignored.
    """

    def __init__(
        self,
        environment: EnvironmentBatch,
        policy: Policy,
        adder: Adder,
        on_added: Callable[[Nest], None],
        on_episode: Callable[[int, float, int], None],
        encode: Callable[[Nest], Nest] | None = None,
        asks_again: bool = False,
    ):
        """Starts an episode in each environment.

        Args:
          environment: a batch of K environments.
          policy: chooses the actions, with exploration.
          adder: an adder for K environments.
          on_added: called with the steps that the adder completes, if a timestep completes any.
          on_episode: called at the end of each episode with the environment's index, the
            undiscounted return of unclipped rewards and the length in steps.
          encode: converts observations [K, ...] to the form that the adder stores; called once a
            timestep. The policy gets the original ones. None stores them unchanged.
          asks_again: whether the policy is asked again, maybe with other parameters, at a timestep
            at which the adder completes steps. The first action is not executed.
        """
        self._environment = environment
        self._policy = policy
        self._adder = adder
        self._on_added = on_added
        self._on_episode = on_episode
        self._initial_state = policy.initial_state(environment.num_environments)
        self._encode = encode
        self._state = self._initial_state
        self._asks_again = asks_again
        self._is_observed = False
        self._steps = 0
        self._returns = np.zeros(environment.num_environments, np.float64)
        self._lengths = np.zeros(environment.num_environments, np.int64)
        self._timestep = environment.reset()

    @property
    def steps(self) -> int:
        """Steps done in all K environments together, without resets."""
        return self._steps

    def step(self) -> None:
        """Advances every environment by one timestep, unless the policy has to be asked again."""
        timestep = self._timestep
        state = state_at(self._policy, self._state, self._initial_state, timestep)
        action, next_state, extras = self._policy(timestep.observation, state)
        if self._encode is not None:
            timestep = timestep._replace(observation=self._encode(timestep.observation))
        if not self._is_observed:
            finished = self._adder.observe(timestep, extras)
            if finished is not None:
                self._on_added(finished)
                if self._asks_again:
                    self._is_observed = True
                    return
        self._is_observed = False
        self._state = next_state
        self._adder.act(timestep, action, extras)
        self._timestep = self._environment.step(action)
        self._count(self._timestep)

    def _count(self, timestep: dm_env.TimeStep) -> None:
        moved = timestep.step_type > _FIRST  # no action led to a FIRST or an ABSENT row
        self._steps += int(np.count_nonzero(moved))
        self._lengths = np.where(moved, self._lengths + 1, 0)
        self._returns = np.where(moved, self._returns + timestep.reward, 0.0)
        for index in np.flatnonzero(timestep.step_type == _LAST):
            self._on_episode(int(index), float(self._returns[index]), int(self._lengths[index]))
