"""D4PG for the shared programs: configuration, actor and learner in one object."""

from collections.abc import Mapping
import os
from typing import Any

import tensorflow as tf

from common.agents import trained
from common.agents.actor_critic_agent import ActorCriticAgent
from common.agents.agent import EnvironmentSpec
from common.replay import distributions
from reproductions.d4pg import actor as actor_lib
from reproductions.d4pg import learner as learner_lib
from reproductions.d4pg import networks as networks_lib
from reproductions.d4pg import settings
from reproductions.d4pg.config import D4PGConfig


class D4PG(ActorCriticAgent):
    """See `common.agents.agent.Agent`."""

    name = "d4pg"

    def __init__(self, config: D4PGConfig, setting: str = ""):
        super().__init__(config, setting or settings.SETTINGS.default, networks_lib.make_networks)
        self.single_process = config.single_process

    def distributions(self):
        """Proportional to p^alpha, or uniform; removal first in, first out, or by priority.

        The paper refers to Ape-X for the replay, whose DPG variant removes by priority^-0.4 and
        whose DQN removes first in, first out: ambiguous, so the simpler one is the default.
        """
        sample = distributions.prioritized(self._config.priority_exponent)
        remove = distributions.Fifo()
        if self._config.removal == "priority":
            remove = distributions.Proportional(self._config.removal_exponent)
        return {"sample": sample, "remove": remove}, "remove"

    def make_learner(self, spec: EnvironmentSpec, seed: int) -> learner_lib.D4PGLearner:
        """Algorithm 1, the learner."""
        tf.random.set_seed(seed)
        return learner_lib.D4PGLearner(self._config, spec.observation_size, spec.action_size, seed)

    def make_actor(
        self, spec: EnvironmentSpec, actors: range, num_actors: int, seed: int
    ) -> actor_lib.D4PGActor:
        """Algorithm 1, the actor: the same for all, whose noise is their own."""
        del actors, num_actors  # the twins take any batch
        return actor_lib.D4PGActor(self._config, spec.observation_size, spec.action_size, seed)


def from_config(values: Mapping[str, Any]) -> D4PG:
    """The agent of a run, from the "config" of its config.json.

    Raises:
      TypeError or ValueError: that is no configuration of D4PG.
    """
    return D4PG(trained.configuration(D4PGConfig, values))


def load_policy(workdir: str | os.PathLike) -> trained.TrainedPolicy:
    """The policy of a run's newest checkpoint, `policy(observation) -> action`, without noise.

    Raises:
      As `common.agents.trained.load`.
    """
    return trained.TrainedPolicy(trained.load(workdir, from_config))
