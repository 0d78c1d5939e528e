"""Rollouts: all actors' steps with the same version of the parameters, used once and dropped."""

from collections.abc import Callable, Mapping, Sequence
import math
import threading
from typing import Any, NamedTuple

import dm_env
import numpy as np
import tensorflow as tf
import tree

from common.data.data import Adder, Data, Delivery, StoredState
from common.data.rollout_config import HELD_ROLLOUTS
from common.environments.batch import FIRST
from common.replay.store import UNLIMITED, Counters, NestWire, RateLimiter, Store, equal_batch
from common.types import Batch, Nest
from common.values import multistep


class RolloutSteps(NamedTuple):
    """N steps of a rollout; all fields except the states are float32 [N].

    Attributes:
      states: columns of [N, ...].
      rewards: rewards of the steps.
      values: V of the states, from the policy that acted.
      advantages: generalised advantage estimates.
    """

    states: StoredState
    rewards: tf.Tensor | np.ndarray
    values: tf.Tensor | np.ndarray
    advantages: tf.Tensor | np.ndarray


class Rollout(NamedTuple):
    """N steps that were taken with the same version of the parameters.

    Attributes:
      version: int64 [N], the version of the parameters.
      steps: nest of [N, ...].
    """

    version: np.ndarray
    steps: Nest

    @property
    def token(self) -> tf.Tensor:
        """Empty, because the steps are no longer stored."""
        return tf.zeros([0], tf.int64)

    def batch(self) -> Batch:
        """Returns the batch for the updates."""
        return equal_batch(self.steps)


class RolloutAdder(Adder):
    """Collector of the steps of K environments; a rollout is complete once it has enough steps.

    Termination, a time limit and the end of a rollout are treated alike: V of the next state
    estimates the rewards after the step, and counts as 0 after termination. The policy is called
    again at the timestep where a rollout ends, so that the next rollout starts with newer
    parameters.

    The policy's extras "value" and "version", both [K], are V and the version of its parameters.
    Other extras are stored with the states.
    """

    on_policy = True

    def __init__(
        self, num_steps: int, discount: float, lambda_: float, unroll_length: int | None = None
    ):
        """Creates an adder without steps.

        Args:
          num_steps: steps of a rollout, over all environments.
          discount: gamma, per step.
          lambda_: lambda of generalised advantage estimation.
          unroll_length: timesteps after which an advantage estimate bootstraps from V; None
            bootstraps at the end of the rollout.
        """
        super().__init__()
        self._size = num_steps
        self._discount, self._lambda = discount, lambda_
        self._unroll_length = unroll_length
        self._begin()

    def observe(
        self, timestep: dm_env.TimeStep, extras: Mapping[str, np.ndarray]
    ) -> Sequence[Delivery]:
        """Adds the step that led to a timestep; returns the rollout if it is complete."""
        if not self._taken:
            return ()
        # No step led to a FIRST or an ABSENT row. With this reward, its TD error is 0.
        is_step = timestep.step_type > FIRST
        _, value, _ = self._taken[-1]
        reward = np.where(is_step, timestep.reward, value)
        discount = np.where(is_step, self._discount * timestep.discount, 0)
        self._followed.append((reward, discount, is_step))
        self._held += int(np.count_nonzero(is_step))
        if self._held < self._size:
            return ()
        # The last timestep may exceed the rollout by a few steps, which count as executed.
        delivery = Delivery(self._rollout(extras["value"]), self._held)
        self.num_steps += self._held
        self._begin()
        return [delivery]

    def act(
        self, timestep: dm_env.TimeStep, action: np.ndarray, extras: Mapping[str, np.ndarray]
    ) -> None:
        """Stores the states of a timestep; see base class."""
        stored = {name: extras[name] for name in extras if name not in ("value", "version")}
        state = StoredState(timestep.observation, action, stored)
        taken = state, extras["value"], extras["version"]
        self._taken.append(tree.map_structure(np.array, taken))

    def _begin(self) -> None:
        self._taken: list[tuple] = []  # states, values and versions
        self._followed: list[tuple] = []  # rewards, discounts, and whether a step led to them
        self._held = 0

    def _rollout(self, value: np.ndarray) -> Rollout:
        """Returns the rollout, given the values of its last states."""
        states, taken_values, versions = zip(*self._taken)
        rewards, discounts, is_step = map(np.array, zip(*self._followed))
        values = np.array([*taken_values, value], np.float32)
        rewards, discounts = rewards.astype(np.float32), discounts.astype(np.float32)
        length = self._unroll_length or len(rewards)
        advantages = np.concatenate(
            [
                multistep.generalized_advantage(
                    rewards[begin : begin + length],
                    values[begin : begin + length + 1],
                    discounts[begin : begin + length],
                    self._lambda,
                )
                for begin in range(0, len(rewards), length)
            ]
        )

        def rows(*timesteps: np.ndarray) -> np.ndarray:
            """Selects the steps [N, ...] of T timesteps [K, ...], in chronological order."""
            return np.array(timesteps)[is_step][: self._size]

        steps = RolloutSteps(
            tree.map_structure(rows, *states), rows(*rewards), rows(*values[:-1]), rows(*advantages)
        )
        return Rollout(rows(*versions).astype(np.int64), steps)


class RolloutStore(Store):
    """Store of the current policy's steps; a draw empties it, since the policy then changes.

    All stored steps have the same version. Steps of a version that was already drawn are dropped:
    their sender, or its replacement, has sent twice. If the store follows a version, it accepts
    only steps of that version. Otherwise steps of a new version replace the stored steps.
    """

    def __init__(self, specs: Nest, capacity: int):
        """Creates an empty store.

        Args:
          specs: columns of the steps, nest of `tf.TensorSpec` without batch dimension.
          capacity: maximum number of stored steps.
        """
        self.wire: NestWire = _wire(specs)
        self.capacity = capacity
        self._lock = threading.Lock()
        self._puts: list[list[np.ndarray]] = []
        self._held = self._inserted = self._sampled = 0
        self._version: int | None = None
        self._drawn_version: int | None = None
        self._wanted: Callable[[], int] | None = None

    def follow(self, version: Callable[[], int]) -> None:
        """Accepts only steps of the learner's `version()` from now on; see base class.

        Otherwise a learner that returned to an earlier checkpoint would receive later versions.
        """
        self._wanted = version

    def put(self, rows: Rollout) -> bool:
        """Adds a copy of the steps; returns False if they do not fit now.

        Raises:
          ValueError: a column is wrong, there are several versions, or these steps alone exceed the
            capacity.
        """
        columns = self._columns(rows)
        num_rows = len(columns[0])
        if not num_rows:
            return True
        version = int(columns[0][0])
        wanted = version if self._wanted is None else self._wanted()
        with self._lock:
            if version == self._drawn_version or version != wanted:
                self._inserted += num_rows
                return True
            if version != self._version:
                self._puts, self._held, self._version = [], 0, version
            if self._held + num_rows > self.capacity:
                return False
            self._puts.append(columns)
            self._held += num_rows
            self._inserted += num_rows
        return True

    def draw(self, num_items: int, seed: int | None = None) -> Rollout | None:
        """Returns the oldest steps and drops the others; returns None if there are too few."""
        del seed
        with self._lock:
            if self._held < num_items:
                return None
            puts, self._puts, self._held = self._puts, [], 0
            self._drawn_version = self._version
            self._sampled += num_items
        return self.wire.rows([np.concatenate(column)[:num_items] for column in zip(*puts)])

    def counters(self) -> Counters:
        """Returns the counters; dropped steps count as removed."""
        with self._lock:
            held, inserted, sampled = self._held, self._inserted, self._sampled
        return Counters(held, inserted, sampled, removed=inserted - sampled - held)

    def _columns(self, rows: Rollout) -> list[np.ndarray]:
        """Checks the columns and returns copies of them."""
        columns = self.wire.signature.checked(rows)
        version = columns[0]
        if len(version) > self.capacity:
            raise ValueError(f"{len(version)} steps exceed the store's capacity, {self.capacity}")
        if (version != version[:1]).any():
            raise ValueError(
                f"version must be the same in all rows, is {version.min()} to {version.max()}"
            )
        return [*map(np.array, columns)]


class Rollouts(Data):
    """Rollouts with a fixed number of steps; each actor process collects its share and then waits.

    The store has the columns of the states and each step's reward, value and advantage.
    """

    in_lockstep = True

    def __init__(
        self, horizon: int, discount: float, lambda_: float, unroll_length: int | None = None
    ):
        """Stores the size of a rollout and the parameters of its advantages.

        Args:
          horizon: steps of all actors in a rollout.
          discount: gamma, per step.
          lambda_: lambda of generalised advantage estimation.
          unroll_length: as in `RolloutAdder`.
        """
        self._horizon = horizon
        self._of_advantages = discount, lambda_, unroll_length

    def make_adder(self, *, share: float = 1.0, **_: Any) -> RolloutAdder:
        """Builds the adder of some actors; see base class."""
        # Rounded first, since a share such as 3 / 7 is inexact in binary.
        num_steps = math.ceil(round(share * self._horizon, 6))
        return RolloutAdder(num_steps, *self._of_advantages)

    def make_store(self, specs: Nest, seed: int, num_shards: int = 1) -> RolloutStore:
        """Builds the store, with room for actors that send twice; see base class."""
        del seed, num_shards
        return RolloutStore(_columns(specs), HELD_ROLLOUTS * self._horizon)

    def wire(self, specs: Nest) -> NestWire:
        """See base class."""
        return _wire(_columns(specs))

    def rate_limiter(self, num_samples: int, num_ahead: int | None) -> RateLimiter:
        """Returns `UNLIMITED`: actors wait for the parameters that were learnt from their steps."""
        del num_samples, num_ahead
        return UNLIMITED


def _columns(states: Nest) -> RolloutSteps:
    scalar = tf.TensorSpec([])
    return RolloutSteps(states, scalar, scalar, scalar)


def _wire(steps: Nest) -> NestWire:
    """Returns the wire of steps with the version of their parameters."""
    return NestWire(Rollout(tf.TensorSpec([], tf.int64), steps))
