"""Base class of agents whose replay is a memory of items."""

import abc
from collections.abc import Mapping
import functools
import math
from typing import Any

from common.agents.agent import Agent
from common.environments.spec import EnvironmentSpec
from common.learning.learner import Learner
from common.learning.replay_learner import Loop, ReplayLearner
from common.replay.distributions import Distribution
from common.replay.memory import HARD_CAPACITY, Memory
from common.replay.replay_memory import ReplayMemory
from common.replay.schedule import Schedule
from common.types import Items, Nest


class ItemAgent(Agent):
    """An agent that learns from items of a `Memory`, in its learner's process or in others.

    It adds the memory's distributions, the items of what the adder gives, and how the outputs of
    updates are written back.

    Attributes:
      prefetch: number of calls whose samples the learner draws ahead from a memory in another
        process.
      removal_period: learner steps between removals of items above the capacity, which is then a
        soft limit (Ape-X section 4.1). None if a memory never holds more than its capacity.
      reward_clip: bound on the magnitude of rewards as the adder stores them; None does not clip.
      num_copies: copies of each transition in the replay (Ape-X appendix A). Each copy is an item
        of its own and counts in `min_replay_size` and `replay_capacity`.
      target_period: learner steps between a parameter server's snapshots of the target networks.
      send_batch: transitions that an actor process sends at a time.
      sequence_length: T, timesteps of an item that is a sequence; 0 if an item is one step.
    """

    prefetch: int = 1
    removal_period: int | None = None
    reward_clip: float | None = None
    target_period: int = 1
    send_batch: int = 1
    sequence_length: int = 0

    @abc.abstractmethod
    def distributions(self) -> tuple[Mapping[str, Distribution], str]:
        """Returns the memory's distributions by name and the name of the one that removes items.

        The learner samples from the one named "sample".
        """

    def decode(self, steps: Nest, spec: EnvironmentSpec) -> Nest:
        """Reverses `encode` in sampled steps.

        Args:
          steps: [B, ...], or [B, T, ...] for sequences.
          spec: of the environment.

        Raises:
          tf.errors.InvalidArgumentError: a step cannot be decoded.
        """
        del spec  # nothing is encoded
        return steps

    @abc.abstractmethod
    def items(self, actor: Any, actors: range, shard: int, added: Any, incarnation: int) -> Items:
        """Returns the replay items of what the adder gave, as a replay elsewhere gets them.

        Args:
          actor: the policy that acted, from `make_actor`.
          actors: index of the actor in each row of the batch of environments.
          shard: number of the replay shard that gets the items.
          added: what the adder of `make_adder` gave.
          incarnation: number that the shard assigned to this start of the actors.
        """

    def insert(self, memory: Any, actor: Any, actors: range, added: Nest, incarnation: int) -> None:
        """See base class."""
        memory.insert(*self.items(actor, actors, 0, added, incarnation))

    def make_memory(self, spec: EnvironmentSpec, seed: int, num_shards: int = 1) -> Memory:
        """Builds the memory, or one of `num_shards` shards of it.

        The capacity is a soft limit if the learner removes the excess (`removal_period`).
        """
        distributions, removal = self.distributions()
        capacity = math.ceil(self.replay_capacity / num_shards)
        is_soft = self.removal_period is not None
        return Memory(
            self.step_specs(spec),
            capacity,
            distributions,
            removal,
            seed=seed + 1,
            hard_capacity=HARD_CAPACITY * capacity if is_soft else None,
        )

    def schedule(self, in_turns: bool = False) -> Schedule:
        """Returns the limit on how far actors and learner may run ahead of each other.

        The tolerance is at least the samples of two calls, or of the present call and the
        prefetched ones if those are more. It is also at least two sends of an actor process: with
        less than a send, the learner would wait for each send and the actors for the learner after
        it.

        Args:
          in_turns: whether one process acts and learns in turns, without prefetching or sending.
        """
        calls, sent = 2, 0.0
        if not in_turns:
            calls = max(calls, 1 + self.prefetch)
            sent = self.send_batch * self.num_copies * (self.samples_per_insert or 0.0)
        call = self.batch_size * self.updates_per_call
        tolerance = max(float(calls * call), 2.0 * sent)
        return Schedule(self.min_replay_size, self.samples_per_insert, tolerance)

    def replay_learner(
        self,
        learner: Learner,
        memory: ReplayMemory,
        spec: EnvironmentSpec,
        seed: int,
        schedule: Schedule,
        prefetch: int = 0,
        loop: Loop | None = None,
    ) -> ReplayLearner:
        """Builds the loop of a learner of this agent; arguments as for `ReplayLearner`.

        Without `loop` the updates are made here.
        """
        return ReplayLearner(
            memory,
            loop or self.update_loop(learner),
            learner.steps,
            schedule,
            prefetch,
            seed,
            functools.partial(self.decode, spec=spec),
            self.removal_period,
            self.sequence_length,
        )

    def updates_in_turns(
        self, learner: Learner, memory: Memory, spec: EnvironmentSpec, seed: int
    ) -> ReplayLearner:
        """See base class."""
        return self.replay_learner(learner, memory, spec, seed, self.schedule(in_turns=True))

    @property
    def decodes(self) -> bool:
        """True if sampled steps have to be decoded, which is worth a background thread."""
        return type(self).decode is not ItemAgent.decode
