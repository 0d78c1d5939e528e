"""V-RACER with ReF-ER (Novati & Koumoutsakos 2019, sections 3 and 4, appendix E).

One network outputs V, the policy N(m, Sigma) and, if the configuration says so, coefficients of an
advantage in closed form: a function f(s, a) that is largest at m, minus its mean under the policy.
Equations are numbered as in the README.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from common.learning.learner import Gradients
from common.replay.episode_wire import EpisodeBatch, HistoryBatch
from common.types import Batch
from common.values import closed_form, gaussian
from reproductions.refer import networks, rules
from reproductions.refer.config import ReferConfig
from reproductions.refer.rules import OneNetworkLearner, Refresh


def centred_advantage(
    config: ReferConfig, outputs: tf.Tensor, action: tf.Tensor, mean: tf.Tensor, variance: tf.Tensor
) -> tf.Tensor:
    """Returns A(s, a), [B] (eqs 18 to 22); zeros without an advantage.

    Gradients flow into `outputs` only: learning A moves neither m nor Sigma, as in the authors'
    program. The paper says that the error is minimised with respect to the coefficients.

    Args:
      config: its `advantage` names the form of f; the biases are also read.
      outputs: [B, C] floating, coefficients of f, see `networks.num_coefficients`.
      action: [B, A].
      mean: [B, A], m.
      variance: [B, A] or [A], the diagonal of Sigma.
    """
    action, mean, variance = map(tf.stop_gradient, (action, mean, variance))
    if config.advantage == "none":
        return tf.zeros_like(mean[:, 0])
    if config.advantage == "quadratic":
        lower = closed_form.lower_triangular(outputs, mean.shape[-1])
        return closed_form.centred_quadratic(action, mean, lower, variance)
    scale = tf.nn.softplus(outputs[:, 0] + config.advantage_scale_bias)
    above, below = tf.split(
        tf.nn.softplus(outputs[:, 1:] + config.advantage_width_bias), 2, axis=-1
    )
    return closed_form.centred_bell(action, mean, scale, above, below, variance)


def centred_advantage_np(
    config: ReferConfig,
    outputs: np.ndarray,
    action: np.ndarray,
    mean: np.ndarray,
    variance: np.ndarray,
) -> np.ndarray:
    """Returns `centred_advantage` in NumPy, to 1e-5; there must be an advantage."""
    if config.advantage == "quadratic":
        lower = closed_form.lower_triangular_np(outputs, mean.shape[-1])
        return closed_form.centred_quadratic_np(action, mean, lower, variance)
    scale = _softplus(outputs[:, 0] + np.float32(config.advantage_scale_bias))
    widths = _softplus(outputs[:, 1:] + np.float32(config.advantage_width_bias))
    above, below = np.split(widths, 2, axis=-1)
    return closed_form.centred_bell_np(action, mean, scale, above, below, variance)


def _softplus(x: np.ndarray) -> np.ndarray:
    return np.logaddexp(np.float32(0), x)


class VracerLosses(NamedTuple):
    """The losses of B steps and their parts, all [B].

    Attributes:
      loss: the loss to minimise.
      rho: importance weights.
      divergence: D_KL in nats.
      policy_loss: off-policy policy gradient (eq 5), 0 at masked steps.
      value_loss: half the squared distance of V from V_tbc, 0 at masked steps.
      advantage_loss: half the squared error of A (eq 23), 0 at masked steps.
      error: squared distance of V from V_tbc, also at masked steps.
    """

    loss: tf.Tensor
    rho: tf.Tensor
    divergence: tf.Tensor
    policy_loss: tf.Tensor
    value_loss: tf.Tensor
    advantage_loss: tf.Tensor
    error: tf.Tensor


def losses(
    value: tf.Tensor,
    mean: tf.Tensor,
    variance: tf.Tensor,
    action: tf.Tensor,
    behaviour_mean: tf.Tensor,
    behaviour_variance: tf.Tensor,
    q_ret: tf.Tensor,
    rules_now: rules.Rules,
    divergence: str = "behavior_to_policy",
    advantage: tf.Tensor | None = None,
    v_tbc: tf.Tensor | None = None,
) -> VracerLosses:
    """Returns V-RACER's losses under the rules of ReF-ER (eqs 5, 8, 10, 11, 23).

        beta near (-rho (Q_ret - V) + 1/2 (V - V_tbc)^2 + 1/2 (rho (A + V - Q_ret))^2)
          + (1 - beta) D_KL(mu || pi),  V_tbc = V + min(1, rho) (Q_ret - V - A)

    The gradient treats Q_ret - V and V_tbc as constants, and everything but A in the third term.
    Without an advantage A = 0, and there is no third term. Only `log_bound` bounds the policy's
    rho. No term has a weight of its own.

    Gradients flow into `value`, `mean`, `variance` and `advantage` only.

    Args:
      value: [B] floating, V.
      mean: [B, A], m of the policy pi.
      variance: [B, A] or [A], the diagonal of pi's covariance.
      action: [B, A], actions of the behaviour mu.
      behaviour_mean: [B, A], mean of mu.
      behaviour_variance: [B, A], variance of mu.
      q_ret: [B], the Retrace estimates of the action's value.
      rules_now: the rules as they are at this update.
      divergence: the direction, see `rules.divergence`.
      advantage: [B], A, see `centred_advantage`; None without one.
      v_tbc: [B], the stored V_tbc (algorithm 3); None computes it as above.
    """
    action, behaviour_mean, behaviour_variance = map(
        tf.stop_gradient, (action, behaviour_mean, behaviour_variance)
    )
    policy, behaviour = (mean, variance), (behaviour_mean, behaviour_variance)
    rho = gaussian.importance_weight(action, *policy, *behaviour, rules_now.log_bound)
    kl = rules.divergence(behaviour, policy, divergence)
    near = rules_now.mask(rho)
    estimate = tf.stop_gradient(q_ret - value)
    residual = estimate if advantage is None else estimate - tf.stop_gradient(advantage)
    if v_tbc is None:
        v_tbc = value + tf.minimum(1.0, rho) * residual
    policy_loss = -near * rho * estimate
    error = tf.square(value - tf.stop_gradient(v_tbc))
    value_loss = 0.5 * near * error
    own, advantage_loss = policy_loss + value_loss, tf.zeros_like(value)
    if advantage is not None:
        advantage_loss = 0.5 * near * tf.square(tf.stop_gradient(rho) * (advantage - estimate))
        own += advantage_loss
    total = rules_now.penalized(own, kl)
    return VracerLosses(total, rho, kl, policy_loss, value_loss, advantage_loss, error)


class VracerLearner(OneNetworkLearner):
    """V-RACER (section 4)."""

    def __init__(self, config: ReferConfig, observation_size: int, action_size: int):
        network = networks.VracerNetwork(config, observation_size, action_size)
        super().__init__(config, observation_size, network)

    def gradients(self, batch: Batch) -> Gradients:
        """Returns the gradients of a step on B steps; see base class."""
        config, network, steps = self._config, self.network, batch.steps
        view = networks.view_of(steps, self.standardizer)
        observation, action, behaviour = view.observation, view.states.action, view.states.extras
        has_advantage = config.advantage != "none"
        with tf.GradientTape() as tape:
            value, mean, coefficients = network(observation)
            variance = network.variance
            advantage = centred_advantage(config, coefficients, action, mean, variance)
            found = losses(
                value,
                mean,
                variance,
                action,
                behaviour["mean"],
                behaviour["variance"],
                steps.q_ret,
                self.rules(),
                config.divergence,
                advantage if has_advantage else None,
                steps.v_tbc if config.value_target == "stored" else None,
            )
            loss = tf.reduce_mean(self.weights(batch) * found.loss)
        gradients = tape.gradient(loss, network.parameters)
        refresh = Refresh(
            value,
            found.rho,
            found.divergence,
            found.error,
            self._next_values(view, steps),
            advantage,
        )
        metrics = {
            **self.shared_metrics(),
            "policy_loss": tf.reduce_mean(found.policy_loss),
            "value_loss": tf.reduce_mean(found.value_loss),
            "mean_variance": tf.reduce_mean(network.variance),
            "gradient_norm": tf.linalg.global_norm(gradients),
        }
        if has_advantage:
            metrics["advantage_loss"] = tf.reduce_mean(found.advantage_loss)
        return Gradients(gradients, refresh, metrics)

    def _next_values(self, view: networks.View, steps: EpisodeBatch | HistoryBatch) -> tf.Tensor:
        """Returns V of the next states, or zeros if no step of the batch needs a bootstrap."""
        return tf.cond(
            tf.reduce_any(steps.bootstraps),
            lambda: self.network(view.next_observation).value,
            lambda: tf.zeros_like(steps.q_ret),
        )
