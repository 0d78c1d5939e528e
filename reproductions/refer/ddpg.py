"""DDPG with ReF-ER (Novati & Koumoutsakos 2019, sections 2 and 3, algorithm 4).

The policy is N(m, sigma^2 I); mu is an earlier version of it. Equations are numbered as in the
README.
"""

from collections.abc import Sequence

import tensorflow as tf

from common.learning.learner import Gradients
from common.types import Batch
from common.values import policy_gradients
from reproductions.refer import networks, rules
from reproductions.refer.config import ReferConfig
from reproductions.refer.rules import Refresh, TwoRatesGradients, TwoRatesLearner


def critic_losses(
    q: tf.Tensor, target: tf.Tensor, rho: tf.Tensor, rules_now: rules.Rules
) -> tf.Tensor:
    """Returns near 1/2 (Q(s, a) - y)^2, without beta (eq 2, algorithm 4).

    Gradients flow into `q` only.

    Args:
      q: [B] floating, Q(s, a) of the stored action.
      target: [B], y.
      rho: [B], importance weights.
      rules_now: the rules as they are at this update.

    Returns:
      [B].
    """
    return 0.5 * rules_now.mask(rho) * tf.square(q - tf.stop_gradient(target))


def policy_losses(
    mean: tf.Tensor, dqda: tf.Tensor, rho: tf.Tensor, divergence: tf.Tensor, rules_now: rules.Rules
) -> tf.Tensor:
    """Returns the deterministic policy gradient's loss under the rules of ReF-ER (eqs 3, 10, 11).

        -beta near dqda . m + (1 - beta) D_KL(mu || pi)

    Rule 1 masks by the importance weight of the stored action, although the loss is that of m.
    Gradients flow into `mean` and `divergence` only, and only the gradient has a meaning.

    Args:
      mean: [B, A] floating, m, the policy's actions.
      dqda: [B, A], gradient of the critic's value at `mean`.
      rho: [B], importance weights.
      divergence: [B], D_KL(mu || pi).
      rules_now: the rules as they are at this update.

    Returns:
      [B].
    """
    ascent = policy_gradients.deterministic_policy_gradient_loss(mean, dqda, None)
    return rules_now.penalized(rules_now.mask(rho) * ascent, divergence)


class DdpgLearner(TwoRatesLearner):
    """DDPG: policy and critic with target networks, and an Adam for each (section 2, algorithm 4).

    Attributes:
      networks: policy and critic.
      target_networks: slow copies of `networks`, from which targets are computed.
    """

    def __init__(self, config: ReferConfig, observation_size: int, action_size: int):
        super().__init__(config, observation_size)
        sizes = observation_size, action_size
        self.networks = networks.make_ddpg_networks(config, *sizes)
        self.target_networks = networks.make_ddpg_networks(config, *sizes)
        self.make_optimizers()

    @property
    def policy_variables(self) -> Sequence[tf.Variable]:
        """Variables of the online policy; acting needs no critic."""
        return self.networks.policy.trainable_variables

    @property
    def critic_variables(self) -> Sequence[tf.Variable]:
        """Variables of the online critic."""
        return self.networks.critic.trainable_variables

    @property
    def online_and_slow(self) -> tuple[Sequence[tf.Variable], Sequence[tf.Variable]]:
        """Variables of both networks, and of their target networks."""
        return self.networks.variables, self.target_networks.variables

    def gradients(self, batch: Batch) -> Gradients:
        """Returns the gradients of a step on B steps; see base class."""
        config, online, target = self._config, self.networks, self.target_networks
        steps, view = batch.steps, networks.view_of(batch.steps, self.standardizer)
        action, behaviour_mean = view.states.action, view.states.extras["mean"]
        observation, next_observation = view.observation, view.next_observation
        bootstrap = target.critic.of(next_observation, view.next_actions_before)
        y = steps.rewards + steps.discounts * bootstrap(target.policy(next_observation))
        rules_now = self.rules()
        weights = self.weights(batch)
        with tf.GradientTape() as critic_tape:
            value_of = online.critic.of(observation, view.actions_before)
            q = value_of(action)
        with tf.GradientTape() as policy_tape:
            mean = online.policy(observation)
            rho, kl = rules.rho_and_divergence(
                action, mean, behaviour_mean, config.sigma, self._log_bound
            )
            value, dqda = policy_gradients.value_and_action_gradient(mean, value_of)
            losses = policy_losses(mean, dqda, rho, kl, rules_now)
            policy_loss = tf.reduce_mean(weights * losses)
        with critic_tape:
            critic_loss = tf.reduce_mean(weights * critic_losses(q, y, rho, rules_now))
            decay = tf.add_n([tf.nn.l2_loss(v) for v in self.critic_variables])
            critic_loss += config.critic_decay * decay
        gradients = TwoRatesGradients(
            policy_tape.gradient(policy_loss, self.policy_variables),
            critic_tape.gradient(critic_loss, self.critic_variables),
        )
        zeros = tf.zeros_like(rho)
        refresh = Refresh(zeros, rho, kl, tf.square(q - y), zeros, zeros)
        metrics = {
            **self.shared_metrics(),
            "critic_loss": critic_loss,
            "mean_q": tf.reduce_mean(value),
            "saturated_actions": policy_gradients.saturated_share(mean),
            "critic_gradient_norm": tf.linalg.global_norm(gradients.critic),
            "policy_gradient_norm": tf.linalg.global_norm(gradients.policy),
        }
        return Gradients(gradients, refresh, metrics)
