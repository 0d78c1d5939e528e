"""D4PG's learner (Barth-Maron et al. 2018, algorithm 1; equations numbered as in the README)."""

import tensorflow as tf

from common.agents.actor_critic import ActorCritic, ActorCriticLearner
from common.environments.spec import EnvironmentSpec
from common.learning.learner import Gradients
from common.types import Batch, StoredTransition
from common.values import policy_gradients
from common.values.prioritization import importance_weights
from reproductions.d4pg import critics
from reproductions.d4pg import networks as networks_lib
from reproductions.d4pg.config import D4PGConfig


def backup(
    transition: StoredTransition, target: ActorCritic, critic: critics.CriticKind, seed: tf.Tensor
) -> tf.Tensor:
    """Returns Y_i = R_N + gamma_N Z_w'(x_{i+N}, pi_theta'(x_{i+N})) (eqs 9, 15).

    Args:
      transition: B transitions.
      target: the target networks (theta', w').
      critic: computes Y in its own representation.
      seed: [2] int32, for critics that draw samples.
    """
    action = target.policy(transition.observation_t)
    outputs = target.critic(transition.observation_t, action)
    return critic.backup(transition.n_step_reward, transition.n_step_discount, outputs, seed)


def policy_loss(
    observation: tf.Tensor, networks: ActorCritic, critic: critics.CriticKind
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns a loss whose minimisation raises E[Z_w(x, pi_theta(x))], w held fixed (eqs 7, 11).

    Returns:
      A loss whose gradient with respect to theta is that of equation 11 with the sign reversed, the
      mean of E[Z_w], and the share of saturated actions.
    """
    return policy_gradients.dpg_loss(
        networks.policy(observation),
        lambda action: critic.mean(networks.critic(observation, action)),
    )


class D4PGLearner(ActorCriticLearner):
    """Learner with (theta, w), (theta', w'), two Adams, and algorithm 1's update (lines 5 to 9).

    `seed` determines the samples of a mixture's backup. Networks are initialised from TensorFlow's
    global seed.
    """

    def __init__(self, config: D4PGConfig, spec: EnvironmentSpec, seed: int = 0):
        super().__init__(
            lambda: networks_lib.make_networks(config, spec),
            lambda: networks_lib.make_optimizer(config),
            config.target_period,
        )
        self._config = config
        self._seed = seed
        self._critic = critics.make_critic_kind(config)

    def gradients(self, batch: Batch) -> Gradients:
        """Returns the gradients of a step on B transitions (lines 5 to 7).

        The outputs are new priorities [B] from d(Y_i, Z_w(x_i, a_i)), not negative.
        """
        transition: StoredTransition = batch.steps
        weights = importance_weights(
            batch.probabilities, batch.size, self._config.importance_exponent
        )
        # From the step, so that a resumed learner draws the samples of an uninterrupted one.
        seed = tf.stack([self._seed, tf.cast(self.steps, tf.int32)])
        target = backup(transition, self.target_networks, self._critic, seed)

        def critic_loss():
            outputs = self.networks.critic(transition.observation_tm1, transition.action_tm1)
            distance = self._critic.distance(target, outputs)  # d(Y_i, Z_w(x_i, a_i))
            return tf.reduce_mean(weights * distance), distance

        gradients = self.gradients_of(
            critic_loss,
            lambda: policy_loss(self._policy_state(transition), self.networks, self._critic),
        )
        priorities = self._critic.priorities(gradients.errors)
        return Gradients(gradients, priorities, gradients.metrics(priorities, weights))

    def _policy_state(self, transition: StoredTransition) -> tf.Tensor:
        """Returns x_i, as in algorithm 1, or x_{i+N}."""
        first = self._config.policy_gradient_state == "first"
        return transition.observation_tm1 if first else transition.observation_t
