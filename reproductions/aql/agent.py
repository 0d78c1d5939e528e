"""AQL and the methods beside it: configuration, policy and learner in one object."""

import numpy as np
import tensorflow as tf

from common.agents.agent import Agent
from common.agents.replayed_unrolls import ReplayedUnrolls
from common.environments.spec import EnvironmentSpec
from common.types import Unrolls
from reproductions.aql import actor, d3pg, impala
from reproductions.aql import learner as learner_lib
from reproductions.aql.actions import ActionSpace
from reproductions.aql.config import AQLConfig
from reproductions.aql.declaration import AGENT
from reproductions.aql.learner import AQLLearner, StoredUnroll


class AQL(Agent):
    """Q-learning with a learned or another search for the best action, by configuration."""

    declaration = AGENT
    jit_compile = True
    publish_period = 1

    def __init__(self, config: AQLConfig, setting: str = AGENT.settings.default):
        super().__init__(config, setting)
        self.updates_per_call = config.updates_per_call
        self._is_d3pg = config.search == "policy"
        self._is_impala = config.search == "none"
        self.data = ReplayedUnrolls(config, _policy_columns if self._is_impala else _columns)
        self.metrics = {
            "proposal": (*learner_lib.METRICS, *learner_lib.PROPOSAL_METRICS),
            "policy": d3pg.METRICS,
            "none": impala.METRICS,
        }.get(config.search, learner_lib.METRICS)

    def step_specs(self, spec: EnvironmentSpec) -> StoredUnroll | impala.StoredPolicyUnroll:
        """Returns the columns of an unroll of T timesteps."""
        length = self.config.unroll_length
        action, scalar = tf.TensorSpec([length, self._space(spec).size]), tf.TensorSpec([length])
        return (impala.StoredPolicyUnroll if self._is_impala else StoredUnroll)(
            tf.TensorSpec([length, spec.observation_size]),
            action,
            scalar if self._is_impala else action,
            reward=scalar,
            discount=scalar,
            is_last=tf.TensorSpec([length], tf.bool),
        )

    def make_learner(
        self, spec: EnvironmentSpec, seed: int
    ) -> AQLLearner | d3pg.D3PGLearner | impala.ImpalaLearner:
        """Builds the learner of the configured method."""
        tf.random.set_seed(seed)
        kinds = {"policy": d3pg.D3PGLearner, "none": impala.ImpalaLearner}
        kind = kinds.get(self.config.search, AQLLearner)
        return kind(self.config, spec.observation_size, self._space(spec))

    def make_actor(
        self, spec: EnvironmentSpec, actors: range, num_actors: int, seed: int
    ) -> actor.SearchPolicy | actor.DeterministicPolicy | impala.SampledPolicy:
        """Builds the exploring policy of some of the actors (algorithm 1)."""
        config, space = self.config, self._space(spec)
        if self._is_impala:
            return impala.SampledPolicy(config, spec, space, seed)
        if self._is_d3pg:
            return actor.DeterministicPolicy(config, spec, space, seed)
        epsilons = actor.epsilons(num_actors, config.epsilon, config.high_epsilon)
        return actor.SearchPolicy(config, spec, space, epsilons[list(actors)], seed)

    def make_evaluator(
        self, spec: EnvironmentSpec, num_environments: int
    ) -> actor.SearchPolicy | actor.DeterministicPolicy | impala.SampledPolicy:
        """Builds the policy with its search, whose samples are seeded, and without exploration.

        That evaluations do not explore is not in the paper. IMPALA's policy is sampled there, too.
        """
        config, space = self.config, self._space(spec)
        if self._is_impala:
            return impala.SampledPolicy(config, spec, space, seed=0)
        if self._is_d3pg:
            return actor.DeterministicPolicy(config, spec, space, seed=None)
        return actor.SearchPolicy(config, spec, space, np.zeros(num_environments), seed=0)

    def _space(self, spec: EnvironmentSpec) -> ActionSpace:
        return ActionSpace.of(spec, self.config.num_levels)


def _policy_columns(unrolls: Unrolls) -> impala.StoredPolicyUnroll:
    """Returns what is sent of M unrolls of IMPALA."""
    return impala.StoredPolicyUnroll(
        unrolls.observation,
        unrolls.extras["action_index"],
        unrolls.extras["log_prob"],
        unrolls.reward,
        unrolls.discount,
        unrolls.is_last,
    )


def _columns(unrolls: Unrolls) -> StoredUnroll:
    """Returns what is stored and sent of M unrolls."""
    return StoredUnroll(
        unrolls.observation,
        unrolls.extras["action_index"],
        unrolls.extras["best_index"],
        unrolls.reward,
        unrolls.discount,
        unrolls.is_last,
    )
