"""The acting loop: a policy, a batch of environments, an adder."""

from collections.abc import Callable

import dm_env
import numpy as np

from common.acting.n_step import NStepAdder, Transitions
from common.acting.policy import Nest, Policy, reset_rows
from common.agents.agent import Actor, Agent
from common.environments.batch import EnvironmentBatch

_FIRST = int(dm_env.StepType.FIRST)
_LAST = int(dm_env.StepType.LAST)


class ActingLoop:
    """Acts in K environments and hands out what they give (Ape-X and D4PG, the actor's algorithm).

    The policy is also called on the last state of an episode: a transition that ends there needs
    its extras. The action is ignored.
    """

    def __init__(
        self,
        environment: EnvironmentBatch,
        policy: Policy,
        adder: NStepAdder,
        on_transitions: Callable[[Transitions], None],
        on_episode: Callable[[int, float, int], None],
        initial_state: Nest = (),
        encode: Callable[[Nest], Nest] | None = None,
    ):
        """Starts an episode in each environment.

        Args:
          environment: the batch, K environments.
          policy: see `Policy`; includes the exploration.
          adder: for the same K.
          on_transitions: called with the transitions that a step completes, if any.
          on_episode: called at each end of an episode with the environment's index, the
            undiscounted return of its unclipped rewards and the length in steps.
          initial_state: nest of [K, ...], the policy's recurrent state at the start of an episode;
            () for a feedforward policy.
          encode: makes of the observations, [K, ...], what transitions hold; the policy sees them
            as they are. Called once a timestep. None: they are held as they are.
        """
        self._environment = environment
        self._policy = policy
        self._adder = adder
        self._on_transitions = on_transitions
        self._on_episode = on_episode
        self._initial_state = initial_state
        self._encode = encode
        self._state = initial_state
        self._steps = 0
        self._returns = np.zeros(environment.num_environments, np.float64)
        self._lengths = np.zeros(environment.num_environments, np.int64)
        self._timestep = environment.reset()

    @property
    def steps(self) -> int:
        """Environment transitions executed, of all K environments; resets are not counted."""
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
            self._on_transitions(finished)
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


def loop_of(
    agent: Agent,
    actor: Actor,
    environment: EnvironmentBatch,
    on_transitions: Callable[[Transitions], None],
    on_episode: Callable[[int, float, int], None],
) -> ActingLoop:
    """The loop of an agent's actor, with the transitions and observations that the agent wants."""
    count = environment.num_environments
    adder = NStepAdder(count, agent.n_step, agent.discount, reward_clip=agent.reward_clip)
    return ActingLoop(
        environment,
        actor,
        adder,
        on_transitions,
        on_episode,
        actor.initial_state(count),
        encode=agent.encode,
    )
