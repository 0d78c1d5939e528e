"""Episodes of an environment that has a time limit."""

import abc
import math
from typing import Any, NamedTuple

import dm_env


class StepOutcome(NamedTuple):
    """The consequence of an action.

    Attributes:
      reward: reward of the step.
      has_failed: whether the episode ends with discount 0.
      has_finished: whether the episode ends with discount 1, as at a time limit.
    """

    reward: float
    has_failed: bool = False
    has_finished: bool = False


class EpisodicEnvironment(dm_env.Environment, abc.ABC):
    """Base class that turns a subclass's starts and actions into timesteps."""

    def __init__(self, max_steps: float = math.inf):
        """Initialises an environment before its first episode; `max_steps` limits each episode."""
        self._max_steps = max_steps
        self._steps = 0
        self._is_over = True

    @abc.abstractmethod
    def _start(self) -> None:
        """Sets the initial state of an episode."""

    @abc.abstractmethod
    def _act(self, action: Any) -> StepOutcome:
        """Takes an action."""

    @abc.abstractmethod
    def _observe(self) -> Any:
        """Returns the observation of the state, a new array or a nest of new arrays."""

    def reset(self) -> dm_env.TimeStep:
        """Starts an episode."""
        self._start()
        self._steps, self._is_over = 0, False
        return dm_env.restart(self._observe())

    def step(self, action: Any) -> dm_env.TimeStep:
        """Takes `action`; after a LAST step, ignores it and starts an episode."""
        if self._is_over:
            return self.reset()
        reward, has_failed, has_finished = self._act(action)
        self._steps += 1
        has_finished = has_finished or self._steps == self._max_steps
        self._is_over = bool(has_failed or has_finished)
        observation = self._observe()
        if has_failed:
            return dm_env.termination(reward, observation)
        if has_finished:
            return dm_env.truncation(reward, observation)
        return dm_env.transition(reward, observation)
