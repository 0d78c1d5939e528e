"""The acting loop: a policy, a batch of environments, an adder."""

from collections.abc import Callable

import dm_env
import numpy as np

from common.acting.policy import Adder, Policy, reset_rows
from common.environments.batch import EnvironmentBatch
from common.types import Nest

_FIRST = int(dm_env.StepType.FIRST)
_LAST = int(dm_env.StepType.LAST)


class ActingLoop:
    """The actor's algorithm of Ape-X and D4PG in K environments.

    The policy is also called on the last state of an episode: a transition that ends there needs
    its extras. The action is ignored.
    """

    def __init__(
        self,
        environment: EnvironmentBatch,
        policy: Policy,
        adder: Adder,
        on_added: Callable[[Nest], None],
        on_episode: Callable[[int, float, int], None],
        encode: Callable[[Nest], Nest] | None = None,
    ):
        """Starts an episode in each environment.

        Args:
          environment: the batch, K environments.
          policy: with its exploration.
          adder: for the same K.
          on_added: called with what a step completes in the adder, if anything.
          on_episode: called at each end of an episode with the environment's index, the
            undiscounted return of its unclipped rewards and the length in steps.
          encode: converts observations [K, ...] into the form that the adder keeps; the policy sees
            them unconverted. Called once a timestep. None: they are kept as they are.
        """
        self._environment = environment
        self._policy = policy
        self._adder = adder
        self._on_added = on_added
        self._on_episode = on_episode
        self._initial_state = policy.initial_state(environment.num_environments)
        self._encode = encode
        self._state = self._initial_state
        self._steps = 0
        self._returns = np.zeros(environment.num_environments, np.float64)
        self._lengths = np.zeros(environment.num_environments, np.int64)
        self._timestep = environment.reset()

    @property
    def steps(self) -> int:
        """Environment steps executed in all K environments; resets are not counted."""
        return self._steps

    def step(self) -> None:
        """Advances each environment by one timestep."""
        timestep = self._timestep
        state = reset_rows(self._state, self._initial_state, timestep.step_type == _FIRST)
        action, self._state, extras = self._policy(timestep.observation, state)
        if self._encode is not None:
            timestep = timestep._replace(observation=self._encode(timestep.observation))
        finished = self._adder.observe(timestep, extras)
        if finished is not None:
            self._on_added(finished)
        self._adder.act(timestep, action, extras)
        self._timestep = self._environment.step(action)
        self._count(self._timestep)

    def _count(self, timestep: dm_env.TimeStep) -> None:
        moved = timestep.step_type != _FIRST
        self._steps += int(np.count_nonzero(moved))
        self._lengths += moved
        self._returns += timestep.reward
        for index in np.flatnonzero(timestep.step_type == _LAST):
            self._on_episode(int(index), float(self._returns[index]), int(self._lengths[index]))
            self._returns[index] = 0
            self._lengths[index] = 0
