"""Kinds of data: what actors add to a store, and a learner draws from it.

Data of items in a `Memory`: transitions or sequences.
"""

import abc
import math
from typing import Any

import tensorflow as tf

from common.acting.policy import Adder
from common.environments.spec import EnvironmentSpec
from common.remote.outbox import Writer
from common.replay.memory import HARD_CAPACITY, Distribution, ItemWire, Memory
from common.replay.store import RateLimiter, Store, Wire
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


class ItemData(Data):
    """Base of data whose store is a `Memory`.

    Attributes:
      distributions: of the memory, by name: the learner draws from "sample"; "remove" removes.
      sequence_length: T, timesteps of an item that is a sequence; 0 if an item is one step.
    """

    sequence_length = 0

    def __init__(
        self,
        config: Any,
        sample: Distribution,
        remove: Distribution,
        *,
        send_batch: int = 1,
        num_copies: int = 1,
        reward_clip: float | None = None,
        is_soft: bool = False,
    ):
        """Copies fields of the configuration.

        Args:
          config: a paper's dataclass of hyperparameters.
          sample: from which the learner draws.
          remove: which picks the items to remove.
          send_batch: actor steps that an actor process sends at a time.
          num_copies: copies of each transition (Ape-X appendix A). Each copy is an item of its own
            and counts in `min_replay_size` and `replay_capacity`.
          reward_clip: bound on the magnitude of rewards as the adder stores them; None for none.
          is_soft: whether the capacity is a soft limit, above which the learner removes (Ape-X
            section 4.1).
        """
        self._config = config
        self.distributions = {"sample": sample, "remove": remove}
        self.send_batch = send_batch
        self.num_copies = num_copies
        self._reward_clip = reward_clip
        self._is_soft = is_soft

    def make_store(self, specs: Nest, seed: int, num_shards: int = 1) -> Memory:
        """Builds the memory, or a shard of it; see base class."""
        capacity = math.ceil(self._config.replay_capacity / num_shards)
        return Memory(
            specs,
            capacity,
            self.distributions,
            "remove",
            seed=seed + 1,
            hard_capacity=HARD_CAPACITY * capacity if self._is_soft else None,
            sequence_length=self.sequence_length,
        )

    def wire(self, specs: Nest) -> ItemWire:
        """See base class."""
        return ItemWire(specs, self.sequence_length)

    def rate_limiter(self, num_samples: int, num_ahead: int | None) -> RateLimiter:
        """Returns the limit on how far actors and learner may run ahead of each other.

        The tolerance is at least the samples of two calls, or of the present call and the
        prefetched ones if those are more. It is also at least two sends of an actor process: with
        less than a send, the learner would wait for each send and the actors for the learner after
        it.
        """
        ratio = self._config.samples_per_insert or None
        calls, sent = 2, 0.0
        if num_ahead is not None:
            calls = max(calls, 1 + num_ahead)
            sent = self.send_batch * self.num_copies * (ratio or 0.0)
        tolerance = max(float(calls * num_samples), 2.0 * sent)
        return RateLimiter(self._config.min_replay_size, ratio, tolerance)
