"""Base class of agents that learn from a replay memory."""

import abc
from collections.abc import Callable, Mapping
import functools
import math
from typing import Any

from common.acting.loop import ActingLoop
from common.acting.policy import Adder, Policy
from common.agents.agent import Agent
from common.environments.batch import EnvironmentBatch
from common.environments.spec import EnvironmentSpec
from common.learning.learner import Learner
from common.learning.replay_learner import Loop, ReplayLearner
from common.learning.update_loop import UpdateLoop
from common.learning.updates import Updates
from common.replay.distributions import Distribution
from common.replay.memory import HARD_CAPACITY, Memory
from common.replay.schedule import Schedule
from common.types import Items, Nest


class ReplayAgent(Agent):
    """An agent whose actors add to a replay from which its learner samples.

    It tells the roles everything in which such agents differ: the adder, the columns of a stored
    step, the memory's distributions, and how the outputs of updates are written back.
    Its kinds are beside it, in the other modules `common.agents.*_agent`.

    Attributes:
      jit_compile: whether XLA compiles the updates.
      updates_per_call: updates per graph call.
      prefetch: number of calls whose samples the learner draws ahead from a memory in another
        process.
      removal_period: learner steps between removals of items above the capacity, which is then a
        soft limit (Ape-X section 4.1). None if a memory never holds more than its capacity.
      reward_clip: bound on the magnitude of rewards as the adder stores them; None does not clip.
      num_copies: copies of each transition in the replay (Ape-X appendix A). Each copy is an item
        of its own and counts in `min_replay_size` and `replay_capacity`.
      publish_period: learner steps between published snapshots; actors pull far less often.
      target_period: learner steps between a parameter server's snapshots of the target networks.
      send_batch: transitions that an actor process sends at a time.
      sequence_length: T, timesteps of an item that is a sequence; 0 if an item is one step.
      discount: gamma, per step.
      batch_size: items per update.
      actor_period: timesteps between an actor's requests for new parameters.
      pull_timestep: timestep of each such period at which an actor requests them.
      replay_capacity: steps in the replay.
      min_replay_size: items inserted before the first update.
      samples_per_insert: ratio to which schedules hold actors and learner; None for no limit.
    """

    jit_compile: bool
    updates_per_call: int = 1
    prefetch: int = 1
    removal_period: int | None = None
    reward_clip: float | None = None
    num_copies: int = 1
    publish_period: int = 16
    target_period: int = 1
    send_batch: int = 1
    pull_timestep: int = 0
    sequence_length: int = 0

    def __init__(self, config: Any, setting: str):
        """Copies the fields that configurations of agents with a replay have in common.

        Args:
          config: a paper's dataclass of hyperparameters.
          setting: name of the configuration, for CSV files.
        """
        self._config = config
        self.setting = setting
        self.discount: float = config.discount
        self.batch_size: int = config.batch_size
        self.actor_period: int = config.actor_period
        self.replay_capacity: int = config.replay_capacity
        self.min_replay_size: int = config.min_replay_size
        self.samples_per_insert: float | None = config.samples_per_insert or None

    @property
    def samples_per_update(self) -> int:
        """Items per update; timesteps, where the items are unrolls."""
        return self.batch_size

    @abc.abstractmethod
    def step_specs(self, spec: EnvironmentSpec) -> Nest:
        """Returns the columns of the replay, each a `tf.TensorSpec` or a `replay.memory.Bytes`."""

    def distributions(self) -> tuple[Mapping[str, Distribution], str]:
        """Returns the memory's distributions by name and the name of the one that removes items.

        The learner samples from the one named "sample".
        """
        raise NotImplementedError(f"{type(self).__name__} makes a memory of its own")

    @abc.abstractmethod
    def make_actor(
        self, spec: EnvironmentSpec, actors: range, num_actors: int, seed: int
    ) -> Policy:
        """Builds the exploring policy of some of the run's actors.

        Args:
          spec: of the environment.
          actors: indices of these actors; row k of a batch belongs to actor `actors[k]`.
          num_actors: number of actors in the whole run.
          seed: of the exploration.
        """

    def encode(self, observation: Nest) -> Nest:
        """Converts observations [K, ...] to the form in which they are sent and stored."""
        return observation

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
    def make_adder(self, num_environments: int) -> Adder:
        """Builds the adder for a batch of environments."""

    def acting_loop(
        self,
        actor: Policy,
        environments: EnvironmentBatch,
        on_added: Callable[[Nest], None],
        on_episode: Callable[[int, float, int], None],
    ) -> ActingLoop:
        """Builds the loop of an actor of this agent; arguments as for `ActingLoop`."""
        adder = self.make_adder(environments.num_environments)
        return ActingLoop(environments, actor, adder, on_added, on_episode, self.encode)

    def insert(self, memory: Any, actor: Any, actors: range, added: Nest, incarnation: int) -> None:
        """Inserts what the adder gave into a memory in this process; arguments as for `items`."""
        memory.insert(*self.items(actor, actors, 0, added, incarnation))

    def items(self, actor: Any, actors: range, shard: int, added: Any, incarnation: int) -> Items:
        """Returns the replay items of what the adder gave, as a replay elsewhere gets them.

        Args:
          actor: the policy that acted, from `make_actor`.
          actors: index of the actor in each row of the batch of environments.
          shard: number of the replay shard that gets the items.
          added: what the adder of `make_adder` gave.
          incarnation: number that the shard assigned to this start of the actors.
        """
        raise NotImplementedError(f"{type(self).__name__} keeps its replay where it acts")

    @abc.abstractmethod
    def count_steps(self, added: Nest) -> int:
        """Returns the number of actor steps that an adder's result accounts for."""

    def make_memory(self, spec: EnvironmentSpec, seed: int, num_shards: int = 1) -> Any:
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

    def write_back(self, memory: Any, item_keys: Any, outputs: Nest) -> None:
        """Writes the outputs of updates to the memory: new priorities."""
        memory.update_priorities(item_keys, outputs)

    def update_loop(self, learner: Learner) -> Loop:
        """Builds the updates of a call that this process makes."""
        return UpdateLoop(learner.update, self.updates_per_call, self.batch_size, self.jit_compile)

    def replay_learner(
        self,
        learner: Learner,
        memory: Any,
        spec: EnvironmentSpec,
        seed: int,
        schedule: Schedule,
        prefetch: int = 0,
        loop: Loop | None = None,
    ) -> Updates:
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
            self.write_back,
            self.removal_period,
            self.sequence_length,
        )

    @property
    def decodes(self) -> bool:
        """True if sampled steps have to be decoded, which is worth a background thread."""
        return type(self).decode is not ReplayAgent.decode
