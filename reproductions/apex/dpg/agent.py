"""The Ape-X DPG agent: configuration, actor and learner in one object."""

import tensorflow as tf

from common.agents.actor_critic import ActorCriticAgent
from common.agents.transitions import Transitions
from common.environments.spec import EnvironmentSpec
from common.replay import distributions
from reproductions.apex.dpg import actor as actor_lib
from reproductions.apex.dpg import learner as learner_lib
from reproductions.apex.dpg import networks as networks_lib
from reproductions.apex.dpg.config import AGENT, DPGConfig


class ApexDPG(ActorCriticAgent):
    """Ape-X DPG, and its studies by configuration."""

    declaration = AGENT

    def __init__(self, config: DPGConfig, setting: str = AGENT.settings.default):
        super().__init__(config, setting, networks_lib.make_networks)
        self.trim_period = config.removal_period
        # So many batches, in whole calls.
        self.prefetch = -(-config.prefetch // config.updates_per_call)
        remove: distributions.Distribution = distributions.Proportional(config.removal_exponent)
        if config.removal == "fifo":
            remove = distributions.Fifo()
        self.data = Transitions(
            config, distributions.prioritized(config.priority_exponent), remove, is_soft=True
        )

    def make_learner(self, spec: EnvironmentSpec, seed: int) -> learner_lib.DPGLearner:
        """Builds the learner of algorithm 2."""
        tf.random.set_seed(seed)
        return learner_lib.DPGLearner(self.config, spec)

    def make_actor(
        self, spec: EnvironmentSpec, actors: range, num_actors: int, seed: int
    ) -> actor_lib.DPGActor:
        """Builds the actor of algorithm 1, the same for all but for its noise."""
        del actors, num_actors  # the twins take any batch
        return actor_lib.DPGActor(self.config, spec, seed)
