"""Contract of a paper's agent, which learns from a replay memory."""

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from common.acting.loop import ActingLoop
from common.acting.policy import Adder, Policy
from common.config import Settings, from_values
from common.environments.batch import EnvironmentBatch
from common.environments.spec import EnvironmentSpec
from common.learning.learner import Learner
from common.learning.update_loop import UpdateLoop
from common.learning.updates import Updates
from common.types import Nest


class Agent(abc.ABC):
    """A paper's agent with a configuration, whose actors add to what its learner samples from.

    It tells the roles in what agents differ: the networks, the adder, the columns of a stored step,
    the memory, and the updates from it. Its kinds are beside it, in the other modules
    `common.agents.*_agent`.

    Attributes:
      paper: name of the paper's directory.
      settings: of the paper; an agent is built as `class(config, setting)` of one of them.
      setting: name of the configuration, for CSV files.
      metrics: names of the metrics that the learner's updates report.
      num_frames: images stacked in an observation; None if observations are not stacked images.
      jit_compile: whether XLA compiles the updates.
      updates_per_call: updates per graph call.
      num_copies: items that the replay gets for an actor step.
      publish_period: learner steps between published snapshots; actors pull far less often.
      pull_timestep: timestep of each `actor_period` at which an actor requests new parameters.
      discount: gamma, per step.
      batch_size: items per update.
      actor_period: timesteps between an actor's requests for new parameters.
      replay_capacity: steps in the replay.
      min_replay_size: items inserted before the first update.
      samples_per_insert: ratio to which schedules hold actors and learner; None for no limit.
    """

    paper: str
    settings: Settings
    metrics: Sequence[str]
    num_frames: int | None = None
    jit_compile: bool
    updates_per_call: int = 1
    num_copies: int = 1
    publish_period: int = 16
    pull_timestep: int = 0

    def __init__(self, config: Any, setting: str):
        """Copies the fields that all agents' configurations have in common.

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

    @classmethod
    def with_fields(cls, **fields: Any) -> Self:
        """Returns the agent of the default configuration but for these fields."""
        return cls(cls.settings.config_class(**fields), cls.settings.default)

    @classmethod
    def of_run(cls, values: Mapping[str, Any]) -> Self:
        """Returns the agent of a run, given its config.json.

        Raises:
          KeyError, TypeError or ValueError: that is no configuration of the agent.
        """
        return cls(from_values(cls.settings.config_class, values["config"]), values["setting"])

    @property
    def samples_per_update(self) -> int:
        """Items per update; timesteps, where the items are unrolls."""
        return self.batch_size

    @abc.abstractmethod
    def require(self, spec: EnvironmentSpec) -> None:
        """Raises ValueError, with a message of one line, if the agent cannot act in `spec`."""

    @abc.abstractmethod
    def make_learner(self, spec: EnvironmentSpec, seed: int) -> Learner:
        """Builds the learner and initialises its networks from `seed`."""

    @abc.abstractmethod
    def make_evaluator(self, spec: EnvironmentSpec, num_environments: int) -> Policy:
        """Builds the policy to evaluate, for a batch of environments."""

    @abc.abstractmethod
    def step_specs(self, spec: EnvironmentSpec) -> Nest:
        """Returns the columns of the replay, each a `tf.TensorSpec` or a `replay.memory.Bytes`."""

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

    @abc.abstractmethod
    def count_steps(self, added: Nest) -> int:
        """Returns the number of actor steps that an adder's result accounts for."""

    @abc.abstractmethod
    def make_memory(self, spec: EnvironmentSpec, seed: int) -> Any:
        """Builds the memory of a process that acts and learns."""

    @abc.abstractmethod
    def insert(self, memory: Any, actor: Any, actors: range, added: Nest, incarnation: int) -> None:
        """Inserts what the adder gave into the memory of this process.

        Args:
          memory: from `make_memory`.
          actor: the policy that acted, from `make_actor`.
          actors: index of the actor in each row of the batch of environments.
          added: what the adder of `make_adder` gave.
          incarnation: number of this start of the actors.
        """

    @abc.abstractmethod
    def updates_in_turns(
        self, learner: Learner, memory: Any, spec: EnvironmentSpec, seed: int
    ) -> Updates:
        """Builds the updates of a process that acts and learns in turns.

        Args:
          learner: from `make_learner`.
          memory: from `make_memory`.
          spec: of the environment.
          seed: of the draws, not negative.
        """

    def update_loop(self, learner: Learner) -> UpdateLoop:
        """Builds the updates of a call that this process makes."""
        return UpdateLoop(learner.update, self.updates_per_call, self.batch_size, self.jit_compile)
