"""D4PG, algorithm 1: the learner (Barth-Maron et al. 2018; equations as in the README)."""

from typing import NamedTuple

import tensorflow as tf

from common.learning import optimizers
from common.learning import targets
from common.learning.update_loop import Batch
from common.values import policy_gradients
from reproductions.d4pg import critics
from reproductions.d4pg import networks as networks_lib
from reproductions.d4pg.config import D4PGConfig

METRICS = (
    "critic_loss", "mean_q", "priority_mean", "importance_weight_mean", "importance_weight_max",
    "critic_gradient_norm", "policy_gradient_norm",
)
"""What an update reports, with its columns in learner.csv."""


class Transition(NamedTuple):
    """A stored N-step transition; names as in `common.acting.n_step.Transitions`."""

    observation_tm1: tf.Tensor
    action_tm1: tf.Tensor
    n_step_reward: tf.Tensor
    n_step_discount: tf.Tensor
    observation_t: tf.Tensor


def transition_specs(observation_size: int, action_size: int) -> Transition:
    """The columns of a transition in replay, all float32."""
    return Transition(
        observation_tm1=tf.TensorSpec([observation_size]),
        action_tm1=tf.TensorSpec([action_size]),
        n_step_reward=tf.TensorSpec([]),
        n_step_discount=tf.TensorSpec([]),
        observation_t=tf.TensorSpec([observation_size]),
    )


def backup(
    transition: Transition,
    target: networks_lib.Networks,
    critic: critics.CriticKind,
    seed: tf.Tensor,
) -> tf.Tensor:
    """Y_i = R_N + gamma_N Z_w'(x_{i+N}, pi_theta'(x_{i+N})), as the critic has it (eqs 9, 15)."""
    action = target.policy(transition.observation_t)
    outputs = target.critic(transition.observation_t, action)
    return critic.backup(transition.n_step_reward, transition.n_step_discount, outputs, seed)


def importance_weights(probabilities: tf.Tensor, size: tf.Tensor, exponent: float) -> tf.Tensor:
    """(R p_i)^-1, raised to `exponent`; neither normalised nor bounded (eq 10), [B]."""
    return (size * probabilities) ** -exponent


def policy_loss(
    observation: tf.Tensor, networks: networks_lib.Networks, critic: critics.CriticKind
) -> tuple[tf.Tensor, tf.Tensor]:
    """Descending this ascends E[Z_w(x, pi_theta(x))], w held fixed (eqs 7, 11).

    Returns:
      A loss whose gradient in theta is that of equation 11 with its sign turned, and the mean of
      E[Z_w] itself.
    """
    action = networks.policy(observation)
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        fixed = tf.stop_gradient(action)
        tape.watch(fixed)
        q = critic.mean(networks.critic(observation, fixed))
    dqda = tape.gradient(q, fixed)
    loss = policy_gradients.deterministic_policy_gradient_loss(action, dqda, dqda_clip=None)
    return tf.reduce_mean(loss), tf.reduce_mean(q)


class D4PGLearner(tf.Module):
    """(theta, w), (theta', w'), both Adams, and the update of algorithm 1, lines 5 to 9.

    `seed` is of the samples that a mixture's backup takes; networks take TensorFlow's own.
    """

    def __init__(
        self, config: D4PGConfig, observation_size: int, action_size: int, seed: int = 0
    ):
        super().__init__()
        self._config = config
        self._seed = seed
        self._critic = critics.make_critic_kind(config)
        self.networks = networks_lib.make_networks(config, observation_size, action_size)
        self.target_networks = networks_lib.make_networks(config, observation_size, action_size)
        targets.copy(self.networks.variables, self.target_networks.variables)
        self.policy_optimizer = networks_lib.make_optimizer(config)
        self.critic_optimizer = networks_lib.make_optimizer(config)
        optimizers.create_variables(
            self.policy_optimizer, self.networks.policy.trainable_variables
        )
        optimizers.create_variables(
            self.critic_optimizer, self.networks.critic.trainable_variables
        )
        self.steps = tf.Variable(0, dtype=tf.int64, trainable=False, name="learner_steps")

    @property
    def actor_variables(self) -> tuple:
        """What is replicated to the actors: the online (theta, w) (algorithm 1, line 10)."""
        return self.networks.variables

    def update(self, batch: Batch) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        """One learner step on M transitions.

        Returns:
          The new priorities by d(Y_i, Z_w(x_i, a_i)) [B], not negative, and the METRICS.
        """
        transition: Transition = batch.steps
        weights = importance_weights(
            batch.probabilities, batch.size, self._config.importance_exponent
        )
        # By the step, so that a resumed learner draws what an uncut one draws.
        seed = tf.stack([self._seed, tf.cast(self.steps, tf.int32)])
        target = backup(transition, self.target_networks, self._critic, seed)
        theta = self.networks.policy.trainable_variables
        w = self.networks.critic.trainable_variables

        # Both gradients are of the same (theta, w), before either changes.
        with tf.GradientTape() as critic_tape:
            outputs = self.networks.critic(transition.observation_tm1, transition.action_tm1)
            distance = self._critic.distance(target, outputs)  # d(Y_i, Z_w(x_i, a_i))
            critic_loss = tf.reduce_mean(weights * distance)
        with tf.GradientTape() as policy_tape:
            loss, mean_q = policy_loss(self._policy_state(transition), self.networks, self._critic)
        delta_w = critic_tape.gradient(critic_loss, w)
        delta_theta = policy_tape.gradient(loss, theta)
        self.critic_optimizer.apply(delta_w, w)
        self.policy_optimizer.apply(delta_theta, theta)

        self.steps.assign_add(1)
        targets.copy_periodically(
            self.steps,
            self._config.target_period,
            self.networks.variables,
            self.target_networks.variables,
        )
        priorities = self._critic.priorities(distance)
        metrics = (
            critic_loss, mean_q, tf.reduce_mean(priorities), tf.reduce_mean(weights),
            tf.reduce_max(weights), tf.linalg.global_norm(delta_w),
            tf.linalg.global_norm(delta_theta),
        )
        return priorities, dict(zip(METRICS, metrics, strict=True))

    def _policy_state(self, transition: Transition) -> tf.Tensor:
        """x_i, as algorithm 1 has it, or x_{i+N}."""
        first = self._config.policy_gradient_state == "first"
        return transition.observation_tm1 if first else transition.observation_t
