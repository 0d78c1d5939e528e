"""The D4PG agent: configuration, actor and learner in one object."""

import tensorflow as tf

from common.agents.actor_critic import ActorCriticAgent
from common.agents.transitions import Transitions
from common.environments.spec import EnvironmentSpec
from common.replay import distributions
from reproductions.d4pg import actor as actor_lib
from reproductions.d4pg import learner as learner_lib
from reproductions.d4pg import networks as networks_lib
from reproductions.d4pg.config import AGENT, D4PGConfig


class D4PG(ActorCriticAgent):
    """D4PG, and its ablations by configuration."""

    declaration = AGENT

    def __init__(self, config: D4PGConfig, setting: str = AGENT.settings.default):
        super().__init__(config, setting, networks_lib.make_networks)
        # Removal by priority is another choice: the paper refers to Ape-X for the replay, whose DPG
        # variant removes by priority^-0.4 and whose DQN removes first in, first out. The simpler
        # one is the default.
        remove: distributions.Distribution = distributions.Fifo()
        if config.removal == "priority":
            remove = distributions.Proportional(config.removal_exponent)
        self.data = Transitions(config, distributions.prioritized(config.priority_exponent), remove)

    def make_learner(self, spec: EnvironmentSpec, seed: int) -> learner_lib.D4PGLearner:
        """Builds the learner of algorithm 1."""
        tf.random.set_seed(seed)
        return learner_lib.D4PGLearner(self.config, spec, seed)

    def make_actor(
        self, spec: EnvironmentSpec, actors: range, num_actors: int, seed: int
    ) -> actor_lib.D4PGActor:
        """Builds the actor of algorithm 1, the same for all but for its noise."""
        del actors, num_actors  # the twins take any batch
        return actor_lib.D4PGActor(self.config, spec, seed)
