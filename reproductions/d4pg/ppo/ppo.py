"""PPO's learner (Barth-Maron et al. 2018, section 4.3; Heess et al. 2017, [H])."""

import tensorflow as tf

from common.agents.proximal import METRICS as SHARED_METRICS
from common.agents.proximal import ProximalLearner, ProximalSteps
from common.environments.spec import EnvironmentSpec
from common.networks.standardizer import EPSILON, RunningMoments
from common.types import Metrics, RolloutSteps
from common.values import surrogate
from reproductions.d4pg.ppo.config import D4PGPPOConfig
from reproductions.d4pg.ppo.networks import make_networks

METRICS = (*SHARED_METRICS, "kl_coefficient")
"""Metrics of a rollout's updates and their columns in learner.csv."""

_MIN_COEFFICIENT = 1e-6
"""A coefficient that shrinks for hundreds of rollouts would become 0, and stay so."""


class D4PGPPOLearner(ProximalLearner):
    """PPO with an adaptive penalty of D_KL, and scales of all that was seen so far.

    Attributes:
      observation_moments: of all observations.
      reward_moments: of all rewards.
      coefficient: float32 variable, of the penalty.
    """

    def __init__(self, config: D4PGPPOConfig, spec: EnvironmentSpec):
        super().__init__(config, spec.observation_size, make_networks(config, spec))
        self.observation_moments = RunningMoments((spec.observation_size,))
        self.reward_moments = RunningMoments(())
        self.coefficient = tf.Variable(
            config.kl_coefficient, trainable=False, name="kl_coefficient"
        )

    def prepare(self, rollout: RolloutSteps) -> None:
        """Sets the scales: the moments of observations, and the deviation of rewards ([H])."""
        self.observation_moments.update(rollout.states.observation.numpy())
        self.standardizer.set(
            self.observation_moments.mean.numpy(), self.observation_moments.deviation
        )
        self.reward_moments.update(rollout.rewards.numpy())
        if self.reward_moments.deviation > 0:
            self.reward_scale.assign(self.reward_moments.deviation)

    def begin(self, rollout: RolloutSteps) -> ProximalSteps:
        """Returns the steps with advantages of mean 0 and deviation 1 ([H])."""
        steps = super().begin(rollout)
        advantage = steps.advantage - tf.reduce_mean(steps.advantage)
        deviation = tf.math.reduce_std(advantage)
        return steps._replace(advantage=advantage / (deviation + EPSILON))

    def policy_losses(
        self, rho: tf.Tensor, advantage: tf.Tensor, divergence: tf.Tensor
    ) -> tf.Tensor:
        """Returns -rho A with the penalty of the batch's mean D_KL; see base class."""
        config = self._config
        return surrogate.penalized(
            rho,
            advantage,
            tf.reduce_mean(divergence),
            self.coefficient.read_value(),
            config.kl_target,
            config.kl_hinge,
        )

    def end(self, steps: ProximalSteps) -> Metrics:
        """Adapts the coefficient to the rollout's D_KL; see base class."""
        config = self._config
        metrics = super().end(steps)
        used = self.coefficient.read_value()
        adapted = surrogate.next_coefficient(
            used, metrics["kl_divergence"], config.kl_target, config.kl_tolerance, config.kl_factor
        )
        self.coefficient.assign(tf.maximum(adapted, _MIN_COEFFICIENT))
        return {**metrics, "kl_coefficient": used}
