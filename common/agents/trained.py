"""What a run has learnt: its newest checkpoint as a policy."""

from collections.abc import Callable, Mapping
import dataclasses
import os
import pathlib
from typing import Any

import numpy as np
import tensorflow as tf

from common import environments
from common.agents.agent import Actor, Agent, EnvironmentSpec
from common.config import from_values
from common.learning.checkpoint import CheckpointError, Checkpoints
from common.networks import packing
from common.reporting.run_directory import RunDirectory, RunDirectoryError

AgentFactory = Callable[[Mapping[str, Any]], Agent]
"""Builds a paper's agent from the "config" of a run's config.json.

A reproduction's agent.py has one called `from_config`. It raises ValueError on what cannot be.
"""

configuration = from_values


@dataclasses.dataclass(frozen=True)
class TrainedRun:
    """The newest checkpoint of a run.

    environment: its name, as given to `common.environments.make`.
    learner_steps: updates behind the parameters.
    parameters: [P] float32, as they are published to actors.
    """

    agent: Agent
    environment: str
    spec: EnvironmentSpec
    learner_steps: int
    parameters: np.ndarray

    def make_policy(self, num_environments: int) -> Actor:
        """The policy as it is evaluated, for a batch of environments."""
        policy = self.agent.make_evaluator(self.spec, num_environments)
        policy.load(self.parameters)
        return policy


class TrainedPolicy:
    """A trained policy, as it is evaluated, as a function: `policy(observation) -> action`.

    Attributes:
      environment: the name of the one it was trained in.
      learner_steps: updates behind it.
    """

    def __init__(self, run: TrainedRun):
        self.environment = run.environment
        self.learner_steps = run.learner_steps
        image = run.spec.image_shape
        self._shape = image or (run.spec.observation_size,)
        self._dtype = np.uint8 if image else np.float32
        self._policy = run.make_policy(1)

    def __call__(self, observation: np.ndarray) -> np.ndarray:
        """Returns the action.

        Args:
          observation: of `environment`, or [K, ...] of K of them: [D], flat and in its order, or a
            uint8 image [H, W, C].

        Returns:
          [A], or [K, A], float32 in [-1, 1]; of discrete actions [], or [K], int32.

        Raises:
          ValueError: the observation has another shape, or an image is not of uint8.
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
        actions, _, _ = self._policy(batch, self._policy.initial_state(len(batch)))
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
        agent = make_agent(config["config"])
    except KeyError as error:
        raise RunDirectoryError(f"{run.config_json} has no {error}: is it of a run?") from None
    except (TypeError, ValueError) as error:
        raise RunDirectoryError(f"{run.config_json} is not of this version: {error}") from None
    environment = environments.make(name, seed=0)
    spec = EnvironmentSpec.of(environment)
    environment.close()
    try:
        agent.require(spec)
    except ValueError as error:
        raise RunDirectoryError(f"{run.config_json} does not fit together: {error}") from None

    learner = agent.make_learner(spec, seed=0)
    if not _restore_newest(run.checkpoints, learner):
        raise CheckpointError(
            f"{run.path} has no checkpoint yet: wait for the run's first one, or let it run longer"
        )
    parameters = packing.pack(tuple(learner.actor_variables)).numpy()
    return TrainedRun(agent, name, spec, int(learner.steps), parameters)


def _restore_newest(directory: pathlib.Path, learner: tf.Module) -> bool:
    """Restores the learner's part of the newest checkpoint; False if there is none.

    A run that goes on may remove files while they are read, but only when there are newer ones.
    """
    names = directory / "checkpoint"
    while True:
        before = names.read_bytes() if names.exists() else b""
        try:
            return Checkpoints(directory, {"learner": learner}).restore()
        except CheckpointError:
            if not names.exists() or names.read_bytes() == before:
                raise
