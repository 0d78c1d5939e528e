"""Actors in the learner's process, in turns with its updates: no distributed layout."""

import pathlib

import numpy as np

from common.acting import episodes
from common.acting.items import as_items
from common.acting.loop import loop_of
from common.acting.n_step import Transitions
from common.agents.agent import Agent, EnvironmentSpec
from common.learning.bookkeeping import Bookkeeping
from common.replay.service import ReplayService


class InProcessActors:
    """Acts with the learner's own parameters and adds to its memory (DDPG, D4PG's baseline).

    Whoever calls `step` decides how many steps an update gets.
    """

    def __init__(
        self,
        agent: Agent,
        environment_name: str,
        replay: ReplayService,
        books: Bookkeeping,
        directory: pathlib.Path,
        num_actors: int,
        seed: int,
    ):
        """Starts an episode in each environment.

        Args:
          replay: keeps what the actors add.
          books: gives the learner's parameters, taken every `agent.actor_period` steps, and the
            run's clock.
          directory: of the run.
          num_actors: K, environments that are stepped together.
        """
        actors = range(num_actors)
        life = episodes.begin_life(directory, actors)
        environments = episodes.make_environments(environment_name, actors, seed, life)
        spec = EnvironmentSpec.of(environments)
        self._agent = agent
        agent_seed = episodes.actor_seed(seed, 0, life)
        self._actor = agent.make_actor(spec, actors, num_actors, agent_seed)
        self._actors = np.asarray(actors)
        self._replay = replay
        self._books = books
        self._incarnation = replay.new_incarnation()
        self._num_added = 0
        self._timesteps = 0
        log = episodes.EpisodeLog(
            directory,
            actors,
            lambda: {
                "wall_seconds": round(books.counters.wall_seconds, 2),
                "incarnation": self._incarnation,
                "parameter_version": books.version,
                "parameter_age_steps": 0,
            },
        )
        self._loop = loop_of(agent, self._actor, environments, self._add, log.write)

    def step(self) -> None:
        """Advances each environment by one timestep."""
        if self._timesteps % self._agent.actor_period == 0:
            self._actor.load(self._books.parameters().numpy())
        self._loop.step()
        self._timesteps += 1

    def _add(self, transitions: Transitions) -> None:
        step_keys, steps, priorities = as_items(
            self._agent, self._actor, transitions, self._actors, 0, self._incarnation
        )
        self._num_added += len(step_keys)
        self._replay.insert(self._incarnation, self._num_added, step_keys, steps, priorities)
