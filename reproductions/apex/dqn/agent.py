"""The Ape-X DQN agent: configuration, actor and learner in one object."""

import numpy as np
import tensorflow as tf

from common.agents.n_step_agent import NStepAgent
from common.environments import requirements
from common.environments.spec import EnvironmentSpec
from common.replay import distributions, png
from common.types import StoredTransition
from reproductions.apex.dqn import actor as actor_lib
from reproductions.apex.dqn import learner as learner_lib
from reproductions.apex.dqn.config import DQNConfig
from reproductions.apex.dqn.settings import SETTINGS


class ApexDQN(NStepAgent):
    """Ape-X DQN, and its studies by configuration.

    Observations are sent and kept as PNG files (section 4.1), but for MinAtar's, of which a file
    would be no smaller.
    """

    paper = "apex"
    settings = SETTINGS
    metrics = learner_lib.METRICS
    jit_compile = False  # XLA slows convolutions on a CPU
    num_frames = 4

    def __init__(self, config: DQNConfig, setting: str = SETTINGS.default):
        super().__init__(config, setting)
        self.removal_period = config.removal_period
        self.prefetch = config.prefetch
        if config.single_process:  # draws so many batches ahead in the only way that it can
            self.updates_per_call = config.prefetch
        self.reward_clip = config.reward_clip or None
        self.num_copies = config.num_copies

    @property
    def decodes(self) -> bool:
        """True if images are stored as PNG files, as with DQN's network."""
        return self._config.torso == "atari"

    def require(self, spec: EnvironmentSpec) -> None:
        """Raises ValueError unless observations are images and actions discrete."""
        requirements.require_images(self._config, spec)

    def encode(self, observation: np.ndarray) -> np.ndarray:
        """uint8 [K, H, W, C] -> PNG files, an object array [K]."""
        return png.encode(observation) if self.decodes else observation

    def decode(self, steps: StoredTransition, spec: EnvironmentSpec) -> StoredTransition:
        """PNG files [B] -> uint8 [B, H, W, C], in both columns of observations."""
        if not self.decodes:
            return steps
        return steps._replace(
            **{
                name: png.decode(getattr(steps, name), spec.image_shape, name)
                for name in ("observation_tm1", "observation_t")
            }
        )

    def step_specs(self, spec: EnvironmentSpec) -> StoredTransition:
        """Returns the columns of an n-step transition with both observations (appendix F)."""
        image = tf.TensorSpec(spec.image_shape, tf.uint8)
        if self.decodes:
            image = png.column(spec.image_shape)
        return StoredTransition(
            observation_tm1=image,
            action_tm1=tf.TensorSpec([], tf.int32),
            n_step_reward=tf.TensorSpec([]),
            n_step_discount=tf.TensorSpec([]),
            observation_t=image,
        )

    def distributions(self):
        """Returns sampling by p^alpha, or uniform, and removal of the oldest item (section 4.1)."""
        sample = distributions.prioritized(self._config.priority_exponent)
        return {"sample": sample, "remove": distributions.Fifo()}, "remove"

    def make_learner(self, spec: EnvironmentSpec, seed: int) -> learner_lib.DQNLearner:
        """Builds the learner of algorithm 2."""
        tf.random.set_seed(seed)
        return learner_lib.DQNLearner(self._config, spec)

    def make_actor(
        self, spec: EnvironmentSpec, actors: range, num_actors: int, seed: int
    ) -> actor_lib.DQNActor:
        """Builds the actor of algorithm 1, with each actor's own epsilon."""
        return actor_lib.make_actor(self._config, spec, actors, num_actors, seed)

    def make_evaluator(self, spec: EnvironmentSpec, num_environments: int) -> actor_lib.DQNActor:
        """Builds the same policy with an epsilon of its own."""
        return actor_lib.make_evaluator(self._config, spec, num_environments)
