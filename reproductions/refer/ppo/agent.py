"""The PPO of ReF-ER: configuration, policy and learner in one object."""

import tensorflow as tf

from common.agents.proximal import ProximalAgent, ProximalNetworks
from common.environments.spec import EnvironmentSpec
from reproductions.refer.ppo import learner as learner_lib
from reproductions.refer.ppo import networks as networks_lib
from reproductions.refer.ppo.config import AGENT, ReferPPOConfig


class ReferPPO(ProximalAgent):
    """PPO as in appendix A."""

    declaration = AGENT
    metrics = learner_lib.METRICS

    def __init__(self, config: ReferPPOConfig, setting: str = AGENT.settings.default):
        super().__init__(config, setting)
        self.noise_bound = config.noise_bound

    def make_networks(self, spec: EnvironmentSpec) -> ProximalNetworks:
        """Builds policy and value."""
        return networks_lib.make_networks(self.config, spec.observation_size, spec.action_size)

    def make_learner(self, spec: EnvironmentSpec, seed: int) -> learner_lib.ReferPPOLearner:
        """Builds the learner."""
        tf.random.set_seed(seed)
        return learner_lib.ReferPPOLearner(self.config, spec.observation_size, spec.action_size)
