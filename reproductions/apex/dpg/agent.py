"""Ape-X DPG for the shared programs: configuration, actor and learner in one object."""

from collections.abc import Mapping
import os
from typing import Any

import tensorflow as tf

from common.acting.actor_critic import ActorCriticEvaluator
from common.acting.n_step import Transitions
from common.agent import Agent, EnvironmentSpec
from common.environments import requirements
from common.learning import actor_critic
from common.learning import trained
from common.learning.transition import Transition, control_specs
from common.replay import distributions
from reproductions.apex.dpg import actor as actor_lib
from reproductions.apex.dpg import learner as learner_lib
from reproductions.apex.dpg import networks as networks_lib
from reproductions.apex.dpg import settings
from reproductions.apex.dpg.config import DPGConfig


class ApexDPG(Agent):
    """See `common.agent.Agent`."""

    name = "apex"
    metrics = actor_critic.METRICS
    jit_compile = True

    def __init__(self, config: DPGConfig):
        self._config = config
        self.n_step = config.n_step
        self.discount = config.discount
        self.batch_size = config.batch_size
        self.updates_per_call = config.updates_per_call
        self.actor_period = config.actor_period
        self.send_batch = config.send_batch
        self.replay_capacity = config.replay_capacity
        self.min_replay_size = config.min_replay_size
        self.samples_per_insert = config.samples_per_insert or None
        self.removal_period = config.removal_period
        # So many batches, in whole calls.
        self.prefetch = -(-config.prefetch // config.updates_per_call)
        self.setting = settings.name_of(config)

    def require(self, spec: EnvironmentSpec) -> None:
        """Flat observations, continuous actions."""
        requirements.require_control(spec)

    def step_specs(self, spec: EnvironmentSpec) -> Transition:
        """An n-step transition."""
        return control_specs(spec.observation_size, spec.action_size)

    def steps(self, transitions: Transitions) -> Transition:
        """Drops what only the initial priority needed."""
        return Transition.of(transitions)

    def distributions(self):
        """P ~ p^alpha_sample, or uniform; removal by p^alpha_evict, or first in, first out."""
        exponent = self._config.priority_exponent
        sample = distributions.Proportional(exponent) if exponent else distributions.Uniform()
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

    def make_evaluator(
        self, spec: EnvironmentSpec, num_environments: int
    ) -> ActorCriticEvaluator:
        """The noiseless policy (appendix D)."""
        del num_environments
        return ActorCriticEvaluator(
            networks_lib.make_networks(self._config, spec.observation_size, spec.action_size)
        )


def from_config(values: Mapping[str, Any]) -> ApexDPG:
    """The agent of a run, from the "config" of its config.json.

    Raises:
      TypeError or ValueError: that is no configuration of Ape-X DPG.
    """
    return ApexDPG(trained.configuration(DPGConfig, values))


def load_policy(workdir: str | os.PathLike) -> trained.TrainedPolicy:
    """The policy of a run's newest checkpoint, `policy(observation) -> action`, without noise.

    Raises:
      As `common.learning.trained.load`.
    """
    return trained.TrainedPolicy(trained.load(workdir, from_config))
