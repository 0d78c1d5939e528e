"""D4PG, algorithm 1: the learner (Barth-Maron et al. 2018; equations as in the README)."""

from typing import NamedTuple

import tensorflow as tf

from common.learning import optimizers
from common.learning import targets
from common.learning.update_loop import Batch
from common.values import categorical
from common.values import policy_gradients
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


def target_distribution(
    transition: Transition, target: networks_lib.Networks, support: tf.Tensor
) -> tf.Tensor:
    """Y_i, projected: Phi(R_N + gamma_N Z_w'(x_{i+N}, pi_theta'(x_{i+N}))), [B, l] (eqs 9, 15)."""
    action = target.policy(transition.observation_t)
    probabilities = tf.nn.softmax(target.critic(transition.observation_t, action))
    positions = categorical.target_positions(
        transition.n_step_reward, transition.n_step_discount, support
    )
    return categorical.project(positions, probabilities, support)


def importance_weights(probabilities: tf.Tensor, size: tf.Tensor, exponent: float) -> tf.Tensor:
    """(R p_i)^-1, raised to `exponent`; neither normalised nor bounded (eq 10), [B]."""
    return (size * probabilities) ** -exponent


def policy_loss(
    observation: tf.Tensor, networks: networks_lib.Networks, support: tf.Tensor
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
        q = categorical.mean(networks.critic(observation, fixed), support)
    dqda = tape.gradient(q, fixed)
    loss = policy_gradients.deterministic_policy_gradient_loss(action, dqda, dqda_clip=None)
    return tf.reduce_mean(loss), tf.reduce_mean(q)


class D4PGLearner(tf.Module):
    """(theta, w), (theta', w'), both Adams, and the update of algorithm 1, lines 5 to 9."""

    def __init__(self, config: D4PGConfig, observation_size: int, action_size: int):
        super().__init__()
        self._config = config
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
        self._support = categorical.support(config.v_min, config.v_max, config.num_atoms)

    @property
    def actor_variables(self) -> tuple:
        """What is replicated to the actors: the online (theta, w) (algorithm 1, line 10)."""
        return self.networks.variables

    def update(self, batch: Batch) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        """One learner step on M transitions.

        Returns:
          The new priorities d(Y_i, Z_w(x_i, a_i)) [B], not negative, and the METRICS.
        """
        transition: Transition = batch.steps
        weights = importance_weights(
            batch.probabilities, batch.size, self._config.importance_exponent
        )
        target = target_distribution(transition, self.target_networks, self._support)
        theta = self.networks.policy.trainable_variables
        w = self.networks.critic.trainable_variables

        # Both gradients are of the same (theta, w), before either changes.
        with tf.GradientTape() as critic_tape:
            logits = self.networks.critic(transition.observation_tm1, transition.action_tm1)
            distance = categorical.cross_entropy(target, logits)  # d(Y_i, Z_w(x_i, a_i))
            critic_loss = tf.reduce_mean(weights * distance)
        with tf.GradientTape() as policy_tape:
            loss, mean_q = policy_loss(transition.observation_tm1, self.networks, self._support)
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
        metrics = (
            critic_loss, mean_q, tf.reduce_mean(distance), tf.reduce_mean(weights),
            tf.reduce_max(weights), tf.linalg.global_norm(delta_w),
            tf.linalg.global_norm(delta_theta),
        )
        return distance, dict(zip(METRICS, metrics, strict=True))
