"""Base class of agents that learn from steps of whole episodes."""

import abc
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from common.acting.episode_adder import EpisodeAdder
from common.acting.policy import Adder
from common.agents.replay_agent import ReplayAgent
from common.environments.spec import EnvironmentSpec
from common.learning.learner import Learner
from common.replay.distributions import RankBased, Uniform
from common.replay.episodes import EpisodeMemory
from common.replay.memory import Sample
from common.replay.schedule import Schedule
from common.types import EpisodeBatch, Episodes, StoredState


class EpisodeAgent(ReplayAgent):
    """An agent whose replay has episodes, of which updates draw single steps.

    It acts and learns in one process. A step counts when its action is executed, although a running
    episode cannot be drawn from.

    Attributes:
      discount: gamma, per step.
    """

    acts_beside_updates = True

    def __init__(self, config: Any, setting: str):
        """Copies the fields that configurations of episode agents have in common.

        Args:
          config: a paper's dataclass of hyperparameters.
          setting: name of the configuration, for CSV files.
        """
        super().__init__(config, setting)
        self.updates_per_call = config.updates_per_call
        self.discount: float = config.discount

    @abc.abstractmethod
    def step_specs(self, spec: EnvironmentSpec) -> StoredState:
        """See base class."""

    @abc.abstractmethod
    def distributions(self) -> tuple[Mapping[str, Uniform | RankBased], str]:
        """Returns the distribution "sample", and which episodes a full memory removes.

        See `EpisodeMemory` for the second.
        """

    def make_adder(self, num_environments: int) -> Adder:
        """Builds the adder for a batch of environments."""
        return EpisodeAdder(num_environments)

    def make_memory(self, spec: EnvironmentSpec, seed: int, num_shards: int = 1) -> EpisodeMemory:
        """Builds the memory; it cannot be sharded."""
        assert num_shards == 1
        distributions, removal = self.distributions()
        return EpisodeMemory(
            self.step_specs(spec),
            self.replay_capacity,
            self.discount,
            distributions["sample"],
            removal,
            seed + 1,
        )

    def insert(
        self, memory: EpisodeMemory, actor: Any, actors: range, added: Episodes, incarnation: int
    ) -> None:
        """Adds finished episodes and counts all steps; see base class."""
        del actor, actors, incarnation  # the memory makes the keys
        memory.count_steps(added.num_steps)
        for episode in added.episodes:
            memory.add(episode.states, episode.rewards, episode.values, episode.terminated)

    def count_steps(self, added: Episodes) -> int:
        """Returns the number of actions that follow the timestep."""
        return added.num_steps

    def schedule(self, in_turns: bool = False) -> Schedule:
        """Returns the limit by which a call is due as soon as its steps have been executed.

        Between calls, actor steps - (steps per update) * learner steps is constant.
        """
        del in_turns
        call = self.batch_size * self.updates_per_call
        return Schedule(self.min_replay_size, self.samples_per_insert, float(call))

    def draw(
        self,
        learner: Learner,
        spec: EnvironmentSpec,
        memory: EpisodeMemory,
        num_samples: int,
        seed: int,
    ) -> Sample:
        """Draws batches without repeats; see base class."""
        del learner, spec
        sample = memory.sample(self.batch_size, seed, num_samples // self.batch_size)
        batch = EpisodeBatch(
            sample.steps,
            sample.next_steps,
            sample.rewards,
            sample.discounts,
            sample.bootstraps,
            sample.q_ret,
        )
        return Sample(
            keys=sample.keys,
            masses=sample.probabilities,
            total_mass=tf.constant(1.0, tf.float64),
            count=sample.count,
            lengths=tf.ones_like(sample.keys, tf.int32),
            steps=batch,
        )
