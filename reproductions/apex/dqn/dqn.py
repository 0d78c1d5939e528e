"""Ape-X DQN's learner (Horgan et al. 2018, algorithm 2; equations numbered as in the README)."""

from collections.abc import Sequence

import tensorflow as tf

from common.environments.spec import EnvironmentSpec
from common.learning import optimizers, targets
from common.learning.learner import Gradients, Learner
from common.networks.atari import DuelingNetwork
from common.types import Batch, StoredTransition
from common.values import double_q, prioritization
from reproductions.apex.dqn import networks as networks_lib
from reproductions.apex.dqn.config import DQNConfig

METRICS = (
    "loss",
    "mean_q",
    "q_max",
    "priority_mean",
    "priority_max",
    "importance_weight_mean",
    "gradient_norm",
)
"""Metrics of an update and their columns in learner.csv."""


def td_targets(
    transition: StoredTransition, online: DuelingNetwork, target: DuelingNetwork
) -> tf.Tensor:
    """Returns G_t = R_{t:t+n} + gamma_{t:t+n} q(S_{t+n}, a*, theta^-), [B] (eq 5).

    a* = argmax_a q(S_{t+n}, a, theta) (eq 4). No gradient flows into G_t.

    Args:
      transition: B transitions.
      online: the network with theta.
      target: the network with theta^-.
    """
    state = transition.observation_t
    return double_q.double_q_target(
        transition.n_step_reward,
        transition.n_step_discount,
        q_value=target(state),
        q_selector=online(state),
    )


def losses(errors: tf.Tensor) -> tf.Tensor:
    """Returns l_t = 1/2 delta_t^2 (eq 7), not a Huber loss: its gradient delta_t is unbounded."""
    return 0.5 * tf.square(errors)


class DQNLearner(Learner):
    """Learner with theta, theta^-, centred RMSProp, and algorithm 2's update (lines 5 to 8)."""

    def __init__(self, config: DQNConfig, spec: EnvironmentSpec):
        super().__init__()
        self._config = config
        dtype = tf.as_dtype(config.precision)
        self.network = networks_lib.make_network(config, spec, dtype)
        self.target_network = networks_lib.make_network(config, spec, dtype)
        self.optimizer = networks_lib.make_optimizer(config)
        theta = self.network.trainable_variables
        targets.copy(theta, self.target_network.trainable_variables)
        optimizers.create_variables(self.optimizer, theta)

    @property
    def actor_variables(self) -> tuple:
        """Variables that the actors copy: the online theta."""
        return self.network.trainable_variables

    def gradients(self, batch: Batch) -> Gradients:
        """Returns the gradients of a step on B transitions with observations [B, ...].

        The outputs are new priorities |delta| + floor [B] (eq 9), without importance weights.
        """
        transition: StoredTransition = batch.steps
        theta = self.network.trainable_variables
        weights = prioritization.normalize_by_max(
            prioritization.importance_weights(
                batch.probabilities, batch.size, self._config.importance_exponent
            )
        )
        target = td_targets(transition, self.network, self.target_network)
        with tf.GradientTape() as tape:
            q = self.network(transition.observation_tm1)
            errors = target - double_q.action_value(q, transition.action_tm1)  # delta_t (eq 6)
            loss = tf.reduce_mean(weights * losses(errors))  # eq 12
        gradients = tape.gradient(loss, theta)
        norm = tf.linalg.global_norm(gradients)
        if self._config.max_gradient_norm:
            gradients, _ = tf.clip_by_global_norm(gradients, self._config.max_gradient_norm, norm)
        priorities = tf.abs(errors) + self._config.priority_floor
        metrics = {
            "loss": loss,
            "mean_q": tf.reduce_mean(tf.reduce_max(q, axis=1)),
            "q_max": tf.reduce_max(q),
            "priority_mean": tf.reduce_mean(priorities),
            "priority_max": tf.reduce_max(priorities),
            "importance_weight_mean": tf.reduce_mean(weights),
            "gradient_norm": norm,
        }
        return Gradients(gradients, priorities, metrics)

    def apply(self, gradients: Sequence[tf.Tensor]) -> None:
        """Makes a step of the optimiser; see base class."""
        theta = self.network.trainable_variables
        self.optimizer.apply(gradients, theta)
        self.steps.assign_add(1)
        theta_minus = self.target_network.trainable_variables
        targets.copy_in_branch(self.steps, self._config.target_period, theta, theta_minus)
