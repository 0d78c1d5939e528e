"""The Reactor agent: configuration, policy and learner in one object."""

from typing import Any

import numpy as np
import tensorflow as tf

from common.agents.agent import Agent
from common.agents.sequences import Sequences
from common.environments.spec import EnvironmentSpec
from common.replay import distributions, png
from common.types import StoredTimestep
from reproductions.reactor import learner as learner_lib
from reproductions.reactor import networks as networks_lib
from reproductions.reactor.actor import ReactorPolicy
from reproductions.reactor.config import AGENT, ReactorConfig


class Reactor(Agent):
    """Reactor, and its ablations by configuration."""

    declaration = AGENT
    metrics = learner_lib.METRICS
    jit_compile = False  # XLA slows convolutions on a CPU

    def __init__(self, config: ReactorConfig, setting: str = AGENT.settings.default):
        super().__init__(config, setting)
        self.target_period = config.target_period
        self.decodes = config.png_frames
        mix = config.uniform_mix
        sample: distributions.Distribution = {
            "contextual": distributions.ContextualPriorityTree(1.0, mix),
            "max": distributions.Proportional(1.0, mix),
            "uniform": distributions.Uniform(),
        }[config.prioritization]
        # Section 3.3.
        self.data = Sequences(
            config, sample, distributions.Fifo(), reward_clip=config.reward_clip or None
        )

    def encode(self, observation: np.ndarray) -> np.ndarray:
        """Observations [K, ...] -> the same, or PNG files of images, an object array [K]."""
        return png.encode(observation) if self.decodes else observation

    def decode(self, steps: StoredTimestep, spec: EnvironmentSpec) -> StoredTimestep:
        """Decodes PNG files [B, T] to uint8 [B, T, H, W, C]."""
        images = png.decode(steps.observation, spec.image_shape, "observation")
        return steps._replace(observation=images)

    def step_specs(self, spec: EnvironmentSpec) -> StoredTimestep:
        """Returns the columns of a timestep, with all of mu (footnote 1)."""
        extras: dict[str, Any] = {"mu": tf.TensorSpec([spec.action_size])}
        if self.config.stored_state:
            extras["state"] = networks_lib.state_specs()
        observation = tf.TensorSpec(spec.observation_shape, spec.observation_dtype)
        return StoredTimestep(
            observation=png.column(spec.image_shape) if self.decodes else observation,
            action=tf.TensorSpec([], tf.int32),
            reward=tf.TensorSpec([]),
            discount=tf.TensorSpec([]),
            step_type=tf.TensorSpec([], tf.uint8),
            extras=extras,
        )

    def make_learner(self, spec: EnvironmentSpec, seed: int) -> learner_lib.ReactorLearner:
        """Builds the learner of section 3.4."""
        tf.random.set_seed(seed)
        return learner_lib.ReactorLearner(self.config, spec)

    def make_actor(
        self, spec: EnvironmentSpec, actors: range, num_actors: int, seed: int
    ) -> ReactorPolicy:
        """Builds the policy of a worker; all workers act alike."""
        del actors, num_actors
        return ReactorPolicy(self.config, spec, seed)

    def make_evaluator(self, spec: EnvironmentSpec, num_environments: int) -> ReactorPolicy:
        """Builds the same policy, whose draws are the same in every evaluator."""
        del num_environments
        return ReactorPolicy(self.config, spec, seed=0)
