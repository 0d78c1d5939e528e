"""What a reproduction gives to the shared programs: one object a paper."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import dm_env
import numpy as np
import tensorflow as tf

from common.acting.n_step import Transitions
from common.learning.update_loop import Batch, Metrics
from common.replay.distributions import Distribution
from common.replay.schedule import Schedule

Nest = Any


class EnvironmentSpec(NamedTuple):
    """Sizes of an environment's flat observation and canonical action."""

    observation_size: int
    action_size: int

    @classmethod
    def of(cls, environment: dm_env.Environment) -> "EnvironmentSpec":
        """The spec of an environment, or of a batch of them: theirs is that of one."""
        return cls(
            int(np.prod(environment.observation_spec().shape)),
            int(np.prod(environment.action_spec().shape)),
        )


class Learner(Protocol):
    """Networks, targets and optimisers: a `tf.Module`, so that a checkpoint finds all of them."""

    steps: tf.Variable
    """int64 scalar, updates done."""

    actor_variables: Sequence[tf.Variable]
    """What is published to actors and evaluator, in this order."""

    def update(self, batch: Batch) -> tuple[tf.Tensor, Metrics]:
        """One learner step: new priorities [B] and metrics. Must be traceable, and jittable."""


class Actor(Protocol):
    """A policy on NumPy twins, see `common.acting.policy.Policy`."""

    def load(self, flat: np.ndarray) -> None:
        """Takes over published parameters."""

    def __call__(self, observation: np.ndarray, state: Nest) -> tuple[np.ndarray, Nest, dict]:
        """Acts in a batch of environments."""

    def initial_state(self, num_environments: int) -> Nest:
        """The policy's recurrent state before an episode, [K, ...]; () if it has none."""

    def initial_priorities(self, transitions: Transitions) -> np.ndarray:
        """Raw priorities [M] float32, from the values buffered in the transitions' extras."""


class Agent(Protocol):
    """One paper's agent under one configuration."""

    name: str
    """Of the paper's directory."""

    setting: str
    """Which of the paper's variants this is, for the CSV files."""

    metrics: Sequence[str]
    """Names of what `Learner.update` reports."""

    n_step: int
    discount: float
    batch_size: int
    updates_per_call: int
    jit_compile: bool
    actor_period: int
    send_batch: int
    replay_capacity: int
    min_replay_size: int
    samples_per_insert: float | None

    single_process: bool
    """Whether one process acts and learns in turns, instead of the distributed layout."""

    def step_specs(self, spec: EnvironmentSpec) -> Nest:
        """The columns of a replay step, a nest of `tf.TensorSpec`."""

    def steps(self, transitions: Transitions) -> Nest:
        """Transitions as replay steps, in the structure of `step_specs`."""

    def distributions(self) -> tuple[Mapping[str, Distribution], str]:
        """The memory's distributions, "sample" among them, and the name of the one that removes."""

    def make_learner(self, spec: EnvironmentSpec, seed: int) -> Learner:
        """Builds the learner; networks are initialised from `seed`."""

    def make_actor(self, spec: EnvironmentSpec, num_environments: int, seed: int) -> Actor:
        """Builds a policy that explores."""

    def make_evaluator(self, spec: EnvironmentSpec, num_environments: int) -> Actor:
        """Builds the policy that is evaluated."""


def schedule_for(agent: Agent) -> Schedule:
    """The schedule of an agent: both sides may run ahead by two calls of the learner."""
    call = agent.batch_size * agent.updates_per_call
    return Schedule(agent.min_replay_size, agent.samples_per_insert, tolerance=2.0 * call)
