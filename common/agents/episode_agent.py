"""Base class of agents that learn from steps of whole episodes."""

import abc
from collections.abc import Mapping
import functools
from typing import Any

import tensorflow as tf

from common.acting.episode_adder import EpisodeAdder
from common.acting.policy import Adder
from common.agents.agent import Agent
from common.environments.spec import EnvironmentSpec
from common.learning import metrics as metrics_lib
from common.learning.episode_learner import EpisodeLearner
from common.learning.learner import Learner
from common.replay import seeds
from common.replay.distributions import RankBased, Uniform
from common.replay.episodes import EpisodeMemory, EpisodeSample
from common.replay.schedule import Schedule
from common.types import Batch, EpisodeBatch, Episodes, Metrics, Nest, StoredState


class EpisodeAgent(Agent):
    """An agent whose replay has episodes, of which updates draw single steps.

    It acts and learns in one process. A step counts when its action is executed, although a running
    episode cannot be drawn from.
    """

    def __init__(self, config: Any, setting: str):
        """Copies the fields that configurations of episode agents have in common.

        Args:
          config: a paper's dataclass of hyperparameters.
          setting: name of the configuration, for CSV files.
        """
        super().__init__(config, setting)
        self.updates_per_call = config.updates_per_call

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
        return EpisodeAdder(num_environments, self.replay_capacity)

    def make_memory(self, spec: EnvironmentSpec, seed: int) -> EpisodeMemory:
        """See base class."""
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

    def schedule(self) -> Schedule:
        """Returns the limit by which a call is due as soon as its steps have been executed.

        Between calls, actor steps - (steps per update) * learner steps is constant.
        """
        call = self.batch_size * self.updates_per_call
        return Schedule(self.min_replay_size, self.samples_per_insert, float(call))

    def updates_in_turns(
        self, learner: Learner, memory: EpisodeMemory, spec: EnvironmentSpec, seed: int
    ) -> EpisodeLearner:
        """See base class.

        The draw, the updates and what they write back are one graph, since launching each alone
        would take longer than a small network's update. The draw of a call depends only on `seed`,
        the learner step at which the call begins and the contents of the memory.
        """
        del spec
        updates = self.update_loop(learner)
        first = seeds.derive(seed, 0)

        @tf.function
        def call() -> Metrics:
            self.before_updates(learner, memory)
            sample = memory.sample(self.batch_size, first + learner.steps, self.updates_per_call)
            outputs, metrics = updates(batch_of(sample))
            if metrics_lib.are_finite(metrics):  # the memory refuses others, with its own error
                self.write_back_to(learner, memory, sample.keys, outputs)
            return metrics

        return EpisodeLearner(
            memory,
            call,
            self.updates_per_call,
            self.batch_size,
            learner.steps,
            self.schedule(),
            functools.partial(self.prepare, learner, memory),
        )

    @abc.abstractmethod
    def prepare(self, learner: Learner, memory: EpisodeMemory, step: int, is_first: bool) -> None:
        """Prepares a call, not in its graph.

        Args:
          learner: before the updates.
          memory: from which they draw.
          step: learner step at which the call begins.
          is_first: whether it is the first one since the process started, maybe of a resumed run.
        """

    @abc.abstractmethod
    def before_updates(self, learner: Learner, memory: EpisodeMemory) -> None:
        """Tells the learner about the memory, in the graph of a call."""

    @abc.abstractmethod
    def write_back_to(
        self, learner: Learner, memory: EpisodeMemory, keys: tf.Tensor, outputs: Nest
    ) -> None:
        """Writes the outputs of a call's updates to the memory, in its graph.

        Args:
          learner: after the updates.
          memory: from which the steps were drawn.
          keys: [N] int64, of the steps of all updates.
          outputs: nest of [N, ...].
        """


def batch_of(sample: EpisodeSample) -> Batch:
    """Returns a sample as updates take it, with an `EpisodeBatch` as its steps."""
    steps = EpisodeBatch(
        sample.steps,
        sample.next_steps,
        sample.rewards,
        sample.discounts,
        sample.bootstraps,
        sample.q_ret,
    )
    return Batch(
        steps, tf.cast(sample.probabilities, tf.float32), tf.cast(sample.count, tf.float32)
    )
