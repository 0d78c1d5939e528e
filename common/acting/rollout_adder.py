"""Adder of rollouts for a batch of environments."""

from collections.abc import Mapping

import dm_env
import numpy as np
import tree

from common.types import AddedRollout, RolloutSteps, StoredState
from common.values import generalized_advantage

_FIRST = int(dm_env.StepType.FIRST)


class RolloutAdder:
    """Collector of the steps of K environments, which are complete once there are enough of them.

    A true end, a time limit and the end of a rollout are one case: what follows the step counts as
    V of the next state, which is 0 after a true end. Give it to a loop that asks the policy again
    for the timestep at which a rollout ends, so that the next one begins with newer parameters.

    Call `observe` once and `act` once for each timestep, with the policy's output for it. The
    extras "value" and "version" of the policy, both [K], are V and the version of its parameters;
    the others are stored with the states. Everything stored or returned is a copy.
    """

    def __init__(
        self,
        num_environments: int,
        num_steps: int,
        discount: float,
        lambda_: float,
        unroll_length: int | None = None,
    ):
        """Makes an adder without steps.

        Args:
          num_environments: K.
          num_steps: of all environments, after which a rollout is complete.
          discount: gamma, per step.
          lambda_: of generalised advantage estimation.
          unroll_length: timesteps after which an estimate takes V for the rest; None: as many as
            the rollout has.
        """
        self._num_steps = num_steps
        self._discount, self._lambda = discount, lambda_
        self._unroll_length = unroll_length
        self._begin()

    def observe(
        self, timestep: dm_env.TimeStep, extras: Mapping[str, np.ndarray]
    ) -> AddedRollout | None:
        """Adds the step that led to a timestep; returns the rollout if it is complete.

        Args:
          timestep: of K environments, as an `EnvironmentBatch` returns it.
          extras: named arrays [K, ...], the policy's extras at its observation.
        """
        if not self._states:
            return None
        # No step led to a FIRST. Its reward makes the error of the estimate there 0.
        is_step = timestep.step_type != _FIRST
        self._is_step.append(is_step)
        self._rewards.append(np.where(is_step, timestep.reward, self._values[-1]))
        self._discounts.append(np.where(is_step, self._discount * timestep.discount, 0))
        self._held += int(np.count_nonzero(is_step))
        if self._held < self._num_steps:
            return None
        rollout = self._rollout(extras["value"])
        self._begin()
        return rollout

    def act(
        self, timestep: dm_env.TimeStep, action: np.ndarray, extras: Mapping[str, np.ndarray]
    ) -> None:
        """Stores the states of a timestep.

        Args:
          timestep: of K environments.
          action: [K, A], the action taken at its observation.
          extras: named arrays [K, ...], the policy's extras at its observation.
        """
        stored = {name: extras[name] for name in extras if name not in ("value", "version")}
        state = StoredState(timestep.observation, action, stored)
        self._states.append(tree.map_structure(np.array, state))
        self._values.append(np.array(extras["value"]))
        self._versions.append(np.array(extras["version"]))

    def _begin(self) -> None:
        self._states: list[StoredState] = []
        self._values: list[np.ndarray] = []
        self._versions: list[np.ndarray] = []
        self._rewards: list[np.ndarray] = []
        self._discounts: list[np.ndarray] = []
        self._is_step: list[np.ndarray] = []
        self._held = 0

    def _rollout(self, value: np.ndarray) -> AddedRollout:
        """Returns the rollout, whose last states have these values."""
        values = np.array([*self._values, value], np.float32)
        rewards = np.array(self._rewards, np.float32)
        discounts = np.array(self._discounts, np.float32)
        length = self._unroll_length or len(rewards)
        advantages = np.concatenate(
            [
                generalized_advantage.estimate(
                    rewards[begin : begin + length],
                    values[begin : begin + length + 1],
                    discounts[begin : begin + length],
                    self._lambda,
                )
                for begin in range(0, len(rewards), length)
            ]
        )
        is_step = np.array(self._is_step)

        def rows(*timesteps: np.ndarray) -> np.ndarray:
            """Returns the steps [N, ...] among T timesteps [K, ...], in the order of time."""
            return np.array(timesteps)[is_step][: self._num_steps]

        steps = RolloutSteps(
            tree.map_structure(rows, *self._states),
            rows(*rewards),
            rows(*values[:-1]),
            rows(*advantages),
        )
        return AddedRollout(self._held, rows(*self._versions).astype(np.int64), steps)
