"""D4PG, algorithm 1: the learner (Barth-Maron et al. 2018; equations as in the README)."""

import tensorflow as tf

from common.agents.actor_critic import ActorCritic, ActorCriticLearner
from common.types import Batch, StoredTransition
from common.values import policy_gradients
from common.values.prioritization import importance_weights
from reproductions.d4pg import critics
from reproductions.d4pg import networks as networks_lib
from reproductions.d4pg.config import D4PGConfig


def backup(
    transition: StoredTransition, target: ActorCritic, critic: critics.CriticKind, seed: tf.Tensor
) -> tf.Tensor:
    """Y_i = R_N + gamma_N Z_w'(x_{i+N}, pi_theta'(x_{i+N})), as the critic has it (eqs 9, 15)."""
    action = target.policy(transition.observation_t)
    outputs = target.critic(transition.observation_t, action)
    return critic.backup(transition.n_step_reward, transition.n_step_discount, outputs, seed)


def policy_loss(
    observation: tf.Tensor, networks: ActorCritic, critic: critics.CriticKind
) -> tuple[tf.Tensor, tf.Tensor]:
    """Descending this ascends E[Z_w(x, pi_theta(x))], w held fixed (eqs 7, 11).

    Returns:
      A loss whose gradient in theta is that of equation 11 with its sign turned, and the mean of
      E[Z_w] itself.
    """
    return policy_gradients.dpg_loss(
        networks.policy(observation),
        lambda action: critic.mean(networks.critic(observation, action)),
    )


class D4PGLearner(ActorCriticLearner):
    """(theta, w), (theta', w'), both Adams, and the update of algorithm 1, lines 5 to 9.

    `seed` is of the samples that a mixture's backup takes; networks take TensorFlow's own.
    """

    def __init__(self, config: D4PGConfig, observation_size: int, action_size: int, seed: int = 0):
        super().__init__(
            lambda: networks_lib.make_networks(config, observation_size, action_size),
            lambda: networks_lib.make_optimizer(config),
            config.target_period,
        )
        self._config = config
        self._seed = seed
        self._critic = critics.make_critic_kind(config)

    def update(self, batch: Batch) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        """One learner step on M transitions.

        Returns:
          The new priorities by d(Y_i, Z_w(x_i, a_i)) [B], not negative, and the METRICS.
        """
        transition: StoredTransition = batch.steps
        weights = importance_weights(
            batch.probabilities, batch.size, self._config.importance_exponent
        )
        # By the step, so that a resumed learner draws what an uncut one draws.
        seed = tf.stack([self._seed, tf.cast(self.steps, tf.int32)])
        target = backup(transition, self.target_networks, self._critic, seed)

        def critic_loss():
            outputs = self.networks.critic(transition.observation_tm1, transition.action_tm1)
            distance = self._critic.distance(target, outputs)  # d(Y_i, Z_w(x_i, a_i))
            return tf.reduce_mean(weights * distance), distance

        step = self.apply_gradients(
            critic_loss,
            lambda: policy_loss(self._policy_state(transition), self.networks, self._critic),
        )
        priorities = self._critic.priorities(step.errors)
        return priorities, step.metrics(priorities, weights)

    def _policy_state(self, transition: StoredTransition) -> tf.Tensor:
        """x_i, as algorithm 1 has it, or x_{i+N}."""
        first = self._config.policy_gradient_state == "first"
        return transition.observation_tm1 if first else transition.observation_t
