"""The agent: AQL, D3PG, IMPALA or another search, by configuration."""

import numpy as np
import tensorflow as tf

from common.agents.agent import Agent, GraphPolicy
from common.data.unrolls import ReplayedUnrolls, Unrolls
from common.environments.spec import EnvironmentSpec
from common.replay import png
from reproductions.aql import aql, d3pg, impala, networks
from reproductions.aql.actions import ActionSpace
from reproductions.aql.aql import AQLLearner
from reproductions.aql.config import AGENT, AQLConfig
from reproductions.aql.graph_policy import graph_policy


class AQL(Agent):
    """Q-learning with the configured search for the best action, or D3PG, or IMPALA."""

    declaration = AGENT
    publish_period = 1

    def __init__(self, config: AQLConfig, setting: str = AGENT.settings.default):
        super().__init__(config, setting)
        self.updates_per_call = config.updates_per_call
        self._is_impala = config.search == "none"
        # XLA slows convolutions on a CPU.
        self.jit_compile = not config.channels
        self.decodes = bool(config.channels)
        self.data = ReplayedUnrolls(config, self._columns)

    def step_specs(self, spec: EnvironmentSpec) -> Unrolls:
        """Returns the columns of an unroll of T timesteps; its images are one PNG file.

        The extras are actions of `ActionSpace`: "action_index", the action taken, and "best_index",
        the a* that the actor found, or the action of D3PG's policy without noise. Instead of
        "best_index" IMPALA has "log_prob": log mu of the action when the actor took it, in nats.
        """
        length, space = self.config.unroll_length, self._space(spec)
        action, scalar = tf.TensorSpec([length, space.size]), tf.TensorSpec([length])
        observation, state = tf.TensorSpec([length, spec.observation_size]), ()
        if self.config.channels:
            observation = png.column(self._film_shape(spec))
            state = networks.state_specs(self.config, space)
        own = {"log_prob": scalar} if self._is_impala else {"best_index": action}
        is_last = tf.TensorSpec([length], tf.bool)
        extras = {"action_index": action, **own}
        return Unrolls(observation, scalar, scalar, is_last, extras, state)

    def decode(self, steps: Unrolls, spec: EnvironmentSpec) -> Unrolls:
        """Decodes PNG files of unrolls [B] to uint8 [B, T, H, W, C]."""
        images = png.decode(steps.observation, self._film_shape(spec), "observation")
        shape = [-1, self.config.unroll_length, *spec.image_shape]
        return steps._replace(observation=tf.reshape(images, shape))

    def build_learner(
        self, spec: EnvironmentSpec, seed: int
    ) -> AQLLearner | d3pg.D3PGLearner | impala.ImpalaLearner:
        """Builds the learner of the configured method."""
        del seed
        kinds = {"policy": d3pg.D3PGLearner, "none": impala.ImpalaLearner}
        kind = kinds.get(self.config.search, AQLLearner)
        return kind(self.config, spec, self._space(spec))

    def make_actor(
        self, spec: EnvironmentSpec, actors: range, num_actors: int, seed: int
    ) -> aql.SharedLayersPolicy | d3pg.DeterministicPolicy:
        """Builds the exploring policy of some of the actors (algorithm 1)."""
        epsilons = aql.epsilons(num_actors, self.config.epsilon, self.config.high_epsilon)
        return self._make_policy(spec, epsilons[list(actors)], seed, noise_seed=seed)

    def make_evaluator(
        self, spec: EnvironmentSpec, num_environments: int
    ) -> aql.SharedLayersPolicy | d3pg.DeterministicPolicy:
        """Builds the policy without exploration; the samples of its search have a fixed seed.

        That evaluations do not explore is not in the paper. IMPALA also samples in evaluations.
        """
        return self._make_policy(spec, np.zeros(num_environments), seed=0, noise_seed=None)

    def _make_policy(
        self, spec: EnvironmentSpec, epsilons: np.ndarray, seed: int, noise_seed: int | None
    ) -> aql.SharedLayersPolicy | d3pg.DeterministicPolicy:
        """Builds the configured policy; D3PG's has noise instead of epsilons."""
        config, space = self.config, self._space(spec)
        if self._is_impala:
            return impala.SampledPolicy(config, spec, space, seed)
        if config.search == "policy":
            return d3pg.DeterministicPolicy(config, spec, space, noise_seed)
        return aql.SearchPolicy(config, spec, space, epsilons, seed)

    def graph_policy(
        self, learner: AQLLearner | d3pg.D3PGLearner | impala.ImpalaLearner, spec: EnvironmentSpec
    ) -> GraphPolicy:
        """Returns the policy with its search, whose samples differ from call to call."""
        return graph_policy(learner, self.config, spec, self._space(spec))

    def _space(self, spec: EnvironmentSpec) -> ActionSpace:
        return ActionSpace.of(spec, self.config.num_levels, self.config.action_set)

    def _film_shape(self, spec: EnvironmentSpec) -> tuple[int, int, int]:
        """Returns the shape of an unroll's images stacked vertically into one image."""
        height, width, channels = spec.image_shape
        return self.config.unroll_length * height, width, channels

    def _columns(self, unrolls: Unrolls) -> Unrolls:
        """Returns unrolls as they are stored and sent, with images encoded as PNG files."""
        if not self.config.channels:
            return unrolls
        images = unrolls.observation
        films = images.reshape(len(images), -1, *images.shape[3:])
        return unrolls._replace(observation=png.encode(films))
