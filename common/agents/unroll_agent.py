"""Base class of agents whose actors keep a replay of unrolls and send from it to the learner."""

import abc
from collections.abc import Mapping
from typing import Any

import numpy as np

from common.acting.policy import Adder
from common.acting.unrolls import UnrollAdder
from common.agents.replay_agent import ReplayAgent
from common.environments.spec import EnvironmentSpec
from common.replay.distributions import Distribution, Fifo, Uniform
from common.types import Nest, Unrolls


class UnrollAgent(ReplayAgent):
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

    def __init__(self, config: Any, setting: str):
        """Copies the fields that configurations of such agents have in common.

        Args:
          config: a paper's dataclass of hyperparameters.
          setting: name of the configuration, for CSV files.
        """
        super().__init__(config, setting)
        self.queue_capacity: int = config.queue_capacity
        self.updates_per_call = config.updates_per_call

    def _set_pace(self, config: Any) -> None:
        self.unroll_length: int = config.unroll_length
        self.replayed_unrolls: int = config.replayed_unrolls
        self.actor_period = self.unroll_length
        self.min_replay_size = 0
        self.samples_per_insert = 1.0 + self.replayed_unrolls

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

    def distributions(self) -> tuple[Mapping[str, Distribution], str]:
        """Returns a uniform distribution to sample from, and first in, first out for removal."""
        return {"sample": Uniform(), "remove": Fifo()}, "remove"

    def make_adder(self, num_environments: int) -> Adder:
        """Builds the adder for a batch of environments."""
        return UnrollAdder(num_environments, self.unroll_length)

    def count_steps(self, added: Unrolls) -> int:
        """Returns the number of timesteps at which an action was taken."""
        return int(np.count_nonzero(~added.is_last))
