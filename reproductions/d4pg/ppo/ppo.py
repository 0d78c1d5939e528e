"""The PPO of D4PG's figures (Barth-Maron et al. 2018, section 4.3), from observation to loss.

Its objective and scales are those of Heess et al. (2017), [H]; its layers are those of D4PG.
"""

import tensorflow as tf

from common.agents.agent import GraphPolicy
from common.agents.proximal import (
    GaussianPolicy,
    ProximalAgent,
    ProximalLearner,
    ProximalNetworks,
    ProximalSteps,
)
from common.data.rollouts import RolloutSteps
from common.environments.spec import EnvironmentSpec
from common.networks import control
from common.networks.standardizer import EPSILON, RunningMoments
from common.types import Metrics, Nest
from common.values import policy_gradients
from reproductions.d4pg.ppo.config import AGENT, D4PGPPOConfig


def make_networks(config: D4PGPPOConfig, spec: EnvironmentSpec) -> ProximalNetworks:
    """Builds both networks; the policy's means are in (-1, 1).

    Heights of the terrain go through separate layers first, as in D4PG.
    """

    def terrain() -> list[control.Layer]:
        return control.terrain_layers(spec, config.terrain_sizes, config.layer_norm)

    policy = control.ControlPolicy(
        spec.action_size, config.policy_sizes, config.layer_norm, first_layers=terrain()
    )
    value = control.ControlValue(config.critic_sizes, config.layer_norm, first_layers=terrain())
    for network in (policy, value):
        network(tf.zeros([1, spec.observation_size]))  # creates the variables
    return ProximalNetworks(
        policy, value, spec.action_size, config.initial_variance, config.observation_clip
    )


_MIN_COEFFICIENT = 1e-6
"""Lower bound of the penalty's coefficient, which could otherwise shrink to 0 and stay there."""


class D4PGPPOLearner(ProximalLearner):
    """PPO with an adaptive penalty on D_KL, and scales from all data so far.

    Attributes:
      observation_moments: moments of all observations so far.
      reward_moments: moments of all rewards so far.
      coefficient: float32 variable, coefficient of the penalty.
    """

    def __init__(self, config: D4PGPPOConfig, spec: EnvironmentSpec):
        super().__init__(config, spec.observation_size, make_networks(config, spec))
        self.observation_moments = RunningMoments((spec.observation_size,))
        self.reward_moments = RunningMoments(())
        self.coefficient = tf.Variable(
            config.kl_coefficient, trainable=False, name="kl_coefficient"
        )

    def prepare(self, rollout: RolloutSteps) -> None:
        """Sets the scales: the observations' moments, and the rewards' standard deviation ([H]).

        The moments of the observations become their scale at once only in the first rollout, later
        at the end of the updates: in the first of these rho is 1 only at the scale of acting.
        """
        self.observation_moments.update(rollout.states.observation.numpy())
        if not self.standardizer.is_set:
            self.standardizer.follow(self.observation_moments)
        self.reward_moments.update(rollout.rewards.numpy())
        if self.reward_moments.deviation > 0:
            self.reward_scale.assign(tf.cast(self.reward_moments.deviation, tf.float32))

    def begin(self, rollout: RolloutSteps) -> ProximalSteps:
        """Returns the steps with advantages of mean 0 and standard deviation 1 ([H])."""
        steps = super().begin(rollout)
        advantage = steps.advantage - tf.reduce_mean(steps.advantage)
        deviation = tf.math.reduce_std(advantage)
        return steps._replace(advantage=advantage / (deviation + EPSILON))

    def policy_losses(
        self, rho: tf.Tensor, advantage: tf.Tensor, divergence: tf.Tensor
    ) -> tf.Tensor:
        """Returns -rho A plus the penalty on the batch's mean D_KL; see base class."""
        config = self._config
        return policy_gradients.penalized_surrogate(
            rho,
            advantage,
            tf.reduce_mean(divergence),
            self.coefficient.read_value(),
            config.kl_target,
            config.kl_hinge,
        )

    def end(self, steps: ProximalSteps) -> Metrics:
        """Adapts the coefficient to the rollout's D_KL, and sets the scale; see base class."""
        config = self._config
        metrics = super().end(steps)
        self.standardizer.follow(self.observation_moments)
        used = self.coefficient.read_value()
        adapted = policy_gradients.next_penalty_coefficient(
            used, metrics["kl_divergence"], config.kl_target, config.kl_tolerance, config.kl_factor
        )
        self.coefficient.assign(tf.maximum(adapted, _MIN_COEFFICIENT))
        return {**metrics, "kl_coefficient": used}


class D4PGPPO(ProximalAgent):
    """PPO as in section 4.3."""

    declaration = AGENT

    def __init__(self, config: D4PGPPOConfig, setting: str = AGENT.settings.default):
        super().__init__(config, setting, config.unroll_length)

    def make_networks(self, spec: EnvironmentSpec) -> ProximalNetworks:
        """Builds the policy and the value network."""
        return make_networks(self.config, spec)

    def make_evaluator(self, spec: EnvironmentSpec, num_environments: int) -> GaussianPolicy:
        """Builds the policy without noise, or with seeded noise if `noisy_evaluation` says so."""
        if self.config.noisy_evaluation:
            return self.make_actor(spec, range(num_environments), num_environments, seed=0)
        return super().make_evaluator(spec, num_environments)

    def graph_policy(self, learner: D4PGPPOLearner, spec: EnvironmentSpec) -> GraphPolicy:
        """Returns the policy without noise, or with new noise in each call (`noisy_evaluation`)."""
        mean_of = super().graph_policy(learner, spec)
        if not self.config.noisy_evaluation:
            return mean_of

        def act(observation: tf.Tensor, state: Nest) -> tuple[tf.Tensor, Nest]:
            mean, state = mean_of(observation, state)
            deviation = tf.sqrt(learner.networks.variance)
            return mean + deviation * tf.random.normal(tf.shape(mean)), state

        return act

    def build_learner(self, spec: EnvironmentSpec, seed: int) -> D4PGPPOLearner:
        """Builds the learner."""
        del seed
        return D4PGPPOLearner(self.config, spec)
