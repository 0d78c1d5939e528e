"""Environments, seeds and records of the actors of a process."""

from collections.abc import Callable
import csv

import numpy as np

from common import environments
from common.environments.batch import EnvironmentBatch
from common.reporting import columns
from common.reporting.csv_rows import CsvRows
from common.reporting.run_directory import RunDirectory


def make_environments(
    environment_name: str, actors: range, seed: int, start: int, num_frames: int | None
) -> EnvironmentBatch:
    """Builds the environments of these actors; none repeats those of another actor or start."""
    seeds = [actor_seed(seed, actor, start) for actor in actors]
    return environments.make_batch(environment_name, seeds, frames=num_frames)


def actor_seed(seed: int, actor: int, start: int) -> int:
    """Returns the seed of an actor's environment or noise in its n-th start, from 0."""
    return int(np.random.SeedSequence([seed, actor, start]).generate_state(1)[0])


def record_start(directory: RunDirectory, actors: range) -> int:
    """Appends a start of these actors to lives.csv and returns how many earlier starts there were.

    Args:
      directory: of the run.
      actors: those of this process.
    """
    path, former = directory.lives_csv, 0
    if path.exists():
        with open(path, newline="", encoding="utf-8", errors="replace") as file:
            for first, last in (row for row in csv.reader(file) if len(row) == 2):
                if first.isdecimal() and last.isdecimal():
                    former += int(first) < actors.stop and int(last) >= actors.start
    CsvRows(path, columns.LIVES).append({"first_actor": actors.start, "last_actor": actors[-1]})
    return former


class EpisodeLog:
    """Rows of acting.csv, one an episode."""

    def __init__(
        self, directory: RunDirectory, actors: range, status: Callable[[], dict[str, float]]
    ):
        """Opens the file of a run.

        Args:
          directory: of the run.
          actors: the paper's actors, in the order of the environments' batch.
          status: gives the columns that are not about the episode: wall_seconds, incarnation,
            parameter_version and parameter_age_steps of this moment.
        """
        self._rows = CsvRows(directory.acting_csv, columns.ACTING)
        self._actors = actors
        self._status = status
        self._acted = np.zeros(len(actors), np.int64)

    def write(self, index: int, episode_return: float, length: int) -> None:
        """Writes the row of an episode that ended in environment `index`."""
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
