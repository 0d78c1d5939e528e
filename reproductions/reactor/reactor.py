"""Reactor's learner (sections 3.1 to 3.4; equations numbered as in the paper).

T is the number of transitions of a sequence, which has T + 1 frames x_1, ..., x_{T+1}. What ends in
`_tm1` is of the frames x_1 to x_T, where the network is trained; what ends in `_t` is of x_2 to
x_{T+1}, where the target network evaluates. Index k is the frame x_{k+1} there.
"""

from collections.abc import Sequence
from typing import NamedTuple

import dm_env
import tensorflow as tf

from common.environments.spec import EnvironmentSpec
from common.learning import optimizers, targets
from common.learning.learner import Gradients, Learner
from common.types import Batch, StoredTimestep
from common.values import categorical, policy_gradients, prioritization, retrace
from reproductions.reactor import networks as networks_lib
from reproductions.reactor.config import ReactorConfig
from reproductions.reactor.networks import ReactorNetwork, ReactorOutputs, ReactorState

METRICS = (
    "loss",
    "entropy",
    "mean_q",
    "mean_trace",
    "priority_mean",
    "priority_max",
    "importance_weight_mean",
    "gradient_norm",
)
"""Metrics of an update and their columns in learner.csv."""

_FIRST = int(dm_env.StepType.FIRST)
_LAST = int(dm_env.StepType.LAST)


class RetraceTargets(NamedTuple):
    """Targets of the action values at the frames x_1 to x_T.

    Attributes:
      values: [T, B, K], the distributions q*(x_t, a_t); [T, B] without distributions.
      returns: [T, B], R(x_t, a_t): the values' means.
      traces: [T, B], the coefficients c_t.
    """

    values: tf.Tensor
    returns: tf.Tensor
    traces: tf.Tensor


def retrace_targets(
    target: ReactorOutputs, steps_t: StoredTimestep, support: tf.Tensor | None, lambda_: float
) -> RetraceTargets:
    """Returns the targets of Retrace for the target network's policy (sections 2.1.2 and 3.2).

    The end of an episode has a discount of 0. Where only the time was up (LAST with a discount
    above 0) the return is bootstrapped from all actions' values: c is 0 there, since the action at
    LAST was never taken.

    Args:
      target: of the target network at the frames x_2 to x_{T+1}.
      steps_t: the same frames, [T, B, ...].
      support: [K], the atoms; None without distributions.
      lambda_: see `retrace.coefficients`.
    """
    a_t, mu_t = steps_t.action, steps_t.extras["mu"]
    c_t = retrace.coefficients(target.policy, a_t, mu_t, lambda_)  # eq 4
    c_t *= _mask(steps_t)
    if support is None:
        values = retrace.scalar_targets(
            target.q, target.policy, a_t, c_t, steps_t.reward, steps_t.discount
        )
        return RetraceTargets(values, values, c_t)
    values = retrace.categorical_targets(
        tf.nn.softmax(target.logits),
        target.policy,
        a_t,
        c_t,
        steps_t.reward,
        steps_t.discount,
        support,
    )
    # No matvec: in TensorFlow 2.21 its kernel corrupts memory when it broadcasts a matrix.
    return RetraceTargets(values, tf.reduce_sum(values * support, axis=-1), c_t)


def value_losses(
    online: ReactorOutputs, actions: tf.Tensor, target_values: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the losses of action values and the magnitudes of their gradients, both [T, B].

    With distributions that is -sum_i q*_i log q_i (section 3.2), whose gradient with respect to the
    logits has a magnitude of sum_i |q*_i - q_i|. Without, it is (R - Q)^2 / 2 and |R - Q|. The mean
    of these magnitudes is a sequence's priority (section 3.3).

    Args:
      online: of the network at the frames x_1 to x_T.
      actions: [T, B] integer, taken there.
      target_values: of `RetraceTargets`.
    """
    if online.logits is None:
        errors = target_values - tf.gather(online.q, actions, axis=2, batch_dims=2)
        return 0.5 * tf.square(errors), tf.abs(errors)
    logits = tf.gather(online.logits, actions, axis=2, batch_dims=2)  # [T, B, K]
    losses = -tf.reduce_sum(target_values * tf.nn.log_softmax(logits), axis=-1)
    return losses, categorical.total_variation(target_values, tf.nn.softmax(logits))


def policy_losses(
    online: ReactorOutputs, steps_tm1: StoredTimestep, returns: tf.Tensor, config: ReactorConfig
) -> tf.Tensor:
    """Returns losses [T, B] whose gradients are minus the policy gradients of section 3.1.

    Gradients flow into the policy only. The values are no measure of progress.

    Args:
      online: of the network at the frames x_1 to x_T.
      steps_tm1: the same frames, [T, B, ...].
      returns: [T, B], R.
      config: names the estimator.
    """
    actions, mu = steps_tm1.action, steps_tm1.extras["mu"]
    if config.policy_gradient in ("tislr", "islr"):
        c = config.c if config.policy_gradient == "tislr" else float("inf")
        return policy_gradients.truncated_islr_loss(
            online.policy, mu, online.q, actions, returns, c
        )
    c = config.c if config.policy_gradient == "beta_loo" else float("inf")
    mu_a = tf.gather(mu, actions, axis=2, batch_dims=2)
    beta = policy_gradients.leave_one_out_beta(mu_a, c)
    return policy_gradients.leave_one_out_loss(online.policy, online.q, actions, returns, beta)


def entropies(policy: tf.Tensor) -> tf.Tensor:
    """Returns H(pi) = -sum_a pi(a) log pi(a), in nats: [T, B, A] -> [T, B]."""
    return -tf.reduce_sum(policy * tf.math.log(policy), axis=-1)


class ReactorLearner(Learner):
    """Learner with the network, the target network, Adam, and the update of section 3.4.

    Attributes:
      network: trained on the frames x_1 to x_T.
      target_network: evaluates the frames x_2 to x_{T+1}.
    """

    def __init__(self, config: ReactorConfig, spec: EnvironmentSpec):
        super().__init__()
        self._config = config
        self.network: ReactorNetwork = networks_lib.make_network(config, spec)
        self.target_network: ReactorNetwork = networks_lib.make_network(config, spec)
        self.optimizer = networks_lib.make_optimizer(config)
        targets.copy(self.actor_variables, self.target_variables)
        optimizers.create_variables(self.optimizer, self.actor_variables)

    @property
    def actor_variables(self) -> tuple:
        """Variables of the network, which actors and evaluator copy."""
        return self.network.trainable_variables

    @property
    def target_variables(self) -> tuple:
        """Variables of the target network, in the order of `actor_variables`."""
        return self.target_network.trainable_variables

    def gradients(self, batch: Batch) -> Gradients:
        """Returns the gradients of a step on B sequences with images uint8 [B, T + 1, H, W, C].

        A sequence's loss is the mean over its T frames. At a LAST frame nothing is learnt, since
        its action was never taken; it counts as a loss and an error of 0. The outputs are new
        priorities [B], the mean errors without importance weights.
        """
        config = self._config
        steps = tf.nest.map_structure(_swap_leading, batch.steps)
        steps_tm1: StoredTimestep = tf.nest.map_structure(lambda column: column[:-1], steps)
        steps_t: StoredTimestep = tf.nest.map_structure(lambda column: column[1:], steps)
        weights = prioritization.importance_weights(
            batch.probabilities, batch.size, config.importance_exponent
        )
        target = self._unroll(self.target_network, steps_t)
        retraced = retrace_targets(target, steps_t, self.network.support, config.trace_lambda)
        with tf.GradientTape() as tape:
            online = self._unroll(self.network, steps_tm1)
            q_losses, errors = value_losses(online, steps_tm1.action, retraced.values)
            pi_losses = policy_losses(online, steps_tm1, retraced.returns, config)
            entropy = entropies(online.policy)
            # The losses need no weights: values and policy have no variables in common.
            losses = q_losses + pi_losses - config.entropy_cost * entropy
            mask = _mask(steps_tm1)
            loss = tf.reduce_mean(weights * tf.reduce_mean(mask * losses, axis=0))
        gradients = tape.gradient(loss, self.actor_variables)
        priorities = tf.reduce_mean(mask * errors, axis=0)
        values = tf.reduce_sum(online.policy * online.q, axis=-1)
        metrics = {
            "loss": tf.reduce_mean(weights * tf.reduce_mean(mask * q_losses, axis=0)),
            "entropy": tf.reduce_mean(entropy),
            "mean_q": tf.reduce_mean(values),
            "mean_trace": tf.reduce_mean(retraced.traces),
            "priority_mean": tf.reduce_mean(priorities),
            "priority_max": tf.reduce_max(priorities),
            "importance_weight_mean": tf.reduce_mean(weights),
            "gradient_norm": tf.linalg.global_norm(gradients),
        }
        return Gradients(gradients, priorities, metrics)

    def apply(self, gradients: Sequence[tf.Tensor]) -> None:
        """Makes a step of Adam and copies the target network every T_update; see base class."""
        self.optimizer.apply(gradients, self.actor_variables)
        self.steps.assign_add(1)
        targets.copy_in_branch(
            self.steps, self._config.target_period, self.actor_variables, self.target_variables
        )

    def _unroll(self, network: ReactorNetwork, steps: StoredTimestep) -> ReactorOutputs:
        """Returns a network's outputs at T frames, from the states before the first of them."""
        is_first = tf.equal(steps.step_type, _FIRST)
        if self._config.stored_state:
            state = tf.nest.map_structure(lambda column: column[0], steps.extras["state"])
        else:
            state = network.initial_state(tf.shape(is_first)[1])
        outputs, _ = network.unroll(steps.observation, is_first, ReactorState(*state))
        return outputs


def _swap_leading(column: tf.Tensor) -> tf.Tensor:
    """Swaps [B, T, ...] to [T, B, ...], without `tf.transpose`, which logs errors about uint8."""
    return tf.stack(tf.unstack(column, axis=1))


def _mask(steps: StoredTimestep) -> tf.Tensor:
    """Returns 0 at LAST frames, whose action was never taken, and 1 elsewhere: [T, B] float32."""
    return tf.cast(tf.not_equal(steps.step_type, _LAST), tf.float32)
