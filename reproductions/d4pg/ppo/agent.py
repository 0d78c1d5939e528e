"""The PPO of D4PG's figures: configuration, policy and learner in one object."""

import tensorflow as tf

from common.agents.proximal import GaussianPolicy, ProximalAgent, ProximalNetworks
from common.environments.spec import EnvironmentSpec
from reproductions.d4pg.ppo import learner as learner_lib
from reproductions.d4pg.ppo import networks as networks_lib
from reproductions.d4pg.ppo.config import AGENT, D4PGPPOConfig


class D4PGPPO(ProximalAgent):
    """PPO as in section 4.3."""

    declaration = AGENT
    metrics = learner_lib.METRICS

    def __init__(self, config: D4PGPPOConfig, setting: str = AGENT.settings.default):
        super().__init__(config, setting, config.unroll_length)

    def make_networks(self, spec: EnvironmentSpec) -> ProximalNetworks:
        """Builds policy and value."""
        return networks_lib.make_networks(self.config, spec)

    def make_evaluator(self, spec: EnvironmentSpec, num_environments: int) -> GaussianPolicy:
        """Builds the policy as it acts, with seeded noise, which is what PPO improves.

        Not in the paper. On cartpole swingup its mean alone does not get the pole up.
        """
        return self.make_actor(spec, range(num_environments), num_environments, seed=0)

    def make_learner(self, spec: EnvironmentSpec, seed: int) -> learner_lib.D4PGPPOLearner:
        """Builds the learner."""
        tf.random.set_seed(seed)
        return learner_lib.D4PGPPOLearner(self.config, spec)
