"""Batches of environments that step together.

`WatchedBatch` checks what a role's environments return, and names the environment that hangs,
returns NaN or breaks its spec.
"""

from collections.abc import Callable, Sequence
import numbers
from typing import Any, Protocol

import dm_env
import numpy as np
import tree

from common.environments import watch
from common.environments.spec import (
    BrokenSpecError,
    NotFiniteError,
    UnusableEnvironmentError,
    kind_of,
)

FIRST, MID, LAST = map(int, dm_env.StepType)
"""The values of `dm_env.StepType` as integers, for arrays of step types."""
ABSENT = -1
"""Step type of a row whose environment was lost with another process."""


class EnvironmentBatch(Protocol):
    """K environments of one kind that step together.

    A batched `dm_env.TimeStep` has step_type int32 [K], reward float32 [K], discount float32 [K]
    and an observation nest of [K, ...] in the dtypes of the spec. At FIRST the reward is 0 and the
    discount 1. Every array is new at each call, so callers may keep it without a copy.

    Each environment follows dm_env independently: the step after its LAST resets it, returns FIRST
    and ignores its row of the actions. So the last observation of each episode is always returned.

    If other processes step the environments, any timestep may be followed by `ABSENT`: the process
    and the current episode are lost. Such a row has reward 0, discount 1 and an observation of
    zeros. Its action is ignored, and the next timestep is ABSENT again or FIRST.
    """

    @property
    def num_environments(self) -> int:
        """The number of environments, K."""

    def observation_spec(self) -> Any:
        """Returns the observation spec of one environment, without the batch dimension."""

    def action_spec(self) -> Any:
        """Returns the action spec of one environment, without the batch dimension."""

    def reset(self) -> dm_env.TimeStep:
        """Starts an episode in each environment."""

    def step(self, actions: np.ndarray) -> dm_env.TimeStep:
        """Takes one row of `actions`, [K, ...], in each environment.

        Raises:
          ValueError: the number of rows is not K.
        """

    def close(self) -> None:
        """Frees the environments' resources."""


def batched_timestep(
    starts: np.ndarray,
    ends: np.ndarray,
    reward: np.ndarray,
    discount: np.ndarray,
    observation: np.ndarray,
) -> dm_env.TimeStep:
    """Returns the timestep of a batch.

    Args:
      starts: bool [K], True for FIRST steps.
      ends: bool [K], True for LAST steps unless they are FIRST.
      reward: rewards [K], replaced by 0 at FIRST.
      discount: discounts [K], replaced by 1 at FIRST.
      observation: observations [K, ...].
    """
    step_type = np.where(starts, FIRST, np.where(ends, LAST, MID))
    return dm_env.TimeStep(
        step_type.astype(np.int32),
        np.where(starts, 0, reward).astype(np.float32),
        np.where(starts, 1, discount).astype(np.float32),
        observation,
    )


class BatchedEnvironment:
    """An `EnvironmentBatch` of any environments, which it steps in turn."""

    def __init__(self, environments: Sequence[dm_env.Environment]):
        """Batches environments of equal specs.

        Raises:
          ValueError: there are no environments.
          BrokenSpecError: their observations or actions differ in shape or dtype.
        """
        self._environments = list(environments)
        if not self._environments:
            raise ValueError("BatchedEnvironment needs at least one environment")
        first = self._environments[0]
        self._observation_spec = first.observation_spec()
        self._action_spec = first.action_spec()
        self._ended = np.ones(len(self._environments), bool)
        self._leaves = [
            (tuple(spec.shape), np.dtype(spec.dtype))
            for spec in tree.flatten(self._observation_spec)
        ]
        for kind in ("observation", "action"):
            require_equal(
                [getattr(environment, f"{kind}_spec")() for environment in self._environments], kind
            )

    @property
    def num_environments(self) -> int:
        """The number of environments, K."""
        return len(self._environments)

    def observation_spec(self) -> Any:
        """Returns the spec of one environment, without the batch dimension."""
        return self._observation_spec

    def action_spec(self) -> Any:
        """Returns the spec of one environment, without the batch dimension."""
        return self._action_spec

    def reset(self) -> dm_env.TimeStep:
        """Starts an episode in each environment."""
        self._ended = np.ones(self.num_environments, bool)
        return self._stack([environment.reset() for environment in watch.each(self._environments)])

    def step(self, actions: np.ndarray) -> dm_env.TimeStep:
        """Takes one row of `actions`, [K, ...], in each environment.

        Raises:
          ValueError: the number of rows is not K.
          BrokenSpecError: a reward or a discount is not a number, an observation does not match its
            spec, or FIRST steps do not follow exactly the LAST ones.
        """
        if len(actions) != self.num_environments:
            raise ValueError(f"got {len(actions)} actions for {self.num_environments} environments")
        return self._stack(
            [
                environment.step(action)
                for environment, action in zip(
                    watch.each(self._environments), self._mapped(actions)
                )
            ]
        )

    def close(self) -> None:
        """Closes each environment."""
        for environment in watch.each(self._environments):
            environment.close()

    def _mapped(self, actions: np.ndarray) -> np.ndarray:
        """Returns the actions in the form that the environments take, [K, ...]."""
        return actions

    def _stack(self, timesteps: list[dm_env.TimeStep]) -> dm_env.TimeStep:
        k = len(timesteps)
        step_type = np.array([timestep.step_type for timestep in timesteps], np.int32)
        begun = step_type == FIRST
        if begun.tobytes() != self._ended.tobytes():  # this is quicker than NumPy's comparison
            raise self._out_of_turn(int(np.flatnonzero(begun != self._ended)[0]), step_type)
        self._ended = step_type == LAST
        reward = np.zeros(k, np.float32)
        discount = np.ones(k, np.float32)
        for i, timestep in enumerate(timesteps):
            if timestep.step_type == FIRST:
                continue
            try:
                if timestep.reward is None or timestep.discount is None:
                    raise ValueError  # NumPy would convert None to NaN
                reward[i] = timestep.reward
                discount[i] = timestep.discount
            except (TypeError, ValueError):
                raise self._misfit(i, timestep) from None
        return dm_env.TimeStep(step_type, reward, discount, self._observations(timesteps))

    def _observations(self, timesteps: Sequence[dm_env.TimeStep]) -> Any:
        """Returns the observations as a nest of [K, ...].

        Raises:
          BrokenSpecError: an observation does not match its spec.
        """
        leaves = [np.empty((len(timesteps), *shape), dtype) for shape, dtype in self._leaves]
        for i, timestep in enumerate(timesteps):
            try:
                rows = tree.flatten(timestep.observation)
                for leaf, (shape, dtype), row in zip(leaves, self._leaves, rows, strict=True):
                    if row.shape != shape or row.dtype != dtype:
                        raise ValueError  # NumPy would broadcast and cast
                    leaf[i] = row
            except (AttributeError, TypeError, ValueError):
                raise self._misfit(i, timestep) from None
        return tree.unflatten_as(self._observation_spec, leaves)

    def _out_of_turn(self, index: int, step_types: np.ndarray) -> BrokenSpecError:
        """Returns the error for a step whose type is out of order in its episode."""
        gave = dm_env.StepType(step_types[index]).name
        if self._ended[index]:
            return BrokenSpecError(
                f"environment {index} returned a {gave} step instead of FIRST: the step after LAST "
                "must start the next episode, as reset() does"
            )
        return BrokenSpecError(
            f"environment {index} returned a FIRST step before the episode's LAST step"
        )

    def _misfit(self, index: int, timestep: dm_env.TimeStep) -> BrokenSpecError:
        """Returns the error that names the invalid part of a timestep."""
        for name, value in (("reward", timestep.reward), ("discount", timestep.discount)):
            if not isinstance(value, numbers.Real) and getattr(value, "shape", None) != ():
                what = f"a {name} of {kind_of(value)} instead of a number"
                break
        else:
            gave, says = (
                ", ".join(kind_of(array) for array in tree.flatten(nest))
                for nest in (timestep.observation, self._observation_spec)
            )
            what = f"an observation of {gave}, but its spec says {says}"
        return BrokenSpecError(f"environment {index} returned {what}")


class SingleEnvironment(dm_env.Environment):
    """A batch of one environment, without the batch dimension."""

    def __init__(self, batch: EnvironmentBatch):
        """Wraps a batch of one environment, which `close` closes."""
        self._batch = batch

    def reset(self) -> dm_env.TimeStep:
        """Starts an episode."""
        return self._single(self._batch.reset())

    def step(self, action: Any) -> dm_env.TimeStep:
        """Takes `action`; after a LAST step, ignores it and starts an episode."""
        return self._single(self._batch.step(np.asarray(action)[np.newaxis]))

    def observation_spec(self) -> Any:
        """Returns the batch's spec."""
        return self._batch.observation_spec()

    def action_spec(self) -> Any:
        """Returns the batch's spec."""
        return self._batch.action_spec()

    def close(self) -> None:
        """Closes the batch."""
        self._batch.close()

    def _single(self, batched: dm_env.TimeStep) -> dm_env.TimeStep:
        observation = batched.observation[0]
        step_type = dm_env.StepType(int(batched.step_type[0]))
        if step_type == FIRST:
            return dm_env.restart(observation)
        return dm_env.TimeStep(
            step_type, float(batched.reward[0]), float(batched.discount[0]), observation
        )


def require_equal(environment_specs: Sequence[Any], kind: str) -> None:
    """Raises BrokenSpecError unless all specs have the same structure, shapes and dtypes.

    Args:
      environment_specs: a nest of specs for each environment.
      kind: "observation" or "action", for the message.
    """
    expected, *others = (
        tree.map_structure(lambda leaf: (leaf.shape, np.dtype(leaf.dtype).name), spec)
        for spec in environment_specs
    )
    for index, actual in enumerate(others, 1):
        if actual != expected:
            raise BrokenSpecError(
                f"environment {index} has a different {kind} spec from environment 0: "
                f"{actual}, not {expected}; the environments of a batch need equal specs"
            )


_LARGEST_REWARD = 1e30
"""Maximum size of a reward; a sum of larger rewards may overflow float32."""


class WatchedBatch:
    """A wrapper of an `EnvironmentBatch` that checks its timesteps and the time of its calls.

    Args:
      environments: the batch to watch.
      name: name of the environment, for messages.
      on_stall: called once, with a message, from another thread, if a call of an environment takes
        too long.
      seconds: limit on the time of a call of an environment; None: `watch.limit_seconds`.
    """

    def __init__(
        self,
        environments: EnvironmentBatch,
        name: str,
        on_stall: Callable[[str], None] = watch.end_process,
        seconds: float | None = None,
    ):
        self._environments = environments
        self._name = name
        self._ones = np.ones(environments.num_environments, np.float32).tobytes()
        self._timestep = 0
        self._resetting, self._stepping, self._closing = (
            watch.Call(name, doing, on_stall, seconds, self._where)
            for doing in ("a reset", "a step", "close()")
        )

    @property
    def num_environments(self) -> int:
        """The number of environments, K."""
        return self._environments.num_environments

    def observation_spec(self) -> Any:
        """Returns the observation spec of one environment, without the batch dimension."""
        return self._environments.observation_spec()

    def action_spec(self) -> Any:
        """Returns the action spec of one environment, without the batch dimension."""
        return self._environments.action_spec()

    def reset(self) -> dm_env.TimeStep:
        """Starts an episode in each environment."""
        return self._checked(self._resetting, self._environments.reset)

    def step(self, actions: np.ndarray) -> dm_env.TimeStep:
        """Takes one row of `actions`, [K, ...], in each environment.

        Raises:
          UnusableEnvironmentError: a reward, a discount or an observation is not finite, or a
            reward is beyond 1e30.
          BrokenSpecError: a timestep does not match the specs, or a discount is not in [0, 1].
        """
        return self._checked(self._stepping, self._environments.step, actions)

    def close(self) -> None:
        """Frees the environments."""
        with self._closing:
            self._environments.close()

    def _checked(
        self, call: watch.Call, function: Callable[..., dm_env.TimeStep], *args
    ) -> dm_env.TimeStep:
        try:
            with call:
                timestep = function(*args)
        except (BrokenSpecError, NotFiniteError) as error:
            raise type(error)(
                f"{self._name}: {error}, at timestep {self._timestep + 1} of this process: correct "
                "the environment"
            ) from None
        self._timestep += 1
        largest = np.abs(timestep.reward).max()
        if not largest <= _LARGEST_REWARD:
            self._check("a reward", timestep.reward)
            index = int(np.argmax(np.abs(timestep.reward)))
            what = f"a reward of size {largest:g}, above the limit of {_LARGEST_REWARD:g}"
            raise UnusableEnvironmentError(self._complaint(what, index))
        if timestep.discount.tobytes() != self._ones:  # this is quicker than NumPy's comparison
            self._check_discount(timestep.discount)
        for array in tree.flatten(timestep.observation):
            if array.dtype.kind == "f":
                self._check("an observation", array)
        return timestep

    def _check(self, what: str, array: np.ndarray) -> None:
        if np.isfinite(array).all():
            return
        is_finite = np.isfinite(array.reshape(len(array), -1)).all(axis=1)
        index = int(np.flatnonzero(~is_finite)[0])
        raise UnusableEnvironmentError(self._complaint(f"{what} that is not finite", index))

    def _check_discount(self, discount: np.ndarray) -> None:
        self._check("a discount", discount)
        for index in np.flatnonzero((discount < 0.0) | (discount > 1.0)):
            what = f"a discount of {discount[index]:g}, which is not in [0, 1]"
            raise BrokenSpecError(self._complaint(what, int(index)))

    def _complaint(self, what: str, index: int) -> str:
        return (
            f"{self._name} returned {what}, in environment {index} of this process at timestep "
            f"{self._timestep}: correct the environment"
        )

    def _where(self) -> str:
        return f", at timestep {self._timestep} of this process"
