"""The D4PG agent: configuration, actor and learner in one object."""

import tensorflow as tf

from common.agents.actor_critic import ActorCriticAgent
from common.environments.spec import EnvironmentSpec
from common.replay import distributions
from reproductions.d4pg import actor as actor_lib
from reproductions.d4pg import learner as learner_lib
from reproductions.d4pg import networks as networks_lib
from reproductions.d4pg.config import D4PGConfig
from reproductions.d4pg.settings import SETTINGS


class D4PG(ActorCriticAgent):
    """D4PG, and its ablations by configuration."""

    paper = "d4pg"
    settings = SETTINGS

    def __init__(self, config: D4PGConfig, setting: str = SETTINGS.default):
        super().__init__(config, setting, networks_lib.make_networks)

    def distributions(self):
        """Returns sampling in proportion to p^alpha, or uniform, and removal of the oldest item.

        Removal by priority is another choice: the paper refers to Ape-X for the replay, whose DPG
        variant removes by priority^-0.4 and whose DQN removes first in, first out. The simpler one
        is the default.
        """
        sample = distributions.prioritized(self._config.priority_exponent)
        remove = distributions.Fifo()
        if self._config.removal == "priority":
            remove = distributions.Proportional(self._config.removal_exponent)
        return {"sample": sample, "remove": remove}, "remove"

    def make_learner(self, spec: EnvironmentSpec, seed: int) -> learner_lib.D4PGLearner:
        """Builds the learner of algorithm 1."""
        tf.random.set_seed(seed)
        return learner_lib.D4PGLearner(self._config, spec.observation_size, spec.action_size, seed)

    def make_actor(
        self, spec: EnvironmentSpec, actors: range, num_actors: int, seed: int
    ) -> actor_lib.D4PGActor:
        """Builds the actor of algorithm 1, the same for all but for its noise."""
        del actors, num_actors  # the twins take any batch
        return actor_lib.D4PGActor(self._config, spec.observation_size, spec.action_size, seed)
