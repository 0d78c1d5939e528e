"""Actors in a process that also learns: they add to its memory and act with its parameters."""

from typing import Protocol

import numpy as np

from common.acting import actor_start
from common.environments.spec import EnvironmentSpec
from common.replay.memory import Memory
from common.roles.run_context import RunContext
from common.types import Nest


class ParameterSource(Protocol):
    """The parameters for actors of the same process."""

    @property
    def version(self) -> int:
        """Version of the newest snapshot."""

    @property
    def steps(self) -> int:
        """Learner steps of the run."""

    @property
    def wall_seconds(self) -> float:
        """Seconds since the run's first start."""

    def parameters(self) -> np.ndarray:
        """Returns the parameters, [P] float32."""


class InProcessActors:
    """Actors that step together as one batch whenever their caller says so.

    Attributes:
      num_added: items added for the actor steps counted so far, `num_copies` for each.
    """

    def __init__(
        self, context: RunContext, memory: Memory, incarnation: int, source: ParameterSource
    ):
        """Starts an episode in each environment.

        Args:
          context: of the run; all of the process's actors step together.
          memory: stores the actors' steps.
          incarnation: number of this start of the actors, see `common.replay.accounts`.
          source: of the parameters, which the actors copy every `agent.actor_period` timesteps.
        """
        agent = context.agent
        self._agent = agent
        self._actors = context.actors
        start = actor_start.record_start(context.directory, self._actors)
        environments = context.watch(
            actor_start.make_environments(
                context.environment, self._actors, context.seed, start, agent.num_frames
            )
        )
        self._actor = agent.make_actor(
            EnvironmentSpec.of(environments),
            self._actors,
            context.num_actors,
            actor_start.actor_seed(context.seed, self._actors.start, start),
        )
        self._memory = memory
        self._source = source
        self._incarnation = incarnation
        self.num_added = 0
        self._added: list[Nest] = []
        self._timesteps = 0
        self._version, self._loaded_at, self._learner_steps = 0, -1, 0
        log = actor_start.EpisodeLog(
            context.directory,
            self._actors,
            lambda: {
                "wall_seconds": round(source.wall_seconds, 2),
                "incarnation": incarnation,
                "parameter_version": self._version,
                "parameter_age_steps": self._learner_steps - self._loaded_at,
            },
        )
        self._loop = agent.acting_loop(self._actor, environments, self._add, log.write)

    def pull(self) -> None:
        """Loads newer parameters if they are due."""
        self._learner_steps = self._source.steps
        period, timestep = self._agent.actor_period, self._agent.pull_timestep
        is_due = self._loaded_at < 0 or self._timesteps % period == timestep
        if is_due and self._learner_steps != self._loaded_at:
            self._actor.load(self._source.parameters())
            self._version, self._loaded_at = self._source.version, self._learner_steps

    def step(self) -> None:
        """Advances every environment by one timestep; `insert` has to follow."""
        self._loop.step()
        self._timesteps += 1

    def insert(self) -> None:
        """Inserts into the memory what the steps since the last call have added."""
        for added in self._added:
            self._agent.insert(self._memory, self._actor, self._actors, added, self._incarnation)
        self._added.clear()

    def _add(self, added: Nest) -> None:
        self._added.append(added)
        self.num_added += self._agent.num_copies * self._agent.count_steps(added)
