"""ReF-ER's agents: configuration, policy and learner in one object."""

import tensorflow as tf

from common.agents.agent import Agent
from common.data.data import StoredState, gaussian_state_specs
from common.data.episodes import WholeEpisodes
from common.environments.spec import EnvironmentSpec
from common.learning.learner import Learner
from common.learning.updates import FusedUpdates, StoreRules
from common.replay import memory as memory_lib
from common.replay.episode_memory import EpisodeMemory
from reproductions.refer import learner as learner_lib
from reproductions.refer.actor import ReferPolicy
from reproductions.refer.config import AGENT, ReferConfig


class Refer(Agent, StoreRules):
    """V-RACER, NAF or DDPG with plain or prioritised replay or ReF-ER; or ACER."""

    declaration = AGENT
    publish_period = 1000  # for the evaluator; the actors act beside the learner

    def __init__(self, config: ReferConfig, setting: str = AGENT.settings.default):
        super().__init__(config, setting)
        is_acer = config.agent == "acer"
        # XLA would compile ACER's update for each length of the longest window. It takes minutes
        # for the unrolled LSTMs, and the updates of V-RACER are then slower.
        self.jit_compile = not (is_acer or config.recurrent)
        self.updates_per_call = config.updates_per_call
        # Section 5.1.
        sample: memory_lib.Uniform | memory_lib.RankBased = memory_lib.Uniform()
        if config.sampling == "rank":
            sample = memory_lib.RankBased(config.priority_exponent, config.rank_period)
        window = config.window if is_acer else None
        history = config.history if config.recurrent else None
        self.data = WholeEpisodes(config, sample, config.removal, window, history)

    def step_specs(self, spec: EnvironmentSpec) -> StoredState:
        """Returns the columns of a state, with mu of its action."""
        return gaussian_state_specs(spec)

    def make_learner(self, spec: EnvironmentSpec, seed: int) -> learner_lib.ReferLearner:
        """Builds the learner of the configured agent."""
        tf.random.set_seed(seed)
        return learner_lib.make_learner(self.config, spec.observation_size, spec.action_size)

    def make_actor(
        self, spec: EnvironmentSpec, actors: range, num_actors: int, seed: int
    ) -> ReferPolicy:
        """Builds the exploring policy; all actors act alike."""
        del actors, num_actors
        return ReferPolicy(self.config, spec.observation_size, spec.action_size, seed)

    def make_evaluator(self, spec: EnvironmentSpec, num_environments: int) -> ReferPolicy:
        """Builds the policy's means, which is not in the paper: it shows training episodes only."""
        del num_environments
        return ReferPolicy(
            self.config, spec.observation_size, spec.action_size, seed=0, explores=False
        )

    def updates(self, learner: Learner, store: EpisodeMemory, seed: int) -> FusedUpdates:
        """Builds the updates of a call, in one graph with their draw and their write-back."""
        return FusedUpdates(super().updates(learner, store, seed), learner, store, self, seed)

    def prepare(
        self, learner: learner_lib.ReferLearner, memory: EpisodeMemory, step: int, is_first: bool
    ) -> None:
        """Sets the scales of observations and of rewards if it is time (appendix B).

        A resumed run has the scale of its observations from the checkpoint.
        """
        if step == 0:
            learner.standardizer.set(*memory.observation_moments())
        period = self.config.reward_scale_period
        if is_first or step // period != (step - self.updates_per_call) // period:
            scale = memory.reward_scale()
            memory.set_reward_scale(scale, recompute=is_first)
            learner.reward_scale.assign(tf.cast(scale, tf.float32))

    def before_updates(self, learner: learner_lib.ReferLearner, memory: EpisodeMemory) -> None:
        """Sets the part of the memory that is far from the policy (eq 12), and its mean D_KL."""
        far_fraction, divergence = memory.distance()
        learner.far_fraction.assign(far_fraction)
        learner.mean_divergence.assign(divergence)

    def write_back(
        self,
        learner: learner_lib.ReferLearner,
        memory: EpisodeMemory,
        keys: tf.Tensor,
        outputs: learner_lib.Refresh,
    ) -> None:
        """Stores what the updates found about their steps (section 4, algorithm 3)."""
        memory.write_back(keys, (*outputs, learner.c_max()))
