"""ReF-ER (Novati & Koumoutsakos 2019, section 3): its rules, and the learner that follows them.

Rule 1 removes the gradient of stored steps that are far from the policy. Rule 2 pulls the policy
back towards the policies that acted, by a penalty whose weight 1 - beta a controller sets. V-RACER,
DDPG, NAF and ACER, each in a file of that name, differ only in networks and losses. In plain replay
both rules are off.

Equations are numbered as in the README.
"""

import abc
from collections.abc import Sequence
import math
from typing import Any, NamedTuple

import tensorflow as tf

from common.learning.learner import Adam, Learner, copy_variables, create_variables, move_towards
from common.networks.standardizer import Standardizer
from common.types import Batch, Metrics
from common.values import gaussian, value_learning
from reproductions.refer.config import ReferConfig


def annealed(initial: float, step: tf.Tensor | int, annealing: float) -> tf.Tensor:
    """Returns initial / (1 + A t), float32 scalar (eq 13): a learning rate, or c_max - 1.

    Args:
      initial: eta, or C.
      step: scalar integer, t.
      annealing: A, per unit of t.
    """
    return initial / (1.0 + annealing * tf.cast(step, tf.float32))


def near_policy(rho: tf.Tensor, c_max: tf.Tensor | float) -> tf.Tensor:
    """Returns whether steps are near the policy: 1 / c_max < rho < c_max.

    Args:
      rho: [...] floating, importance weights.
      c_max: scalar above 1.

    Returns:
      [...] bool.
    """
    return tf.logical_and(1.0 / c_max < rho, rho < c_max)


def next_beta(
    beta: tf.Tensor, far_fraction: tf.Tensor, tolerance: float, rate: tf.Tensor | float
) -> tf.Tensor:
    """Returns beta after an update (eq 12).

    It moves towards 0, where only the penalty counts, while more than D of the memory is far from
    the policy, and towards 1 otherwise.

    Args:
      beta: floating scalar in [0, 1].
      far_fraction: scalar, the part of the memory's steps that is far from the policy.
      tolerance: D.
      rate: eta, the annealed learning rate.

    Returns:
      Scalar in [0, 1].
    """
    return (1.0 - rate) * beta + rate * tf.cast(far_fraction <= tolerance, beta.dtype)


class Rules(NamedTuple):
    """The state of the rules at an update.

    Attributes:
      beta: scalar in [0, 1]; 1 without rule 2.
      c_max: scalar above 1, see `ReferLearner.c_max`.
      gate: whether rule 1 is on.
      log_bound: see `gaussian.importance_weight`.
    """

    beta: tf.Tensor | float
    c_max: tf.Tensor | float
    gate: bool
    log_bound: float = gaussian.LOG_BOUND

    def mask(self, rho: tf.Tensor) -> tf.Tensor:
        """Returns rule 1 as a factor: 1 near the policy and 0 elsewhere, or 1 if it is off.

        Steps with a factor of 0 have a gradient from rule 2's penalty only.

        Args:
          rho: [B] floating, importance weights.

        Returns:
          [B] in the dtype of `rho`, without a gradient.
        """
        return tf.cast(near_policy(rho, self.c_max), rho.dtype) if self.gate else tf.ones_like(rho)

    def penalized(self, losses: tf.Tensor, divergence: tf.Tensor) -> tf.Tensor:
        """Returns rule 2's weighted mean of an agent's losses and D_KL (eq 10): [B] twice -> [B].

        Equation 10 adds the penalty to a direction of ascent, with a minus sign. In a loss the sign
        is plus.
        """
        return self.beta * losses + (1.0 - self.beta) * divergence


def divergence(
    behaviour: Sequence[tf.Tensor], policy: Sequence[tf.Tensor], direction: str
) -> tf.Tensor:
    """Returns D_KL(mu || pi) in nats, [B] (eq 27), or D_KL(pi || mu).

    Args:
      behaviour: mean [B, A] and variance [B, A] of mu.
      policy: mean [B, A] and variance, [B, A] or [A], of pi.
      direction: "behavior_to_policy", as in the paper, or "policy_to_behavior".
    """
    if direction == "behavior_to_policy":
        return gaussian.kl_divergence(*behaviour, *policy)
    return gaussian.kl_divergence(*policy, *behaviour)


def rho_and_divergence(
    action: tf.Tensor,
    mean: tf.Tensor,
    behaviour_mean: tf.Tensor,
    sigma: float,
    log_bound: float = gaussian.LOG_BOUND,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns rho and D_KL(mu || pi) in nats, [B] each, of NAF's and DDPG's N(m, sigma^2 I).

    A gradient flows into `mean` only, and only from D_KL = |m - m_mu|^2 / (2 sigma^2). With means
    within [-1, 1] D_KL is at most 2 A / sigma^2.

    Args:
      action: [B, A] floating, actions of the behaviour mu.
      mean: [B, A], m.
      behaviour_mean: [B, A], mean of mu.
      sigma: standard deviation of both pi and mu.
      log_bound: see `gaussian.importance_weight`.
    """
    variance = tf.constant(sigma**2, mean.dtype)
    policy, behaviour = (mean, variance), (tf.stop_gradient(behaviour_mean), variance)
    rho = gaussian.importance_weight(action, *policy, *behaviour, log_bound)
    return tf.stop_gradient(rho), gaussian.kl_divergence(*behaviour, *policy)


class Refresh(NamedTuple):
    """New values of B steps, which the memory stores, all float32 [B].

    ACER's are [B L], the values of all L steps of its windows, one window after another.

    Attributes:
      values: V of the states; zeros from DDPG.
      rhos: importance weights.
      divergences: D_KL of the policies, in nats.
      errors: squared errors, for the ranks of prioritised replay.
      next_values: V of the next states, valid where `EpisodeBatch.bootstraps`; zeros from DDPG.
      advantages: A of the actions; zeros without an advantage.
    """

    values: tf.Tensor
    rhos: tf.Tensor
    divergences: tf.Tensor
    errors: tf.Tensor
    next_values: tf.Tensor
    advantages: tf.Tensor


class ReferLearner(Learner):
    """Base of the learners: standardised observations, the rules' state, annealed learning rates.

    The `steps` of a batch are an `EpisodeBatch`, with recurrent networks a `HistoryBatch`, or
    ACER's `WindowBatch`. `Gradients.outputs` is a `Refresh`.

    Attributes:
      standardizer: standardises observations; the agent sets its moments before the first update.
      far_fraction: float32 variable, the part of the memory that is far from the policy. The agent
        sets it and `mean_divergence` before each call.
      mean_divergence: float32 variable, mean D_KL of the memory in nats.
      reward_scale: float32 variable, sigma_r, which the agent sets when it is due.
      beta: float32 variable; 1 without rule 2.
      learning_rate: float32 variable, the annealed learning rate, which is also the rate of beta.
    """

    def __init__(self, config: ReferConfig, observation_size: int):
        """Creates what all learners share, for observations of `observation_size` elements."""
        super().__init__()
        self._config = config
        self.learning_rate = _variable(config.learning_rate, "learning_rate")
        self.standardizer = Standardizer(observation_size)
        self.far_fraction = _variable(0.0, "far_fraction")
        self.mean_divergence = _variable(0.0, "mean_divergence")
        self.reward_scale = _variable(1.0, "reward_scale")
        self.beta = _variable(config.initial_beta if config.penalty else 1.0, "beta")
        self._log_bound = math.log(config.max_importance_weight)

    def make_adam(self, rate: tf.Variable, variables: Sequence[tf.Variable]) -> Adam:
        """Returns an Adam with a learning rate, which has created its moments of `variables`."""
        config = self._config
        adam = Adam(rate, config.adam_beta1, config.adam_beta2, config.adam_epsilon)
        create_variables(adam, variables)
        return adam

    @property
    @abc.abstractmethod
    def policy_variables(self) -> Sequence[tf.Variable]:
        """Variables of the networks that act."""

    @property
    def actor_variables(self) -> tuple[tf.Variable, ...]:
        """Moments of the standardisation, then variables of the networks that act."""
        return (self.standardizer.mean, self.standardizer.deviation, *self.policy_variables)

    @abc.abstractmethod
    def make_step(self, gradients: Any) -> None:
        """Takes a step of optimisers and target networks, and counts it."""

    def apply(self, gradients: Any) -> None:
        """Takes a step with annealed rates, then updates beta (eqs 12, 13); see base class."""
        config = self._config
        self.anneal()
        self.make_step(gradients)
        if config.penalty:
            far_fraction, rate = self.far_fraction, self.learning_rate
            self.beta.assign(next_beta(self.beta, far_fraction, config.penalty_d, rate))

    def anneal(self) -> None:
        """Sets the annealed learning rates for the next step."""
        self.learning_rate.assign(self._annealed(self._config.learning_rate))

    def _annealed(self, rate: float) -> tf.Tensor:
        return annealed(rate, self.steps.read_value(), self._config.annealing_per_update)

    def rules(self) -> Rules:
        """Returns the rules for the next update."""
        return Rules(self.beta, self.c_max(), self._config.clipping, self._log_bound)

    def c_max(self) -> tf.Tensor:
        """Returns the current bound of importance weights near the policy (eq 13)."""
        return 1.0 + self._annealed(self._config.penalty_c)

    def weights(self, batch: Batch) -> tf.Tensor | float:
        """Returns the importance weights of prioritised replay, [B], at most 1; 1 if uniform.

        They are (p_min / p)^b, where b rises from `importance_exponent` to 1 with A t. They are not
        in the paper but in the authors' program, whose p_min is the memory's minimum probability
        instead of the batch's.
        """
        config = self._config
        if config.sampling == "uniform":
            return 1.0
        start = config.importance_exponent
        progress = tf.minimum(1.0, config.annealing_per_update * tf.cast(self.steps, tf.float32))
        return value_learning.normalize_by_max(
            value_learning.importance_weights(
                batch.probabilities, batch.size, start + (1.0 - start) * progress
            )
        )

    def shared_metrics(self) -> Metrics:
        """Returns the metrics that all learners have, from the state before the step."""
        return {
            "kl_divergence": self.mean_divergence.read_value(),
            "far_policy_fraction": self.far_fraction.read_value(),
            "beta": self.beta.read_value(),
            "c_max": self.c_max(),
            "learning_rate": self._annealed(self._config.learning_rate),
            "reward_scale": self.reward_scale.read_value(),
        }


class OneNetworkLearner(ReferLearner):
    """Base of the learners with a single network, which acts, and its Adam.

    Attributes:
      network: value and policy.
      optimizer: Adam of all parameters of `network`.
    """

    def __init__(self, config: ReferConfig, observation_size: int, network: Any):
        super().__init__(config, observation_size)
        self.network = network
        self.optimizer = self.make_adam(self.learning_rate, network.parameters)

    @property
    def policy_variables(self) -> Sequence[tf.Variable]:
        """Variables of the network."""
        return self.network.parameters

    def make_step(self, gradients: Sequence[tf.Tensor]) -> None:
        """Takes an Adam step."""
        self.optimizer.apply(gradients, self.network.parameters)
        self.steps.assign_add(1)


class TwoRatesGradients(NamedTuple):
    """The gradients with respect to the policy's and the critic's variables."""

    policy: Sequence[tf.Tensor]
    critic: Sequence[tf.Tensor]


class TwoRatesLearner(ReferLearner):
    """Base of the learners whose policy and critic each have an Adam and a learning rate.

    Attributes:
      policy_learning_rate: float32 variable, annealed; the critic has `learning_rate`.
      policy_optimizer: Adam of `policy_variables`.
      critic_optimizer: Adam of `critic_variables`.
    """

    def make_optimizers(self) -> None:
        """Copies the online to the slow networks and creates both Adams; networks must exist."""
        copy_variables(*self.online_and_slow)
        self.policy_learning_rate = _variable(self._config.policy_learning_rate, "learning_rate")
        self.policy_optimizer = self.make_adam(self.policy_learning_rate, self.policy_variables)
        self.critic_optimizer = self.make_adam(self.learning_rate, self.critic_variables)

    @property
    @abc.abstractmethod
    def critic_variables(self) -> Sequence[tf.Variable]:
        """Variables of the critic."""

    @property
    @abc.abstractmethod
    def online_and_slow(self) -> tuple[Sequence[tf.Variable], Sequence[tf.Variable]]:
        """Online variables, and the variables that move slowly towards them."""

    def anneal(self) -> None:
        """Sets both learning rates; see base class."""
        super().anneal()
        self.policy_learning_rate.assign(self._annealed(self._config.policy_learning_rate))

    def make_step(self, gradients: TwoRatesGradients) -> None:
        """Takes a step of both Adams, then moves the slow networks."""
        self.critic_optimizer.apply(gradients.critic, self.critic_variables)
        self.policy_optimizer.apply(gradients.policy, self.policy_variables)
        self.steps.assign_add(1)
        move_towards(*self.online_and_slow, self._config.target_rate)


def _variable(initial: float, name: str) -> tf.Variable:
    return tf.Variable(initial, trainable=False, name=name)
