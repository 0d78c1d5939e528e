"""Environments, seeds and CSV records of the actors in a process."""

from collections.abc import Callable
from typing import Any

import numpy as np

from common import environments
from common.environments.batch import EnvironmentBatch
from common.reporting import columns
from common.reporting.csv_rows import CsvRows, numbered_rows
from common.reporting.run_directory import RunDirectory

_EXPLORATION = 1


def make_environments(
    environment_name: str, actors: range, seed: int, start: int, num_frames: int | None
) -> EnvironmentBatch:
    """Builds an environment for each actor, as one batch.

    Args:
      environment_name: see `common.environments.make`.
      actors: indices of the actors.
      seed: of the run.
      start: number of earlier starts of these actors. Random numbers differ between starts.
      num_frames: images stacked in an observation; None if observations are not images.
    """
    seeds = [actor_seed(seed, actor, start) for actor in actors]
    return environments.make_batch(environment_name, seeds, frames=num_frames)


def environment_specs(environment_name: str, seed: int, num_frames: int | None) -> tuple[Any, Any]:
    """Returns the observation spec and the action spec of an environment."""
    environment = environments.make(environment_name, seed, frames=num_frames)
    found = environment.observation_spec(), environment.action_spec()
    environment.close()
    return found


def actor_seed(seed: int, actor: int, start: int) -> int:
    """Returns the seed of an actor's environment in a start, counted from 0."""
    return int(np.random.SeedSequence([seed, actor, start]).generate_state(1)[0])


def exploration_seed(seed: int, actor: int, start: int) -> int:
    """Returns the seed of an actor's exploration, apart from that of its environment.

    With one seed for both, noise of the environment could tell the action that follows it.
    """
    sequence = np.random.SeedSequence([seed, actor, start, _EXPLORATION])
    return int(sequence.generate_state(1)[0])


def record_start(directory: RunDirectory, actors: range) -> int:
    """Appends a start of these actors to lives.csv and returns how many earlier starts there were.

    Args:
      directory: of the run.
      actors: indices of the actors in this process.

    Raises:
      CsvError: lives.csv is malformed.
    """
    file = CsvRows(directory.lives_csv, columns.LIVES)
    starts = numbered_rows(directory.lives_csv, numbers=columns.LIVES)
    file.append({"first_actor": actors.start, "last_actor": actors[-1]})
    spans = ([float(cells[name]) for name in columns.LIVES] for _, cells in starts)
    return sum(first < actors.stop and last >= actors.start for first, last in spans)


class EpisodeLog:
    """Writer of acting.csv, which has a row for each training episode."""

    def __init__(
        self, directory: RunDirectory, actors: range, status: Callable[[], dict[str, float]]
    ):
        """Opens the file.

        Args:
          directory: of the run.
          actors: indices of the actors, in the order of the batch of environments.
          status: returns the present values of the columns that do not describe the episode:
            wall_seconds, incarnation, parameter_version, parameter_age_steps.
        """
        self._rows = CsvRows(directory.acting_csv, columns.ACTING)
        self._actors = actors
        self._status = status
        self._acted = np.zeros(len(actors), np.int64)

    def write(self, index: int, episode_return: float, length: int) -> None:
        """Writes a row.

        Args:
          index: row of the batch in which the episode ended.
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
