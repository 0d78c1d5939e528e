"""Ape-X DPG for the shared programs: configuration, actor and learner in one object."""

from collections.abc import Mapping
import os
from typing import Any

import tensorflow as tf

from common.agents import trained
from common.agents.actor_critic_agent import ActorCriticAgent
from common.agents.agent import EnvironmentSpec
from common.replay import distributions
from reproductions.apex.dpg import actor as actor_lib
from reproductions.apex.dpg import learner as learner_lib
from reproductions.apex.dpg import networks as networks_lib
from reproductions.apex.dpg import settings
from reproductions.apex.dpg.config import DPGConfig


class ApexDPG(ActorCriticAgent):
    """See `common.agents.agent.Agent`."""

    name = "apex"

    def __init__(self, config: DPGConfig, setting: str = ""):
        super().__init__(config, setting or settings.SETTINGS.default, networks_lib.make_networks)
        self.removal_period = config.removal_period
        # So many batches, in whole calls.
        self.prefetch = -(-config.prefetch // config.updates_per_call)

    def distributions(self):
        """P ~ p^alpha_sample, or uniform; removal by p^alpha_evict, or first in, first out."""
        sample = distributions.prioritized(self._config.priority_exponent)
        remove = distributions.Proportional(self._config.removal_exponent)
        if self._config.removal == "fifo":
            remove = distributions.Fifo()
        return {"sample": sample, "remove": remove}, "remove"

    def make_learner(self, spec: EnvironmentSpec, seed: int) -> learner_lib.DPGLearner:
        """Algorithm 2."""
        tf.random.set_seed(seed)
        return learner_lib.DPGLearner(self._config, spec.observation_size, spec.action_size)

    def make_actor(
        self, spec: EnvironmentSpec, actors: range, num_actors: int, seed: int
    ) -> actor_lib.DPGActor:
        """Algorithm 1: the same for all actors, whose noise is their own."""
        del actors, num_actors  # the twins take any batch
        return actor_lib.DPGActor(self._config, spec.observation_size, spec.action_size, seed)


def from_config(values: Mapping[str, Any]) -> ApexDPG:
    """The agent of a run, from the "config" of its config.json.

    Raises:
      TypeError or ValueError: that is no configuration of Ape-X DPG.
    """
    return ApexDPG(trained.configuration(DPGConfig, values))


def load_policy(workdir: str | os.PathLike) -> trained.TrainedPolicy:
    """The policy of a run's newest checkpoint, `policy(observation) -> action`, without noise.

    Raises:
      As `common.agents.trained.load`.
    """
    return trained.TrainedPolicy(trained.load(workdir, from_config))
