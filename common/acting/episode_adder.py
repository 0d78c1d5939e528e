"""Adder of whole episodes for a batch of environments."""

from collections.abc import Mapping

import dm_env
import numpy as np
import tree

from common.environments.environment_errors import UnusableEnvironmentError
from common.types import Episode, Episodes, Nest, StoredState

_FIRST = int(dm_env.StepType.FIRST)
_LAST = int(dm_env.StepType.LAST)


class EpisodeAdder:
    """Collector of the episodes of K environments, each of which is stored when it has ended.

    Call both methods once for each timestep, with the policy's output for its observation:

        progress = adder.observe(timestep, extras)       # Episodes
        adder.act(timestep, action, extras)

    `cut` gives the running episodes as fragments. Between the two calls it lets another policy
    choose the action at the last states: its output then goes to `act`.

    The extra "value" of a policy becomes the `values` of its episodes. A last state has the extras
    of its observation, and an action of zeros. Everything stored or returned is a copy.
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
        """
        finished = []
        for index, step_type in enumerate(timestep.step_type):
            running = self._running[index]
            if step_type == _FIRST:
                running = self._running[index] = _Running()
            else:
                running.rewards.append(timestep.reward[index])
            running.arrive(index, timestep.observation, extras)
            if step_type == _LAST:
                finished.append(running.episode(index, timestep.discount[index] == 0))
                self._running[index] = _Running()
        return Episodes(int(np.count_nonzero(timestep.step_type != _LAST)), tuple(finished))

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
        for index in np.flatnonzero(timestep.step_type != _LAST):
            if len(self._running[index].rewards) == self._max_steps:
                raise UnusableEnvironmentError(
                    f"--environment has an episode of more than {self._max_steps} steps, which the "
                    "memory holds: raise --config.replay_capacity, or let episodes end earlier"
                )
            self._running[index].leave(int(index), action[index], extras)

    def cut(self) -> tuple[Episode, ...]:
        """Returns the running episodes of at least one step as finished, though not terminated.

        Their last states are where the next fragments of the same episodes begin, and the values
        there are what these fragments bootstrap from.
        """
        fragments = []
        for index, running in enumerate(self._running):
            if running.rewards:
                fragments.append(running.episode(index, terminated=False))
                self._running[index] = running.rest()
        return tuple(fragments)


class _Running:
    """A running episode of an environment.

    Attributes:
      states: so far.
      values: of the policy at these states.
      rewards: of the steps between them.
    """

    def __init__(self):
        self.states: list[StoredState] = []
        self.values: list[float] = []
        self.rewards: list[float] = []

    def arrive(self, index: int, observation: Nest, extras: Mapping[str, np.ndarray]) -> None:
        """Appends the state in row `index` of a batch, whose action is not known yet."""
        observation = tree.map_structure(lambda leaf: leaf[index].copy(), observation)
        self.states.append(StoredState(observation, None, _row(index, extras)))
        self.values.append(_value(index, extras))

    def leave(self, index: int, action: np.ndarray, extras: Mapping[str, np.ndarray]) -> None:
        """Notes the action at the last state, with the extras of the policy that chose it."""
        self.states[-1] = StoredState(
            self.states[-1].observation, np.array(action), _row(index, extras)
        )
        self.values[-1] = _value(index, extras)

    def rest(self) -> "_Running":
        """Returns the episode that goes on from the last state."""
        rest = _Running()
        rest.states, rest.values = self.states[-1:], self.values[-1:]
        return rest

    def episode(self, index: int, terminated: bool) -> Episode:
        """Returns the episode of environment `index`, which ends at the last state."""
        last = self.states[-1]._replace(action=np.zeros_like(self.states[0].action))
        states = (*self.states[:-1], last)
        return Episode(
            index,
            tree.map_structure(lambda *leaves: np.stack(leaves), *states),
            np.array(self.rewards, np.float32),
            np.array(self.values, np.float32),
            bool(terminated),
        )


def _row(index: int, extras: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: leaf[index].copy() for name, leaf in extras.items() if name != "value"}


def _value(index: int, extras: Mapping[str, np.ndarray]) -> float:
    return extras["value"][index] if "value" in extras else 0.0
