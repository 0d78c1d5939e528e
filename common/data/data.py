"""A kind of data: the adder that completes its rows, the store that keeps them, and their limits.

Actors give each timestep to an `Adder`, whose deliveries are put into the `Store`; the learner
draws from it. The other modules of this room are a kind each. `ItemData` is the base of those whose
store is a `Memory`.
"""

import abc
from collections.abc import Sequence
import math
from typing import Any, NamedTuple

import dm_env
import numpy as np
import tensorflow as tf

from common.environments.spec import EnvironmentSpec
from common.replay.local_replay import LocalReplay
from common.replay.memory import HARD_CAPACITY, Distribution, ItemWire, Memory
from common.replay.store import RateLimiter, Store, Wire
from common.types import Nest


class Delivery(NamedTuple):
    """Rows that are put into a store at once, and the actor steps that are accepted with them."""

    rows: Any
    steps: int


class Adder(abc.ABC):
    """A converter of timesteps of a batch of K environments to the rows of a store.

    Call both methods once for each timestep, with the policy's output for its observation:

        deliveries = adder.observe(timestep, extras)
        adder.act(timestep, action, extras)

    Everything stored or returned is a copy.

    Attributes:
      num_steps: actor steps of all rows completed so far, also of those that wait for `flush`.
      incarnation: of this start of the actors, which becomes part of keys.
      replay: the store of these actors themselves, if they have one.
      on_policy: whether all steps of a delivery have one version of the parameters, as the policy
        gives it. Actors then wait for a newer one after each delivery, which replaces
        `actor_period`, and ask the policy again at that timestep; its first action is not executed.
    """

    replay: LocalReplay | None = None
    on_policy: bool = False

    def __init__(self) -> None:
        """Begins without steps, in incarnation 0."""
        self.num_steps = self.incarnation = 0

    @abc.abstractmethod
    def observe(
        self, timestep: dm_env.TimeStep, extras: dict[str, np.ndarray]
    ) -> Sequence[Delivery]:
        """Takes a timestep; returns the deliveries that are complete.

        Args:
          timestep: of K environments, as an `EnvironmentBatch` returns it.
          extras: named arrays [K, ...], the policy's extras at its observation.
        """

    @abc.abstractmethod
    def act(
        self, timestep: dm_env.TimeStep, action: np.ndarray, extras: dict[str, np.ndarray]
    ) -> None:
        """Takes the action at the timestep that `observe` just got.

        Args:
          timestep: of K environments.
          action: [K, A] or [K], the action taken at its observation.
          extras: named arrays [K, ...], the policy's extras at its observation.
        """

    def flush(self) -> Sequence[Delivery]:
        """Returns the completed rows that are collected for a larger delivery."""
        return ()


class Data(abc.ABC):
    """A kind of data: its adder, its store, and how far one may run ahead of the other.

    Attributes:
      send_batch: actor steps that actors collect for a delivery to another process; 0 collects
        none.
      num_copies: items that the store gets for an actor step.
      steps_per_item: timesteps of an item from which an update learns.
      in_lockstep: whether actors wait until a store elsewhere has taken all that they added.
      acts_beside: whether the actors of a process that also learns act while an update runs.
      inserts_late: whether what such actors add is inserted once, when the next call is due. Each
        actor step then adds `num_copies` items.
      pull_timestep: timestep of each `actor_period` at which an actor requests new parameters.
    """

    send_batch: int = 0
    num_copies: int = 1
    steps_per_item: int = 1
    in_lockstep: bool = False
    acts_beside: bool = False
    inserts_late: bool = False
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
          policy: with which they act.
          actors: index of the actor in each row of the batch of environments.
          specs: as for `make_store`.
          seed: of what the adder draws.
          shard: number of the shard that gets the rows.
          send_batch: actor steps collected for a delivery, if this kind of data collects: 0
            delivers at once, infinity waits for `flush`.
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
    def rate_limiter(self, num_samples: int, num_ahead: int | None) -> RateLimiter:
        """Returns the limit on how far actors and learner may run ahead of each other.

        Args:
          num_samples: items of a call of updates.
          num_ahead: calls that the learner draws ahead of; None if one process acts and learns in
            turns, without prefetching or sending.
        """


class StoredState(NamedTuple):
    """The columns of a state: [T + 1, ...] in an episode, [N, ...] in a rollout or a batch.

    Attributes:
      observation: nest of [...].
      action: [A] (or []), taken at the observation; without meaning at the last state.
      extras: named arrays, the policy's extras at the observation.
    """

    observation: Nest
    action: tf.Tensor | np.ndarray
    extras: dict[str, Any]


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
