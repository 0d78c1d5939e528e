"""NAF with ReF-ER (Novati & Koumoutsakos 2019, sections 2 and 3).

One network outputs V, the best action m and a matrix L, from which Q is computed. Equations are
numbered as in the README.
"""

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from common.learning.learner import Gradients, copy_variables, move_towards
from common.types import Batch
from common.values import closed_form
from reproductions.refer import networks, rules
from reproductions.refer.config import ReferConfig
from reproductions.refer.rules import OneNetworkLearner, Refresh


class NafLosses(NamedTuple):
    """The losses of B steps and their parts, all [B].

    Attributes:
      loss: the loss to minimise.
      rho: importance weights.
      divergence: D_KL in nats.
      q: Q(s, a) before the step.
    """

    loss: tf.Tensor
    rho: tf.Tensor
    divergence: tf.Tensor
    q: tf.Tensor


def losses(
    value: tf.Tensor,
    mean: tf.Tensor,
    lower: tf.Tensor,
    action: tf.Tensor,
    behaviour_mean: tf.Tensor,
    target: tf.Tensor,
    rules_now: rules.Rules,
    sigma: float,
    beta_of_all: bool = False,
) -> NafLosses:
    """Returns NAF's losses under the rules of ReF-ER (eqs 4, 10, 11).

        near 1/2 (Q(s, a) - y)^2 + (1 - beta) D_KL(mu || pi),  Q = V - 1/2 (a - m)^T L L^T (a - m)

    The square's gradient with respect to m is multiplied by beta; the gradients of V and L are not,
    unless `beta_of_all`. The policy pi is N(m, sigma^2 I); mu is an earlier version of it.

    Gradients flow into `value`, `mean` and `lower` only.

    Args:
      value: [B] floating, V.
      mean: [B, A], m.
      lower: [B, A, A], L, see `closed_form.lower_triangular`.
      action: [B, A], actions of the behaviour mu.
      behaviour_mean: [B, A], mean of mu.
      target: [B], y.
      rules_now: the rules as they are at this update.
      sigma: standard deviation of pi and mu.
      beta_of_all: whether beta multiplies the whole square (equation 10), unlike in the authors'
        program. The paper does not say how ReF-ER splits NAF's gradient.
    """
    action, target, fixed = map(tf.stop_gradient, (action, target, mean))
    rho, kl = rules.rho_and_divergence(action, mean, behaviour_mean, sigma, rules_now.log_bound)
    # The value of m, with beta times its gradient.
    scaled = mean if beta_of_all else fixed + rules_now.beta * (mean - fixed)
    q = value + closed_form.quadratic(action, scaled, lower)
    q_loss = 0.5 * rules_now.mask(rho) * tf.square(q - target)
    weight = rules_now.beta if beta_of_all else 1.0
    return NafLosses(weight * q_loss + (1.0 - rules_now.beta) * kl, rho, kl, q)


class NafLearner(OneNetworkLearner):
    """NAF, whose network also outputs the matrix of the advantage (section 2).

    Attributes:
      target_network: slow copy of `network`, from whose values targets bootstrap.
    """

    def __init__(self, config: ReferConfig, observation_size: int, action_size: int):
        network = networks.NafNetwork(config, observation_size, action_size)
        super().__init__(config, observation_size, network)
        self.target_network = networks.NafNetwork(config, observation_size, action_size)
        copy_variables(network.parameters, self.target_network.parameters)

    def gradients(self, batch: Batch) -> Gradients:
        """Returns the gradients of a step on B steps; see base class."""
        config, network, steps = self._config, self.network, batch.steps
        view = networks.view_of(steps, self.standardizer)
        observation = view.observation
        next_value = self.target_network.value(view.next_observation)
        target = steps.rewards + steps.discounts * next_value
        with tf.GradientTape() as tape:
            outputs = network(observation)
            found = losses(
                *outputs,
                view.states.action,
                view.states.extras["mean"],
                target,
                self.rules(),
                config.sigma,
                config.naf_beta == "all",
            )
            loss = tf.reduce_mean(self.weights(batch) * found.loss)
        gradients = tape.gradient(loss, network.parameters)
        errors = tf.square(found.q - target)
        zeros = tf.zeros_like(errors)
        refresh = Refresh(outputs.value, found.rho, found.divergence, errors, next_value, zeros)
        metrics = {
            **self.shared_metrics(),
            "critic_loss": 0.5 * tf.reduce_mean(errors),
            "mean_q": tf.reduce_mean(found.q),
            "gradient_norm": tf.linalg.global_norm(gradients),
        }
        return Gradients(gradients, refresh, metrics)

    def make_step(self, gradients: Sequence[tf.Tensor]) -> None:
        """Takes an Adam step, then moves the target network."""
        super().make_step(gradients)
        online, target = self.network.parameters, self.target_network.parameters
        move_towards(online, target, self._config.target_rate)
