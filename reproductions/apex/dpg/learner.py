"""Ape-X DPG: the learner (Horgan et al. 2018, section 3.2; equations as in the README)."""

import tensorflow as tf

from common.agents.actor_critic import ActorCritic, ActorCriticLearner
from common.types import Batch, StoredTransition
from common.values import policy_gradients, prioritization
from reproductions.apex.dpg import networks as networks_lib
from reproductions.apex.dpg.config import DPGConfig


def td_errors(
    transition: StoredTransition, networks: ActorCritic, target: ActorCritic
) -> tf.Tensor:
    """delta_t = G_t - q(S_t, A_t, psi), [B] (eqs 15, 16); no gradient flows into G_t.

    G_t = R_{t:t+n} + gamma_{t:t+n} q(S_{t+n}, pi(S_{t+n}, phi^-), psi^-)
    """
    state = transition.observation_t
    bootstrap = target.critic(state, target.policy(state))
    returns = transition.n_step_reward + transition.n_step_discount * bootstrap
    prediction = networks.critic(transition.observation_tm1, transition.action_tm1)
    return tf.stop_gradient(returns) - prediction


def critic_loss(errors: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """1/B sum_k w_k 1/2 delta_k^2 (eqs 12, 16)."""
    return tf.reduce_mean(weights * 0.5 * tf.square(errors))


def policy_loss(
    observation: tf.Tensor, networks: ActorCritic, dqda_clip: float | None
) -> tuple[tf.Tensor, tf.Tensor]:
    """Descending this ascends q(S_t, pi(S_t, phi), psi), psi held fixed (eq 17).

    Returns:
      A loss whose gradient in phi is that of equation 17 with its sign turned and dq/da clipped
      (appendix D), and the mean of q itself.
    """
    return policy_gradients.dpg_loss(
        networks.policy(observation), lambda action: networks.critic(observation, action), dqda_clip
    )


class DPGLearner(ActorCriticLearner):
    """(phi, psi), (phi^-, psi^-), both Adams, and algorithm 2's update."""

    def __init__(self, config: DPGConfig, observation_size: int, action_size: int):
        super().__init__(
            lambda: networks_lib.make_networks(config, observation_size, action_size),
            lambda: networks_lib.make_optimizer(config),
            config.target_period,
            config.max_gradient_norm or None,
        )
        self._config = config

    def update(self, batch: Batch) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        """One learner step on B transitions.

        Returns:
          The new priorities |delta| [B], raised by their floor (eqs 9, 19), and the METRICS.
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

        step = self.apply_gradients(
            weighted_loss,
            lambda: policy_loss(
                transition.observation_tm1, self.networks, self._config.dqda_clip or None
            ),
        )
        priorities = tf.abs(step.errors) + self._config.priority_floor
        return priorities, step.metrics(priorities, weights)
