"""The newest checkpoint of a run, as a policy."""

from collections.abc import Callable, Mapping
import dataclasses
import os
import pathlib
from typing import Any

import numpy as np
import tensorflow as tf

from common import environments
from common.acting.policy import Policy, reset_rows
from common.agents.agent import Agent
from common.environments.spec import EnvironmentSpec
from common.learning.checkpoint import CheckpointError, Checkpoints
from common.networks import packing
from common.reporting.run_directory import RunDirectory, RunDirectoryError

AgentFactory = Callable[[Mapping[str, Any]], Agent]
"""Builds a paper's agent, given a run's config.json.

A reproduction's agent.py has one called `from_config`. It raises KeyError, TypeError or ValueError
if that is no configuration of the agent.
"""


@dataclasses.dataclass(frozen=True)
class TrainedRun:
    """The newest checkpoint of a run.

    Attributes:
      agent: of the run.
      environment: its name, as given to `common.environments.make`.
      spec: of the environment.
      learner_steps: updates behind the parameters.
      parameters: [P] float32, as they are published to actors.
    """

    agent: Agent
    environment: str
    spec: EnvironmentSpec
    learner_steps: int
    parameters: np.ndarray

    def make_policy(self, num_environments: int) -> Policy:
        """Returns the policy as it is evaluated, for a batch of environments."""
        policy = self.agent.make_evaluator(self.spec, num_environments)
        policy.load(self.parameters)
        return policy


class TrainedPolicy:
    """A trained policy, as it is evaluated: `policy(observation) -> action`.

    A recurrent policy keeps its state from call to call: call `reset()` where an episode begins.

    Attributes:
      environment: name of the environment that it was trained in.
      learner_steps: updates behind it.
    """

    def __init__(self, run: TrainedRun):
        self.environment = run.environment
        self.learner_steps = run.learner_steps
        image = run.spec.image_shape
        self._shape = image or (run.spec.observation_size,)
        self._dtype = np.uint8 if image else np.float32
        self._policy = run.make_policy(1)
        self._state: Any = None
        self._size = 0

    def reset(self, first: np.ndarray | None = None) -> None:
        """Forgets the recurrent state, as at the beginning of an episode.

        Args:
          first: bool [K], the rows of the batch whose episode begins; None: all.
        """
        if first is None or self._state is None:
            self._state = None
        else:
            initial = self._policy.initial_state(self._size)
            self._state = reset_rows(self._state, initial, np.asarray(first, bool))

    def __call__(self, observation: np.ndarray) -> np.ndarray:
        """Returns the action.

        Args:
          observation: of `environment`, or [K, ...] of K of them: [D], flat and in its order, or a
            uint8 image [H, W, C].

        Returns:
          [A], or [K, A], float32 in [-1, 1]; of discrete actions [], or [K], int32.

        Raises:
          ValueError: the observation has another shape, or an image is not of uint8, or K has
            changed without a `reset`.
        """
        given = np.asarray(observation)
        is_batch = given.ndim == len(self._shape) + 1
        if given.shape[int(is_batch) :] != self._shape:
            sizes = ", ".join(map(str, self._shape))
            raise ValueError(
                f"observation must be [{sizes}] or [K, {sizes}] for {self.environment}, got "
                f"{list(given.shape)}"
            )
        if self._dtype == np.uint8 and given.dtype != np.uint8:
            raise ValueError(f"an image must be of uint8, got {given.dtype}: 0 to 255, not scaled")
        batch = given.astype(self._dtype).reshape(-1, *self._shape)
        if self._state is None:
            self._state, self._size = self._policy.initial_state(len(batch)), len(batch)
        has_state = not isinstance(self._state, tuple) or self._state
        if has_state and len(batch) != self._size:
            raise ValueError(
                f"the policy was called with {self._size} observations and is called with "
                f"{len(batch)}: call reset() between"
            )
        actions, self._state, _ = self._policy(batch, self._state)
        return actions if is_batch else actions[0]


def load(directory: str | os.PathLike, make_agent: AgentFactory) -> TrainedRun:
    """Reads a run, which may be going on at this moment.

    Args:
      directory: the run's --workdir.
      make_agent: of the run's paper.

    Raises:
      RunDirectoryError: there is no run, or its config is not one of this version.
      CheckpointError: it has no checkpoint yet, or one that cannot be read.
      UnusableEnvironmentError: its environment cannot be made.
    """
    run = RunDirectory(directory)
    config = run.read_config()
    try:
        name = config["environment"]
        agent = make_agent(config)
    except (KeyError, TypeError, ValueError) as error:
        reason = f"it has no {error}" if isinstance(error, KeyError) else error
        raise RunDirectoryError(
            f"{run.config_json} is not of this version of the program: {reason}"
        ) from None
    environment = environments.make(name, seed=0, frames=agent.num_frames)
    spec = EnvironmentSpec.of(environment)
    environment.close()
    try:
        agent.require(spec)
    except ValueError as error:
        raise RunDirectoryError(f"{run.config_json} does not fit together: {error}") from None

    learner = agent.make_learner(spec, seed=0)
    if not restore_newest(run.checkpoints, {"learner": learner}):
        raise CheckpointError(
            f"{run.path} has no checkpoint yet: wait for the run's first one, or let it run longer"
        )
    parameters = packing.pack(tuple(learner.actor_variables)).numpy()
    return TrainedRun(agent, name, spec, int(learner.steps), parameters)


def restore_newest(directory: pathlib.Path, state: Mapping[str, tf.Module | tf.Variable]) -> bool:
    """Restores parts of the newest checkpoint; returns False if there is none.

    A run that goes on may remove files while they are read, but only when there are newer ones.
    """
    names = directory / "checkpoint"
    while True:
        before = names.read_bytes() if names.exists() else b""
        try:
            return Checkpoints(directory, state).restore()
        except CheckpointError:
            if not names.exists() or names.read_bytes() == before:
                raise
