"""The interface of an agent: networks, policies, columns of a stored step, and kind of data.

Roles obtain these from the agent, and the adder and the store from its `data`. `TransitionAgent` is
the base of agents that learn from n-step transitions.
"""

import abc
from collections.abc import Callable, Mapping
import functools
from typing import Any, Self

import numpy as np
import tensorflow as tf

from common.acting.policy import Policy
from common.agents.declaration import AgentDeclaration
from common.config import from_values
from common.data.data import Data
from common.data.transitions import StoredTransition
from common.environments.spec import EnvironmentSpec, q_bound
from common.learning.learner import Learner
from common.learning.trainer import Trainer
from common.learning.updates import UpdateLoop, Updates
from common.replay import png
from common.replay.store import RateLimiter, Store
from common.types import Nest

GraphPolicy = Callable[[Any, Nest], tuple[Any, Nest]]
"""(observation [K, ...], state) -> (action, state), in TensorFlow operations."""


class Agent(abc.ABC):
    """A paper's agent with a configuration.

    It provides everything in which agents differ: the networks, the columns of a stored step, and
    the kind of data, which determines the adder and the store.

    Attributes:
      declaration: the agent's declaration; the agent is built as `class(config, setting)`.
      config: the paper's dataclass of hyperparameters.
      setting: name of the configuration, for CSV files.
      data: the kind of data.
      jit_compile: whether XLA compiles the updates.
      updates_per_call: updates per graph call.
      prefetch: number of calls that the learner draws ahead from a store in another process.
      trim_period: learner steps between removals of items above the capacity, which is then a soft
        limit (Ape-X section 4.1). None if a store never holds more than its capacity.
      decodes: whether drawn steps have to be decoded, which justifies a background thread.
      publish_period: learner steps between published snapshots; actors request them less often.
      target_period: learner steps between a parameter server's snapshots of the target networks.
      batch_size: items per update.
      actor_period: timesteps between an actor's requests for new parameters.
      min_replay_size: items inserted before the first update.
      samples_per_insert: ratio that limits actors and learner; None does not limit them.
    """

    declaration: AgentDeclaration
    data: Data
    jit_compile: bool
    updates_per_call: int = 1
    prefetch: int = 1
    trim_period: int | None = None
    decodes: bool = False
    publish_period: int = 16
    target_period: int = 1

    def __init__(self, config: Any, setting: str):
        """Copies the fields that all agents' configurations have in common.

        Args:
          config: a paper's dataclass of hyperparameters.
          setting: name of the configuration, for CSV files.
        """
        self.config = config
        self.setting = setting
        self.batch_size: int = config.batch_size
        self.actor_period: int = config.actor_period
        self.min_replay_size: int = config.min_replay_size
        self.samples_per_insert: float | None = config.samples_per_insert or None

    @classmethod
    def of_run(cls, values: Mapping[str, Any]) -> Self:
        """Returns the agent of a run, given its config.json.

        Raises:
          KeyError, TypeError or ValueError: the values are not a configuration of the agent.
        """
        return cls(
            from_values(cls.declaration.settings.config_class, values["config"]), values["setting"]
        )

    @property
    def samples_per_update(self) -> int:
        """Items per update, or timesteps if the items are unrolls."""
        return self.batch_size * self.data.steps_per_item

    def q_bound(self, environment: str) -> float:
        """Returns the bound on all values; see `common.environments.spec.q_bound`."""
        return q_bound(environment, vars(self.config))

    def make_learner(self, spec: EnvironmentSpec, seed: int | None = None) -> Learner:
        """Builds the learner.

        Args:
          spec: the environment's spec.
          seed: becomes TensorFlow's global seed, from which networks are initialised; None leaves
            the global seed unchanged.
        """
        if seed is not None:
            tf.random.set_seed(seed)
        return self.build_learner(spec, seed or 0)

    @abc.abstractmethod
    def build_learner(self, spec: EnvironmentSpec, seed: int) -> Learner:
        """Builds the learner, with networks from TensorFlow's global seed.

        Args:
          spec: the environment's spec.
          seed: seed of the learner's other random draws.
        """

    @abc.abstractmethod
    def make_evaluator(self, spec: EnvironmentSpec, num_environments: int) -> Policy:
        """Builds the policy to evaluate, for a batch of environments."""

    def graph_policy(self, learner: Any, spec: EnvironmentSpec) -> GraphPolicy:
        """Returns the evaluator's policy as operations on the learner's networks, for an export.

        It is a function of observations [K, ...] and the state of `make_evaluator`'s policy; it
        returns actions and the next state. It uses no variables except `learner.actor_variables`.
        """
        raise ValueError(
            f"{type(self).__name__} does not define graph_policy, which an export needs"
        )

    @abc.abstractmethod
    def step_specs(self, spec: EnvironmentSpec) -> Nest:
        """Returns the columns of the store, each a `tf.TensorSpec` or a `columns.Bytes`."""

    @abc.abstractmethod
    def make_actor(
        self, spec: EnvironmentSpec, actors: range, num_actors: int, seed: int
    ) -> Policy:
        """Builds the exploring policy of some of the run's actors.

        Args:
          spec: the environment's spec.
          actors: indices of these actors; row k of a batch belongs to actor `actors[k]`.
          num_actors: number of actors in the whole run.
          seed: seed of the exploration.
        """

    def encode(self, observation: Nest) -> Nest:
        """Converts observations [K, ...] to the form in which they are sent and stored."""
        return observation

    def decode(self, steps: Nest, spec: EnvironmentSpec) -> Nest:
        """Reverses `encode` in drawn steps; called only if `decodes` is true.

        Args:
          steps: [B, ...], or [B, T, ...] for sequences.
          spec: the environment's spec.

        Raises:
          tf.errors.InvalidArgumentError: a step cannot be decoded.
        """
        del spec  # nothing is encoded
        return steps

    def rate_limiter(self, in_turns: bool = False) -> RateLimiter:
        """Returns the limit on how far actors and learner may run ahead of each other.

        Args:
          in_turns: whether one process acts and learns in turns, without prefetching or sending.
        """
        num_samples = self.batch_size * self.updates_per_call
        return self.data.rate_limiter(num_samples, None if in_turns else self.prefetch)

    def updates(self, learner: Any, store: Any, seed: int) -> Updates:
        """Builds the updates that this process makes in a call.

        Args:
          learner: result of `make_learner`.
          store: the store of the data, or a client of it.
          seed: seed of the draws, not negative.
        """
        del store, seed
        return UpdateLoop(learner.update, self.updates_per_call, self.batch_size, self.jit_compile)

    def make_trainer(
        self,
        learner: Learner,
        store: Store,
        spec: EnvironmentSpec,
        seed: int,
        limiter: RateLimiter,
        prefetch: int = 0,
        updates: Updates | None = None,
    ) -> Trainer:
        """Builds the learner's loop; arguments as for `Trainer`.

        If `updates` is None, the method `updates` creates them.
        """
        return Trainer(
            store,
            updates or self.updates(learner, store, seed),
            learner.steps,
            limiter,
            seed=seed,
            prefetch=prefetch,
            decode=functools.partial(self.decode, spec=spec) if self.decodes else None,
            trim_period=self.trim_period,
        )


class TransitionAgent(Agent):
    """An agent with `Transitions`, continuous or discrete actions, and a choice of torsos.

    With `config.torso` "atari", images are sent and stored as PNG files (Ape-X section 4.1). With
    other torsos, observations are stored as they are: PNG would not make MinAtar's images smaller.
    """

    def __init__(self, config: Any, setting: str):
        super().__init__(config, setting)
        self.decodes = config.torso == "atari"

    def encode(self, observation: np.ndarray) -> np.ndarray:
        """Encodes uint8 images [K, H, W, C] as PNG files, an object array [K], if `decodes`."""
        return png.encode(observation) if self.decodes else observation

    def decode(self, steps: StoredTransition, spec: EnvironmentSpec) -> StoredTransition:
        """Decodes PNG files [B] to uint8 [B, H, W, C], in both columns of observations."""
        assert spec.image_shape is not None
        return steps._replace(
            observation_tm1=png.decode(steps.observation_tm1, spec.image_shape, "observation_tm1"),
            observation_t=png.decode(steps.observation_t, spec.image_shape, "observation_t"),
        )

    def step_specs(self, spec: EnvironmentSpec) -> StoredTransition:
        """Returns the columns of an n-step transition with both observations (Ape-X appendix F)."""
        observation = tf.TensorSpec(spec.observation_shape, spec.observation_dtype)
        if self.decodes:
            assert spec.image_shape is not None
            observation = png.column(spec.image_shape)
        action = spec.action_array
        return StoredTransition(
            observation_tm1=observation,
            action_tm1=tf.TensorSpec(action.shape, action.dtype),
            n_step_reward=tf.TensorSpec([]),
            n_step_discount=tf.TensorSpec([]),
            observation_t=observation,
        )
