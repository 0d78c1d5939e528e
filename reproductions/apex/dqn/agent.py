"""The Ape-X DQN agent: configuration, actor and learner in one object."""

import numpy as np
import tensorflow as tf

from common.agents.agent import Agent
from common.agents.transitions import Transitions
from common.environments.spec import EnvironmentSpec
from common.replay import distributions, png
from common.types import StoredTransition
from reproductions.apex.dqn import actor as actor_lib
from reproductions.apex.dqn import learner as learner_lib
from reproductions.apex.dqn.config import AGENT, DQNConfig


class ApexDQN(Agent):
    """Ape-X DQN, and its studies by configuration.

    Images are sent and kept as PNG files (section 4.1), but for MinAtar's, of which a file would be
    no smaller.
    """

    declaration = AGENT
    metrics = learner_lib.METRICS
    jit_compile = False  # XLA slows convolutions on a CPU

    def __init__(self, config: DQNConfig, setting: str = AGENT.settings.default):
        super().__init__(config, setting)
        self.trim_period = config.removal_period
        self.prefetch = config.prefetch
        if config.single_process:  # draws so many batches ahead in the only way that it can
            self.updates_per_call = config.prefetch
        self.decodes = config.torso == "atari"  # whose images are stored as PNG files
        self.data = Transitions(
            config,
            distributions.prioritized(config.priority_exponent),
            distributions.Fifo(),
            num_copies=config.num_copies,
            reward_clip=config.reward_clip or None,
            is_soft=True,
        )

    def encode(self, observation: np.ndarray) -> np.ndarray:
        """Images uint8 [K, H, W, C] -> PNG files, an object array [K]."""
        return png.encode(observation) if self.decodes else observation

    def decode(self, steps: StoredTransition, spec: EnvironmentSpec) -> StoredTransition:
        """Decodes PNG files [B] to uint8 [B, H, W, C], in both columns of observations."""
        return steps._replace(
            **{
                name: png.decode(getattr(steps, name), spec.image_shape, name)
                for name in ("observation_tm1", "observation_t")
            }
        )

    def step_specs(self, spec: EnvironmentSpec) -> StoredTransition:
        """Returns the columns of an n-step transition with both observations (appendix F)."""
        observation = tf.TensorSpec(spec.observation_shape, spec.observation_dtype)
        if self.decodes:
            observation = png.column(spec.image_shape)
        return StoredTransition(
            observation_tm1=observation,
            action_tm1=tf.TensorSpec([], tf.int32),
            n_step_reward=tf.TensorSpec([]),
            n_step_discount=tf.TensorSpec([]),
            observation_t=observation,
        )

    def make_learner(self, spec: EnvironmentSpec, seed: int) -> learner_lib.DQNLearner:
        """Builds the learner of algorithm 2."""
        tf.random.set_seed(seed)
        return learner_lib.DQNLearner(self.config, spec)

    def make_actor(
        self, spec: EnvironmentSpec, actors: range, num_actors: int, seed: int
    ) -> actor_lib.DQNActor:
        """Builds the actor of algorithm 1, with each actor's own epsilon."""
        return actor_lib.make_actor(self.config, spec, actors, num_actors, seed)

    def make_evaluator(self, spec: EnvironmentSpec, num_environments: int) -> actor_lib.DQNActor:
        """Builds the same policy with an epsilon of its own."""
        return actor_lib.make_evaluator(self.config, spec, num_environments)
