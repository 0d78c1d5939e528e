"""Kinds of data: what actors add to a store, and a learner draws from it."""

import abc
from typing import Any

import tensorflow as tf

from common.acting.policy import Adder
from common.environments.spec import EnvironmentSpec
from common.remote.outbox import Writer
from common.replay.rate_limiter import RateLimiter
from common.replay.store import Store, Wire
from common.types import Nest, StoredState


class Data(abc.ABC):
    """A kind of data: its adder, its store and how the one's results get into the other.

    Attributes:
      num_copies: items that the store gets for an actor step.
      steps_per_item: timesteps of an item from which an update learns.
      in_lockstep: whether actors wait until a store elsewhere has taken all that they added.
      acts_beside: whether the actors of a process that also learns act while an update runs.
      inserts_late: whether what such actors add is inserted once, when the next call is due. Each
        actor step then adds `num_copies` items.
      pull_timestep: timestep of each `actor_period` at which an actor requests new parameters.
      on_policy: whether all that an adder completes has one version of the parameters, and actors
        then wait for a newer one, which replaces `actor_period`. The policy gives its version.
    """

    num_copies: int = 1
    steps_per_item: int = 1
    in_lockstep: bool = False
    acts_beside: bool = False
    inserts_late: bool = False
    pull_timestep: int = 0
    on_policy: bool = False

    @abc.abstractmethod
    def make_adder(self, num_environments: int, share: float = 1.0) -> Adder:
        """Builds the adder for a batch of environments.

        Args:
          num_environments: of the batch, an actor each.
          share: these actors, as a part of all of the run.
        """

    @abc.abstractmethod
    def make_store(self, specs: Nest, seed: int, num_shards: int = 1) -> Store:
        """Builds the store, or one of `num_shards` shards of it.

        Args:
          specs: nest of `tf.TensorSpec` and `Bytes`, see `common.agents.agent.Agent.step_specs`.
          seed: of draws and removals.
          num_shards: stores that share the capacity.
        """

    @abc.abstractmethod
    def wire(self, specs: Nest) -> Wire:
        """Returns how the rows of the store travel."""

    @abc.abstractmethod
    def make_writer(
        self, *, policy: Any, actors: range, specs: Nest, seed: int, shard: int, in_batches: bool
    ) -> Writer:
        """Builds the writer of some actors.

        Args:
          policy: with which they act.
          actors: index of the actor in each row of the batch of environments.
          specs: as for `make_store`.
          seed: of what the writer draws.
          shard: number of the shard that gets the rows.
          in_batches: whether deliveries are collected, for a store in another process.
        """

    @abc.abstractmethod
    def rate_limiter(self, num_samples: int, num_ahead: int | None) -> RateLimiter:
        """Returns the limit on how far actors and learner may run ahead of each other.

        Args:
          num_samples: items of a call of updates.
          num_ahead: calls that the learner draws ahead of; None if one process acts and learns in
            turns, without prefetching or sending.
        """


def gaussian_state_specs(spec: EnvironmentSpec) -> StoredState:
    """Returns the columns of a state at which a Gaussian policy mu acted, and those of mu."""
    action = tf.TensorSpec([spec.action_size])
    return StoredState(
        observation=tf.TensorSpec([spec.observation_size]),
        action=action,
        extras={"mean": action, "variance": action},
    )
