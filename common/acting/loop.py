"""The acting loop of a process, with its seeds and CSV records."""

from collections.abc import Callable, Sequence

import dm_env
import numpy as np

from common.acting.policy import Policy, state_at
from common.data.data import Adder, Delivery
from common.environments.batch import FIRST, LAST, EnvironmentBatch
from common.reporting import csv_rows
from common.reporting.csv_rows import CsvRows, numbered_rows
from common.reporting.run_directory import RunDirectory
from common.types import Nest


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
        on_episode: Callable[[int, float, int], None],
        encode: Callable[[Nest], Nest] | None = None,
    ):
        """Starts an episode in each environment.

        Args:
          environment: a batch of K environments.
          policy: chooses the actions, with exploration.
          adder: an adder for K environments.
          on_episode: called at the end of each episode with the environment's index, the
            undiscounted return of unclipped rewards and the length in steps.
          encode: converts observations [K, ...] to the form that the adder stores; called once a
            timestep. The policy is given the original observations. None stores these.
        """
        self._environment = environment
        self._policy = policy
        self._adder = adder
        self._on_episode = on_episode
        self._initial_state = policy.initial_state(environment.num_environments)
        self._encode = encode
        self._state = self._initial_state
        self._is_observed = False
        self._steps = 0
        self._returns = np.zeros(environment.num_environments, np.float64)
        self._lengths = np.zeros(environment.num_environments, np.int64)
        self._timestep = environment.reset()

    @property
    def steps(self) -> int:
        """Steps executed in all K environments together, without resets."""
        return self._steps

    def step(self) -> Sequence[Delivery]:
        """Advances every environment by one timestep; returns the deliveries that are complete.

        With on-policy data, a step that completes a delivery executes no action.
        """
        timestep = self._timestep
        state = state_at(self._policy, self._state, self._initial_state, timestep)
        action, next_state, extras = self._policy(timestep.observation, state)
        if self._encode is not None:
            timestep = timestep._replace(observation=self._encode(timestep.observation))
        deliveries = () if self._is_observed else self._adder.observe(timestep, extras)
        self._is_observed = self._adder.on_policy and bool(deliveries)
        if self._is_observed:
            return deliveries
        self._state = next_state
        self._adder.act(timestep, action, extras)
        self._timestep = self._environment.step(action)
        self._count(self._timestep)
        return deliveries

    def _count(self, timestep: dm_env.TimeStep) -> None:
        moved = timestep.step_type > FIRST  # no action led to a FIRST or an ABSENT row
        self._steps += int(np.count_nonzero(moved))
        self._lengths = np.where(moved, self._lengths + 1, 0)
        self._returns = np.where(moved, self._returns + timestep.reward, 0.0)
        for index in np.flatnonzero(timestep.step_type == LAST):
            self._on_episode(int(index), float(self._returns[index]), int(self._lengths[index]))


_EXPLORATION = 1


def actor_seed(seed: int, actor: int, start: int) -> int:
    """Returns the seed of an actor's environment in a start, counted from 0."""
    return int(np.random.SeedSequence([seed, actor, start]).generate_state(1)[0])


def exploration_seed(seed: int, actor: int, start: int) -> int:
    """Returns the seed of an actor's exploration, which differs from its environment's.

    If they were equal, the environment's noise would be correlated with the exploration.
    """
    sequence = np.random.SeedSequence([seed, actor, start, _EXPLORATION])
    return int(sequence.generate_state(1)[0])


def record_start(directory: RunDirectory, actors: range) -> int:
    """Appends a start of these actors to lives.csv and returns how many earlier starts there were.

    Args:
      directory: the run's directory.
      actors: indices of the actors in this process.

    Raises:
      CsvError: lives.csv is malformed.
    """
    file = CsvRows(directory.lives_csv, csv_rows.LIVES)
    starts = numbered_rows(directory.lives_csv, numbers=csv_rows.LIVES)
    file.append({"first_actor": actors.start, "last_actor": actors[-1]})
    spans = ([float(cells[name]) for name in csv_rows.LIVES] for _, cells in starts)
    return sum(first < actors.stop and last >= actors.start for first, last in spans)


class EpisodeLog:
    """Writer of acting.csv, with a row for each training episode."""

    def __init__(
        self, directory: RunDirectory, actors: range, status: Callable[[], dict[str, float]]
    ):
        """Opens the file.

        Args:
          directory: the run's directory.
          actors: indices of the actors, in the order of the batch of environments.
          status: returns the current values of the columns that do not describe the episode:
            wall_seconds, incarnation, parameter_version, parameter_age_steps.
        """
        self._rows = CsvRows(directory.acting_csv, csv_rows.ACTING)
        self._actors = actors
        self._status = status
        self._acted = np.zeros(len(actors), np.int64)

    def write(self, index: int, episode_return: float, length: int) -> None:
        """Writes a row.

        Args:
          index: the row in the batch of the environment in which the episode ended.
          episode_return: undiscounted sum of unclipped rewards.
          length: steps of the episode.
        """
        self._acted[index] += length
        self._rows.append(
            {
                **self._status(),
                "actor": self._actors[index],
                "actor_steps": int(self._acted[index]),
                "episode_return": episode_return,
                "episode_length": length,
            }
        )
