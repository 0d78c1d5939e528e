"""What a reproduction gives to the shared programs: one object a paper."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from common.acting.n_step import Transitions
from common.environments.spec import EnvironmentSpec
from common.learning.update_loop import Batch, Metrics
from common.replay.distributions import Distribution
from common.replay.schedule import Schedule

Nest = Any


class Learner(Protocol):
    """Networks, targets and optimisers: a `tf.Module`, so that a checkpoint finds all of them."""

    steps: tf.Variable
    """int64 scalar, updates done."""

    actor_variables: Sequence[tf.Variable]
    """What is published to actors and evaluator, in this order."""

    def update(self, batch: Batch) -> tuple[tf.Tensor, Metrics]:
        """One learner step: new priorities [B] and metrics. Must be traceable, and jittable."""


class Actor(Protocol):
    """A policy, see `common.acting.policy.Policy`."""

    def load(self, flat: np.ndarray) -> None:
        """Takes over published parameters."""

    def __call__(self, observation: np.ndarray, state: Nest) -> tuple[np.ndarray, Nest, dict]:
        """Acts in a batch of environments."""

    def initial_state(self, num_environments: int) -> Nest:
        """The policy's recurrent state before an episode, [K, ...]; () if it has none."""

    def initial_priorities(self, transitions: Transitions) -> np.ndarray:
        """Raw priorities [M] float32, from the values buffered in the transitions' extras."""


class Agent(Protocol):
    """One paper's agent under one configuration. Those that inherit it get what has a default."""

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

    single_process: bool = False
    """Whether one process acts and learns in turns, instead of the distributed layout."""

    removal_period: int | None = None
    """Learner steps between removals; the capacity is a soft limit then (Ape-X section 4.1).

    None: a memory never holds more than its capacity.
    """

    prefetch: int = 1
    """Calls that a learner draws ahead, of a memory in another process or of what it decodes."""

    reward_clip: float | None = None
    """What rewards are clipped to, both ways, before they are summed; None: not at all."""

    num_copies: int = 1
    """How often each transition is added (Ape-X appendix A).

    Each copy is an item of its own and counts in `min_replay_size` and `replay_capacity`.
    """

    def require(self, spec: EnvironmentSpec) -> None:
        """Raises ValueError, in one line, if the agent cannot act in such an environment."""

    def encode(self, observation: Nest) -> Nest:
        """Observations [K, ...] in the form in which they are sent and stored."""
        return observation

    def decode(self, steps: Nest, spec: EnvironmentSpec) -> Nest:
        """Undoes `encode` in sampled steps [B, ...], as `Learner.update` wants them.

        Raises:
          common.replay.png.UndecodableImageError: some are not what the spec says.
        """
        del spec  # nothing is encoded
        return steps

    def step_specs(self, spec: EnvironmentSpec) -> Nest:
        """The columns of a replay step, a nest of `tf.TensorSpec`."""

    def steps(self, transitions: Transitions) -> Nest:
        """Transitions as replay steps, in the structure of `step_specs`."""

    def distributions(self) -> tuple[Mapping[str, Distribution], str]:
        """The memory's distributions, "sample" among them, and the name of the one that removes."""

    def make_learner(self, spec: EnvironmentSpec, seed: int) -> Learner:
        """Builds the learner; networks are initialised from `seed`."""

    def make_actor(self, spec: EnvironmentSpec, actors: range, num_actors: int, seed: int) -> Actor:
        """Builds the policy of some of the run's `num_actors` actors, which explores.

        Args:
          actors: their indices; row k of a batch is of actor `actors[k]`.
        """

    def make_evaluator(self, spec: EnvironmentSpec, num_environments: int) -> Actor:
        """Builds the policy that is evaluated."""


def schedule_for(agent: Agent) -> Schedule:
    """The schedule of an agent: how far actors and learner may run ahead of each other.

    As far as two updates' calls, or all that the learner holds: the call that it learns from and
    those that it draws ahead. And as two sends of an actor process: a band narrower than a send
    would have the learner wait for each of them, and the actors for the learner after it. A process
    that acts and learns in turns neither draws ahead nor sends.
    """
    call = agent.batch_size * agent.updates_per_call
    calls, sent = 2, 0.0
    if not agent.single_process:
        calls = max(calls, 1 + agent.prefetch)
        sent = agent.send_batch * agent.num_copies * (agent.samples_per_insert or 0.0)
    tolerance = max(float(calls * call), 2.0 * sent)
    return Schedule(agent.min_replay_size, agent.samples_per_insert, tolerance)
