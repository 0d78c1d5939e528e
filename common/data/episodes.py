"""Adder of whole episodes for a batch of environments."""

from collections.abc import Mapping

import dm_env
import numpy as np
import tree

from common.environments.batch import ABSENT
from common.environments.environment_errors import UnusableEnvironmentError
from common.types import Episode, Episodes, Nest, StoredState

_FIRST = int(dm_env.StepType.FIRST)
_LAST = int(dm_env.StepType.LAST)


_NUMBERS = ("value", "advantage")
"""Extras of a policy that the memory keeps apart from the columns of a state."""


class EpisodeAdder:
    """Collector of the episodes of K environments, each of which is stored when it has ended.

    Rows that are ABSENT are neither counted nor stored, nor is the episode that they cut off.

    Call both methods once for each timestep, with the policy's output for its observation:

        progress = adder.observe(timestep, extras)       # Episodes
        adder.act(timestep, action, extras)

    The extras "value" and "advantage" of a policy become the `values` and `advantages` of its
    episodes. A last state has the extras of its observation, and an action of zeros. Everything
    stored or returned is a copy.
    """

    def __init__(self, num_environments: int, max_steps: int):
        """Makes an adder for K environments, for a memory of `max_steps` steps."""
        self._max_steps = max_steps
        self._running = [_Running() for _ in range(num_environments)]

    def observe(self, timestep: dm_env.TimeStep, extras: Mapping[str, np.ndarray]) -> Episodes:
        """Returns the number of actions that follow this timestep, and the episodes that end at it.

        Args:
          timestep: of K environments, as an `EnvironmentBatch` returns it.
          extras: named arrays [K, ...], the policy's extras at its observation.

        Raises:
          UnusableEnvironmentError: a discount is neither 1 nor, at the end of an episode, 0.
        """
        is_end = (timestep.step_type == _LAST) & (timestep.discount == 0)
        if not np.all(is_end | (timestep.discount == 1)):
            (wrong, *_) = timestep.discount[~is_end & (timestep.discount != 1)]
            raise UnusableEnvironmentError(
                f"--environment gave a discount of {wrong:g}: this agent's episodes have 1 at each "
                "step, and at the last one 0, or 1 if only the time was up"
            )
        finished = []
        for index, step_type in enumerate(timestep.step_type):
            running = self._running[index]
            if step_type in (_FIRST, ABSENT):
                running = self._running[index] = _Running()
            else:
                running.rewards.append(timestep.reward[index])
            if step_type == _LAST:
                no_action = np.zeros_like(running.states[-1].action)
                running.append(int(index), timestep.observation, no_action, extras)
                finished.append(running.episode(index, is_end[index]))
        return Episodes(int(np.count_nonzero(_goes_on(timestep))), tuple(finished))

    def act(
        self, timestep: dm_env.TimeStep, action: np.ndarray, extras: Mapping[str, np.ndarray]
    ) -> None:
        """Stores the states of the timestep that `observe` just got, except the last ones.

        Args:
          timestep: of K environments.
          action: [K, A] or [K], the action taken at its observation.
          extras: named arrays [K, ...], the policy's extras at its observation.

        Raises:
          UnusableEnvironmentError: an episode is longer than the memory.
        """
        for index in np.flatnonzero(_goes_on(timestep)):
            if len(self._running[index].states) == self._max_steps:
                raise UnusableEnvironmentError(
                    f"--environment has an episode of more than {self._max_steps} steps, which the "
                    "memory holds: raise --config.replay_capacity, or let episodes end earlier"
                )
            self._running[index].append(int(index), timestep.observation, action[index], extras)


def _goes_on(timestep: dm_env.TimeStep) -> np.ndarray:
    """Returns whether an action follows in each row, bool [K]."""
    return (timestep.step_type != _LAST) & (timestep.step_type != ABSENT)


class _Running:
    """A running episode of an environment.

    Attributes:
      states: so far.
      values: of the policy at these states.
      advantages: of its actions there.
      rewards: of the steps between them.
    """

    def __init__(self):
        self.states: list[StoredState] = []
        self.values: list[float] = []
        self.advantages: list[float] = []
        self.rewards: list[float] = []

    def append(
        self, index: int, observation: Nest, action: np.ndarray, extras: Mapping[str, np.ndarray]
    ) -> None:
        """Appends the state in row `index` of a batch."""
        for name, numbers in zip(_NUMBERS, (self.values, self.advantages)):
            numbers.append(extras[name][index] if name in extras else 0.0)
        self.states.append(
            StoredState(
                tree.map_structure(lambda leaf: leaf[index].copy(), observation),
                np.array(action),
                {n: leaf[index].copy() for n, leaf in extras.items() if n not in _NUMBERS},
            )
        )

    def episode(self, index: int, terminated: bool) -> Episode:
        """Returns the finished episode of environment `index`."""
        return Episode(
            index,
            tree.map_structure(lambda *leaves: np.stack(leaves), *self.states),
            np.array(self.rewards, np.float32),
            np.array(self.values, np.float32),
            bool(terminated),
            np.array(self.advantages[:-1], np.float32),
        )
