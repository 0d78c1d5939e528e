"""Ape-X DPG's learner (Horgan et al. 2018, section 3.2; equations numbered as in the README)."""

import tensorflow as tf

from common.agents.actor_critic import ActorCritic, ActorCriticLearner
from common.environments.spec import EnvironmentSpec
from common.learning.learner import Gradients
from common.types import Batch, StoredTransition
from common.values import policy_gradients, prioritization
from reproductions.apex.dpg import networks as networks_lib
from reproductions.apex.dpg.config import DPGConfig


def td_errors(
    transition: StoredTransition, networks: ActorCritic, target: ActorCritic
) -> tf.Tensor:
    """Returns delta_t = G_t - q(S_t, A_t, psi), [B] (eqs 15, 16).

        G_t = R_{t:t+n} + gamma_{t:t+n} q(S_{t+n}, pi(S_{t+n}, phi^-), psi^-)

    No gradient flows into G_t.

    Args:
      transition: B transitions.
      networks: the online networks (phi, psi).
      target: the target networks (phi^-, psi^-).
    """
    state = transition.observation_t
    bootstrap = target.critic(state, target.policy(state))
    returns = transition.n_step_reward + transition.n_step_discount * bootstrap
    prediction = networks.critic(transition.observation_tm1, transition.action_tm1)
    return tf.stop_gradient(returns) - prediction


def critic_loss(errors: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """Returns 1/B sum_k w_k 1/2 delta_k^2 (eqs 12, 16): errors [B], weights [B] -> scalar."""
    return tf.reduce_mean(weights * 0.5 * tf.square(errors))


def policy_loss(
    observation: tf.Tensor, networks: ActorCritic, dqda_clip: float | None
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns a loss whose minimisation raises q(S_t, pi(S_t, phi), psi), psi held fixed (eq 17).

    Returns:
      A loss whose gradient with respect to phi is that of equation 17 with the sign reversed and
      dq/da clipped (appendix D), the mean of q, and the share of saturated actions.
    """
    return policy_gradients.dpg_loss(
        networks.policy(observation), lambda action: networks.critic(observation, action), dqda_clip
    )


class DPGLearner(ActorCriticLearner):
    """Learner with (phi, psi), (phi^-, psi^-), two Adams, and algorithm 2's update."""

    def __init__(self, config: DPGConfig, spec: EnvironmentSpec):
        super().__init__(
            lambda: networks_lib.make_networks(config, spec),
            lambda: networks_lib.make_optimizer(config),
            config.target_period,
            config.max_gradient_norm or None,
        )
        self._config = config

    def gradients(self, batch: Batch) -> Gradients:
        """Returns the gradients of a step on B transitions.

        The outputs are new priorities |delta| + floor [B] (eqs 9, 19).
        """
        transition: StoredTransition = batch.steps
        weights = prioritization.normalize_by_max(
            prioritization.importance_weights(
                batch.probabilities, batch.size, self._config.importance_exponent
            )
        )

        def weighted_loss():
            errors = td_errors(transition, self.networks, self.target_networks)
            return critic_loss(errors, weights), errors

        gradients = self.gradients_of(
            weighted_loss,
            lambda: policy_loss(
                transition.observation_tm1, self.networks, self._config.dqda_clip or None
            ),
        )
        priorities = tf.abs(gradients.errors) + self._config.priority_floor
        return Gradients(gradients, priorities, gradients.metrics(priorities, weights))
