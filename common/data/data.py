"""The interface of a kind of data: adder, store, and the limit between actors and learner.

Actors give each timestep to an `Adder`. Its deliveries are put into the `Store`, from which the
learner draws. The other modules of this directory define the kinds of data. `ItemData` is the base
of kinds that are stored in a `Memory`.
"""

import abc
from collections.abc import Sequence
import math
from typing import Any, NamedTuple

import dm_env
import numpy as np
import tensorflow as tf

from common.environments.batch import ABSENT, LAST
from common.environments.spec import EnvironmentSpec
from common.replay.local_replay import LocalReplay
from common.replay.memory import HARD_CAPACITY, Distribution, ItemWire, Memory
from common.replay.store import RateLimiter, Store, Wire
from common.types import Nest


class Delivery(NamedTuple):
    """Rows that are put into a store together, and the number of actor steps that they complete."""

    rows: Any
    steps: int


class Adder(abc.ABC):
    """Converter of the timesteps of K environments to the rows of a store.

    Call both methods once for each timestep, with the policy's output for its observation:

        deliveries = adder.observe(timestep, extras)
        adder.act(timestep, action, extras)

    Everything stored or returned is a copy.

    Attributes:
      num_steps: actor steps of all rows completed so far, including rows that wait for `flush`.
      incarnation: number of this start of the actors, which is part of their rows' keys.
      replay: the actors' own store, if any.
      on_policy: whether all steps of a delivery have the same version of the parameters, which the
        policy reports. If so, the actors wait for a newer version after each delivery, instead of
        requesting one every `actor_period` steps. They then call the policy again at the same
        timestep, and its first action there is not executed.
    """

    replay: LocalReplay | None = None
    on_policy: bool = False

    def __init__(self) -> None:
        """Starts without steps, in incarnation 0."""
        self.num_steps = self.incarnation = 0

    @abc.abstractmethod
    def observe(
        self, timestep: dm_env.TimeStep, extras: dict[str, np.ndarray]
    ) -> Sequence[Delivery]:
        """Takes a timestep; returns the deliveries that are complete.

        Args:
          timestep: a timestep of K environments, as an `EnvironmentBatch` returns it.
          extras: named arrays [K, ...], the policy's extras at its observation.
        """

    @abc.abstractmethod
    def act(
        self, timestep: dm_env.TimeStep, action: np.ndarray, extras: dict[str, np.ndarray]
    ) -> None:
        """Takes the action at the timestep that was just given to `observe`.

        Args:
          timestep: a timestep of K environments.
          action: [K, A] or [K], the action taken at its observation.
          extras: named arrays [K, ...], the policy's extras at its observation.
        """

    def flush(self) -> Sequence[Delivery]:
        """Returns the completed rows that were held back for a larger delivery."""
        return ()


def takes_action(timestep: dm_env.TimeStep) -> np.ndarray:
    """Returns whether an action follows in each row, bool [K]: not at LAST, and not if ABSENT."""
    return (timestep.step_type != LAST) & (timestep.step_type != ABSENT)


class Data(abc.ABC):
    """A kind of data: its adder, its store, and how far actors and learner may run ahead.

    Attributes:
      send_batch: actor steps that actors collect for a delivery to another process; 0 collects
        none.
      num_copies: items added to the store for each actor step.
      steps_per_item: timesteps of an item from which an update learns.
      in_lockstep: whether actors wait until a remote store has accepted everything they added.
      acts_during_updates: whether, in a process that acts and learns, actors act during updates.
      inserts_late: whether, in a process that acts and learns, rows are inserted together when the
        next call is due. Each actor step then adds `num_copies` items.
      most_waiting: maximum number of deliveries waiting to be sent; beyond it, the actors wait.
      pull_timestep: timestep within each `actor_period` at which an actor requests new parameters.
    """

    send_batch: int = 0
    num_copies: int = 1
    steps_per_item: int = 1
    in_lockstep: bool = False
    acts_during_updates: bool = False
    inserts_late: bool = False
    most_waiting: int = 4
    pull_timestep: int = 0

    @abc.abstractmethod
    def make_adder(
        self,
        *,
        policy: Any,
        actors: range,
        specs: Nest,
        seed: int,
        shard: int = 0,
        send_batch: float = 0,
        share: float = 1.0,
    ) -> Adder:
        """Builds the adder of some actors.

        Args:
          policy: the actors' policy.
          actors: index of the actor in each row of the batch of environments.
          specs: as for `make_store`.
          seed: seed of the adder's draws.
          shard: number of the shard that receives the rows.
          send_batch: actor steps collected for a delivery, if this kind of data collects: 0
            delivers at once, infinity waits for `flush`.
          share: these actors as a fraction of the run's actors.
        """

    @abc.abstractmethod
    def make_store(self, specs: Nest, seed: int, num_shards: int = 1) -> Store:
        """Builds the store, or a shard of it.

        Args:
          specs: nest of `tf.TensorSpec` and `Bytes`; see `common.agents.agent.Agent.step_specs`.
          seed: seed of the random draws and removals.
          num_shards: number of shards that share the capacity.
        """

    @abc.abstractmethod
    def wire(self, specs: Nest) -> Wire:
        """Returns the form in which the store's rows are sent."""

    @abc.abstractmethod
    def rate_limiter(self, num_samples: int, num_ahead: int | None) -> RateLimiter:
        """Returns the limit on how far actors and learner may run ahead of each other.

        Args:
          num_samples: items that one call of updates draws.
          num_ahead: calls that the learner draws ahead; None if a single process acts and learns
            in turns, without prefetching or sending.
        """


class StoredState(NamedTuple):
    """The columns of states: [T + 1, ...] in an episode, [N, ...] in a rollout or a batch.

    Attributes:
      observation: nest of [...].
      action: [A] (or []), taken at the observation; meaningless at the last state.
      extras: named arrays, the policy's extras at the observation.
    """

    observation: Nest
    action: tf.Tensor | np.ndarray
    extras: dict[str, Any]


def gaussian_state_specs(spec: EnvironmentSpec) -> StoredState:
    """Returns the columns of a state, with the acting Gaussian policy's mean and variance."""
    action = tf.TensorSpec([spec.action_size])
    return StoredState(
        observation=tf.TensorSpec([spec.observation_size]),
        action=action,
        extras={"mean": action, "variance": action},
    )


class ItemData(Data):
    """Base of the kinds of data whose store is a `Memory`.

    Attributes:
      distributions: distributions of the memory by name: the learner draws from "sample", and
        "remove" picks the items to remove.
      sequence_length: T, timesteps of an item that is a sequence; 0 if an item is a single step.
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
          sample: distribution from which the learner draws.
          remove: distribution that picks the items to remove.
          send_batch: actor steps that an actor process sends at a time.
          num_copies: copies of each transition (Ape-X appendix A). Each copy is a separate item
            and counts in `min_replay_size` and `replay_capacity`.
          reward_clip: bound on the magnitude of stored rewards; None does not clip.
          is_soft: whether the learner removes items above the capacity from time to time, so that
            the capacity is a soft limit (Ape-X section 4.1).
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

        The tolerance is at least the samples of two calls, or of the current call and the
        prefetched calls if those are more. It is also at least two sends of an actor process. With
        less than one send, the learner would wait for each send, and the actors would wait for the
        learner after each send.
        """
        ratio = self._config.samples_per_insert or None
        calls, sent = 2, 0.0
        if num_ahead is not None:
            calls = max(calls, 1 + num_ahead)
            sent = self.send_batch * self.num_copies * (ratio or 0.0)
        tolerance = max(float(calls * num_samples), 2.0 * sent)
        return RateLimiter(self._config.min_replay_size, ratio, tolerance)
