"""The PPO of ReF-ER (Novati & Koumoutsakos 2019, appendices A and B), from observation to loss.

Its objective is that of Schulman et al. (2017), equation 7.
"""

import numpy as np
import tensorflow as tf

from common.agents.proximal import ProximalAgent, ProximalLearner, ProximalNetworks
from common.data.rollouts import RolloutSteps
from common.environments.spec import EnvironmentSpec
from common.networks.control import SoftsignMLP
from common.networks.standardizer import RunningMoments
from common.types import Metrics, Nest
from common.values import policy_gradients
from reproductions.refer import rules
from reproductions.refer.ppo.config import AGENT, ReferPPOConfig


def make_networks(
    config: ReferPPOConfig, observation_size: int, action_size: int
) -> ProximalNetworks:
    """Builds policy and value, of two layers each (appendix A).

    Softsign layers, and variances that all states share, are not in the paper: V-RACER's.
    """
    sizes = [config.hidden_size] * 2
    return ProximalNetworks(
        SoftsignMLP(observation_size, sizes, action_size),
        SoftsignMLP(observation_size, sizes, 1),
        action_size,
        config.initial_variance,
    )


class ReferPPOLearner(ProximalLearner):
    """PPO with a clipped objective, fixed scales of observations and annealed learning rates.

    Attributes:
      reward_moments: of all rewards so far.
    """

    def __init__(self, config: ReferPPOConfig, observation_size: int, action_size: int):
        networks = make_networks(config, observation_size, action_size)
        super().__init__(config, observation_size, networks)
        self.reward_moments = RunningMoments(())

    def prepare(self, rollout: RolloutSteps) -> None:
        """Sets the scale of observations at the first rollout, that of rewards at each.

        Appendix B, whose memory PPO does not have: sigma_r is over all rewards so far, since that
        of a rollout may differ from the next by so much that V, in its units, says nothing.
        """
        if not int(self.version):
            # In float32 the mean of equal numbers is another one.
            observation = rollout.states.observation.numpy().astype(np.float64)
            self.standardizer.set(observation.mean(0), observation.std(0))
        moments = self.reward_moments
        moments.update(rollout.rewards.numpy())
        scale = tf.sqrt(moments.square + moments.mean**2)
        if scale > 0:
            self.reward_scale.assign(tf.cast(scale, tf.float32))

    def policy_losses(
        self, rho: tf.Tensor, advantage: tf.Tensor, divergence: tf.Tensor
    ) -> tf.Tensor:
        """Returns -min(rho A, clip(rho) A); see base class."""
        del divergence
        return policy_gradients.clipped_surrogate(rho, advantage, self._config.clip)

    def apply(self, gradients: Nest) -> None:
        """Makes a step with annealed rates; see base class."""
        config, update = self._config, self.steps.read_value()
        step = update * config.batch_size // config.num_epochs
        for rate, initial in (
            (self.policy_learning_rate, config.policy_learning_rate),
            (self.value_learning_rate, config.value_learning_rate),
        ):
            rate.assign(rules.annealed(initial, step, config.annealing))
        super().apply(gradients)

    def end(self, steps: Nest) -> Metrics:
        """Adds the policy's learning rate; see base class."""
        return {**super().end(steps), "learning_rate": self.policy_learning_rate.read_value()}


class ReferPPO(ProximalAgent):
    """PPO as in appendix A."""

    declaration = AGENT

    def __init__(self, config: ReferPPOConfig, setting: str = AGENT.settings.default):
        super().__init__(config, setting)
        self.noise_bound = config.noise_bound

    def make_networks(self, spec: EnvironmentSpec) -> ProximalNetworks:
        """Builds policy and value."""
        return make_networks(self.config, spec.observation_size, spec.action_size)

    def make_learner(self, spec: EnvironmentSpec, seed: int) -> ReferPPOLearner:
        """Builds the learner."""
        tf.random.set_seed(seed)
        return ReferPPOLearner(self.config, spec.observation_size, spec.action_size)
