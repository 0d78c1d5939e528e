"""Policies from the newest checkpoint of a run, or from its best evaluation."""

from collections.abc import Mapping
import dataclasses
import os
import pathlib
from typing import Any

import numpy as np
import tensorflow as tf
import tree

from common import environments
from common.acting.policy import Policy, reset_rows
from common.agents.agent import Agent
from common.environments import user_code
from common.environments.canonical import CanonicalEnvironment
from common.environments.spec import EnvironmentSpec
from common.learning import checkpoint as checkpoint_lib
from common.learning.checkpoint import CheckpointError, Checkpoints
from common.networks import packing
from common.reporting.run_directory import CHECKPOINT_NAMES, RunDirectory, RunDirectoryError


@dataclasses.dataclass(frozen=True)
class TrainedRun:
    """A run's agent with its learnt parameters.

    Attributes:
      agent: the paper's agent.
      environment: name of the environment; see `common.environments.make`.
      spec: the environment's spec.
      learner_steps: number of updates behind the parameters.
      parameters: [P] float32, in the order in which they are published to actors.
      canonical: maps observations and actions of the user's environment, which is closed; None if
        the agent takes them as they are.
    """

    agent: Agent
    environment: str
    spec: EnvironmentSpec
    learner_steps: int
    parameters: np.ndarray
    canonical: CanonicalEnvironment | None = None

    def make_policy(self, num_environments: int) -> Policy:
        """Returns the evaluator's policy for a batch of environments, with these parameters."""
        policy = self.agent.make_evaluator(self.spec, num_environments)
        policy.load(self.parameters)
        return policy


class TrainedPolicy:
    """A trained policy without exploration.

    `policy.act(observation)` takes observations and returns actions in the environment's own form.
    `policy(observation)` uses the form of `common.environments.make`, and also takes a batch. A
    recurrent policy keeps its state between calls: call `reset()` at the beginning of an episode.
    If its state depends on rewards as well, call `policy(observation, reward)` after each step.

    Attributes:
      environment: name of the environment in which it was trained.
      learner_steps: number of updates behind its parameters.
    """

    def __init__(self, run: TrainedRun):
        self._run = run
        self.environment = run.environment
        self.learner_steps = run.learner_steps
        self._shape = run.spec.observation_shape
        self._dtype = run.spec.observation_dtype
        self._canonical = run.canonical
        self._policy = run.make_policy(1)
        self._state: Any = None
        self._size = 0

    def export(self, directory: str | os.PathLike) -> None:
        """Writes a SavedModel and other files to a new directory; see `common.agents.exported`."""
        from common.agents import exported

        exported.write(pathlib.Path(directory), self._run)

    def reset(self, first: np.ndarray | None = None) -> None:
        """Resets the recurrent state.

        Args:
          first: bool [K], True in the rows in which an episode begins; None resets all rows.
        """
        if first is None or self._state is None:
            self._state = None
        else:
            initial = self._policy.initial_state(self._size)
            self._state = reset_rows(self._state, initial, np.asarray(first, bool))

    def act(self, observation: Any, reward: float | None = None) -> Any:
        """Returns the action in the units, dtype and shape of the environment itself.

        Args:
          observation: a single observation as the user's environment returns it, possibly a
            dictionary, a tuple or an integer.
          reward: as for `__call__`.

        Raises:
          ValueError: as for `__call__`.
        """
        if self._canonical is None:
            return self(observation, reward)
        return self._canonical.own_action(self(self._canonical.observation_of(observation), reward))

    def __call__(
        self, observation: np.ndarray | Mapping[str, Any], reward: float | np.ndarray | None = None
    ) -> np.ndarray:
        """Returns the action.

        Args:
          observation: an observation of `environment`, or a batch of K: flat, [D] or [K, D], in the
            order of the environment's spec; or uint8 images, [H, W, C] or [K, H, W, C]. A
            dictionary of arrays, as dm_control returns it, is a single flat observation.
          reward: reward of the step that led to the observation, [] or [K]; 0 where an episode
            begins. Only a policy with `sees_rewards` needs it, except for its first call after
            `reset`.

        Returns:
          Continuous actions: float32 [A] or [K, A], in [-1, 1]. Discrete actions: int32 [] or [K].

        Raises:
          ValueError: the observation has another shape or other entries, an image is not uint8, a
            recurrent policy is given another K without a `reset`, or a policy that needs rewards
            is given none.
        """
        if isinstance(observation, Mapping) and self._canonical:
            observation = self._canonical.observation_of(observation)
        given = np.asarray(observation)
        is_batch = given.ndim == len(self._shape) + 1
        if given.shape[int(is_batch) :] != self._shape:
            sizes = ", ".join(map(str, self._shape))
            raise ValueError(
                f"observation must be [{sizes}] or [K, {sizes}] for {self.environment}, got "
                f"{list(given.shape)}"
            )
        if self._dtype == np.uint8 and given.dtype != np.uint8:
            raise ValueError(
                f"an image must be uint8, got {given.dtype}: pass values from 0 to 255, not scaled"
            )
        batch = given.astype(self._dtype).reshape(-1, *self._shape)
        if self._policy.sees_rewards and self._state is not None and reward is None:
            raise ValueError(
                "this policy needs rewards: call policy(observation, reward) with the reward of "
                "the previous step, or reset() at the start of an episode"
            )
        if self._state is None:
            self._state, self._size = self._policy.initial_state(len(batch)), len(batch)
        if tree.flatten(self._state) and len(batch) != self._size:
            raise ValueError(
                f"the policy was called with {self._size} observations before and with "
                f"{len(batch)} now: call reset() in between"
            )
        if reward is not None:
            rewards = np.broadcast_to(np.asarray(reward, np.float32), len(batch))
            self._state = self._policy.with_reward(self._state, rewards)
        actions, self._state, _ = self._policy(batch, self._state)
        return actions if is_batch else actions[0]


def load(
    directory: str | os.PathLike,
    agent_class: type[Agent],
    checkpoint: str | None = None,
    trust_environment: bool = False,
) -> TrainedRun:
    """Loads a run, which may still be in progress.

    Args:
      directory: the run's --workdir.
      agent_class: class of the run's agent.
      checkpoint: "newest", "best" for the parameters of the best evaluation, or "step_N" for a kept
        checkpoint. None loads the newest, or the best if there is no checkpoint, as for a policy
        stored without its run.
      trust_environment: whether to trust a user's module ("python:MODULE:FUNCTION") without a
        check; otherwise `user_code.require_trusted` decides.

    Raises:
      RunDirectoryError: there is no run, or another version wrote its configuration.
      JsonError: config.json is malformed.
      CheckpointError: the run has no checkpoint yet, or its checkpoint is unreadable.
      UnusableEnvironmentError: the environment cannot be created, or is not trusted.
      ValueError: `checkpoint` has another value.
    """
    if checkpoint is not None and not CHECKPOINT_NAMES.fullmatch(checkpoint):
        raise ValueError(f'checkpoint must be "newest", "best" or "step_N", is {checkpoint!r}')
    run = RunDirectory(directory)
    config = run.read_config()
    try:
        name = config["environment"]
        agent = agent_class.of_run(config)
    except (KeyError, TypeError, ValueError) as error:
        reason = f"it has no {error}" if isinstance(error, KeyError) else error
        raise RunDirectoryError(
            f"{run.config_json} was not written by this version of the program: {reason}"
        ) from None
    if not trust_environment:
        user_code.require_trusted(name, run.path)
    with environments.opened(name, seed=0, frames=agent.declaration.num_frames) as environment:
        spec = EnvironmentSpec.of(environment)
    try:
        agent.declaration.require_spec(agent.config, spec)
    except ValueError as error:
        raise RunDirectoryError(
            f"{run.config_json} has an agent that cannot act in its environment: {error}"
        ) from None

    learner = agent.make_learner(spec)
    canonical = environment if isinstance(environment, CanonicalEnvironment) else None
    kept = None if checkpoint in (None, "newest", "best") else run.checkpoints / checkpoint
    if checkpoint != "best" and restore_newest(kept or run.checkpoints, {"learner": learner}):
        parameters = packing.to_numpy(learner.actor_variables)
        return TrainedRun(agent, name, spec, int(learner.steps), parameters, canonical)
    if kept:
        raise CheckpointError(f"{run.path} has no checkpoint {checkpoint}: {run.kept_in_words}")
    best = None
    if checkpoint != "newest":
        best = checkpoint_lib.read_policy(run.best_policy, learner.num_parameters)
    if best is not None:
        return TrainedRun(agent, name, spec, best.learner_steps, best.parameters, canonical)
    if checkpoint == "best":
        raise CheckpointError(f"{run.path} has no saved best policy yet: wait for an evaluation")
    raise CheckpointError(
        f"{run.path} has no checkpoint yet: wait for the first one, or train longer"
    )


def restore_newest(directory: pathlib.Path, state: Mapping[str, tf.Module | tf.Variable]) -> bool:
    """Restores parts of the newest checkpoint of a run, which may still be in progress.

    Such a run may remove files while they are read, but only after it has written newer files,
    which are then read instead.

    Args:
      directory: the directory of the checkpoints.
      state: modules and variables by name.

    Returns:
      False if there is no checkpoint.

    Raises:
      CheckpointError: see `Checkpoints.restore`.
    """
    names = directory / "checkpoint"
    while True:
        before = names.read_bytes() if names.exists() else b""
        try:
            return Checkpoints(directory, state).restore()
        except CheckpointError:
            if not names.exists() or names.read_bytes() == before:
                raise
