"""Ape-X DQN for the shared programs: configuration, actor and learner in one object."""

from collections.abc import Mapping
import os
from typing import Any

import numpy as np
import tensorflow as tf

from common.agents import trained
from common.agents.actor_critic_agent import ConfiguredAgent
from common.agents.agent import EnvironmentSpec
from common.environments.requirements import require_images
from common.learning.transition import Transition
from common.replay import distributions, png
from reproductions.apex.dqn import actor as actor_lib
from reproductions.apex.dqn import learner as learner_lib
from reproductions.apex.dqn import settings
from reproductions.apex.dqn.config import DQNConfig


class ApexDQN(ConfiguredAgent):
    """See `common.agents.agent.Agent`. Observations are sent and kept as PNG files (section 4.1)."""

    name = "apex"
    metrics = learner_lib.METRICS
    updates_per_call = 1
    jit_compile = False  # XLA slows convolutions on a CPU

    def __init__(self, config: DQNConfig):
        super().__init__(config, settings.name_of(config))
        self.removal_period = config.removal_period
        self.prefetch = config.prefetch
        self.reward_clip = config.reward_clip or None
        self.num_copies = config.num_copies

    def require(self, spec: EnvironmentSpec) -> None:
        """Images, discrete actions."""
        require_images(spec)

    def encode(self, observation: np.ndarray) -> np.ndarray:
        """uint8 [K, H, W, C] -> PNG files, an object array [K]."""
        return png.encode(observation)

    def decode(self, steps: Transition, spec: EnvironmentSpec) -> Transition:
        """PNG files [B] -> uint8 [B, H, W, C], in both columns of observations."""
        return steps._replace(
            **{
                name: png.decode(getattr(steps, name), spec.image_shape, name)
                for name in ("observation_tm1", "observation_t")
            }
        )

    def step_specs(self, spec: EnvironmentSpec) -> Transition:
        """An n-step transition; both observations are stored (appendix F)."""
        image = png.column(spec.image_shape)
        return Transition(
            observation_tm1=image,
            action_tm1=tf.TensorSpec([], tf.int32),
            n_step_reward=tf.TensorSpec([]),
            n_step_discount=tf.TensorSpec([]),
            observation_t=image,
        )

    def distributions(self):
        """P ~ p^alpha, or uniform; removal first in, first out (section 4.1)."""
        sample = distributions.prioritized(self._config.priority_exponent)
        return {"sample": sample, "remove": distributions.Fifo()}, "remove"

    def make_learner(self, spec: EnvironmentSpec, seed: int) -> learner_lib.DQNLearner:
        """Algorithm 2."""
        tf.random.set_seed(seed)
        return learner_lib.DQNLearner(self._config, spec)

    def make_actor(
        self, spec: EnvironmentSpec, actors: range, num_actors: int, seed: int
    ) -> actor_lib.DQNActor:
        """Algorithm 1."""
        return actor_lib.make_actor(self._config, spec, actors, num_actors, seed)

    def make_evaluator(self, spec: EnvironmentSpec, num_environments: int) -> actor_lib.DQNActor:
        """The same policy with an epsilon of its own."""
        return actor_lib.make_evaluator(self._config, spec, num_environments)


def from_config(values: Mapping[str, Any]) -> ApexDQN:
    """The agent of a run, from the "config" of its config.json.

    Raises:
      TypeError or ValueError: that is no configuration of Ape-X DQN.
    """
    return ApexDQN(trained.configuration(DQNConfig, values))


def load_policy(workdir: str | os.PathLike) -> trained.TrainedPolicy:
    """The policy of a run's newest checkpoint, `policy(observation) -> action`.

    Raises:
      As `common.agents.trained.load`.
    """
    return trained.TrainedPolicy(trained.load(workdir, from_config))
