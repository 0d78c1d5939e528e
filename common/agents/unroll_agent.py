"""Base class of agents whose actors keep a replay of unrolls and send from it to the learner."""

import abc
from typing import Any

import numpy as np

from common.acting.policy import Adder
from common.acting.unrolls import UnrollAdder
from common.agents.agent import Agent
from common.environments.spec import EnvironmentSpec
from common.learning.learner import Learner
from common.learning.queue_learner import QueueLearner
from common.replay.local_replay import LocalReplay, UnrollMemory
from common.replay.unroll_queue import UnrollQueue
from common.types import Nest, Unrolls


class UnrollAgent(Agent):
    """An agent that learns from unrolls of T timesteps (AQL algorithm 1).

    Each actor keeps a replay of its own. For each unroll it sends that unroll and R others, drawn
    from its replay, to the learner's queue. So (learner steps) * B * T = (1 + R) * timesteps.

    Attributes:
      unroll_length: T, timesteps of an unroll.
      replayed_unrolls: R, unrolls drawn from an actor's replay for each new one.
      replay_capacity: timesteps in the replay of each actor.
      queue_capacity: unrolls that wait for the learner at most.
    """

    publish_period = 1
    pull_timestep = 1  # an unroll is complete once the next timestep is observed

    def __init__(self, config: Any, setting: str):
        """Copies the fields that configurations of such agents have in common.

        Args:
          config: a paper's dataclass of hyperparameters.
          setting: name of the configuration, for CSV files.
        """
        super().__init__(config, setting)
        self.unroll_length: int = config.unroll_length
        self.replayed_unrolls: int = config.replayed_unrolls
        self.queue_capacity: int = config.queue_capacity
        self.updates_per_call = config.updates_per_call

    @property
    def samples_per_update(self) -> int:
        """Timesteps of the unrolls of an update."""
        return self.batch_size * self.unroll_length

    @abc.abstractmethod
    def step_specs(self, spec: EnvironmentSpec) -> Nest:
        """Returns the columns of an unroll, each a `tf.TensorSpec` of shape [T, ...]."""

    @abc.abstractmethod
    def columns(self, unrolls: Unrolls) -> Nest:
        """Returns what is stored and sent of M unrolls, nest of [M, T, ...] as `step_specs`."""

    def make_adder(self, num_environments: int) -> Adder:
        """Builds the adder for a batch of environments."""
        return UnrollAdder(num_environments, self.unroll_length)

    def count_steps(self, added: Unrolls) -> int:
        """Returns the number of timesteps at which an action was taken."""
        return int(np.count_nonzero(~added.is_last))

    @property
    def max_offer(self) -> int:
        """Unrolls of the largest offer that the queue takes while the learner lacks a batch."""
        return self.queue_capacity - self.batch_size * self.updates_per_call + 1

    def make_replay(self, spec: EnvironmentSpec, seed: int) -> LocalReplay:
        """Builds the replays of a process's actors."""
        specs = self.step_specs(spec)
        return LocalReplay(specs, self.replay_capacity, self.unroll_length, seed)

    def burst(self, replay: LocalReplay, actors: range, added: Unrolls) -> Nest:
        """Adds unrolls to the actors' replays and returns what the learner gets for them.

        Args:
          replay: of these actors.
          actors: index of the actor in each row of the batch of environments.
          added: M unrolls.

        Returns:
          Nest of [(1 + R) M, T, ...].
        """
        actor_of_row = np.asarray(actors)[added.environment_index]
        return replay.burst(actor_of_row, self.columns(added), self.replayed_unrolls)

    def make_memory(self, spec: EnvironmentSpec, seed: int) -> UnrollMemory:
        """Builds the memory of a process that acts and learns.

        Its queue is not bounded: the actors of such a process act when a batch is missing.
        """
        return UnrollMemory(self.make_replay(spec, seed), UnrollQueue(self.step_specs(spec)))

    def insert(
        self, memory: UnrollMemory, actor: Any, actors: range, added: Unrolls, incarnation: int
    ) -> None:
        """Puts a burst into the queue; see base class."""
        del actor
        burst = self.burst(memory.replay, actors, added)
        memory.queue.offer(incarnation, 1 + int(added.number[0]), burst)

    def updates_in_turns(
        self, learner: Learner, memory: UnrollMemory, spec: EnvironmentSpec, seed: int
    ) -> QueueLearner:
        """Builds the loop of a learner that takes from the memory's queue; see base class."""
        del spec, seed
        return QueueLearner(memory.queue, self.update_loop(learner))
