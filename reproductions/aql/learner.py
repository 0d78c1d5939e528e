"""AQL's learner (section 4, algorithm 2, appendix A2), also of the methods with another search.

T timesteps of an unroll are s_1 to s_T. Losses are sums over time and batch, as in algorithm 2.
"""

from typing import NamedTuple

import tensorflow as tf

from common.environments.spec import EnvironmentSpec
from common.learning import optimizers
from common.learning.learner import Gradients, Learner
from common.types import Batch, Nest
from common.values import q_lambda
from reproductions.aql import networks
from reproductions.aql.actions import ActionSpace
from reproductions.aql.config import AQLConfig

METRICS = ("value_loss", "mean_q", "value_gradient_norm")
"""Metrics of an update of every method and their columns in learner.csv."""

PROPOSAL_METRICS = ("proposal_loss", "entropy", "proposal_gradient_norm")
"""Metrics of an update of the proposal."""


class StoredUnroll(NamedTuple):
    """The columns of an unroll, [B, T, ...].

    Attributes:
      observation: [Ds] float32; of images [H, W, C] uint8.
      action_index: [D] float32, the action taken; as all actions, in the form of `ActionSpace`.
      best_index: [D] float32, a* as the actor found it; of D3PG the policy's own action.
      reward: float32, of the step that follows; 0 at the last timestep of an episode.
      discount: float32, the environment's discount of the step that follows; 0 at the last
        timestep of an episode.
      is_last: bool, whether the timestep is the last of its episode.
      state: `RecurrentState` [B, ...] with which the actor came to the first timestep; () where no
        layer is recurrent.
    """

    observation: tf.Tensor
    action_index: tf.Tensor
    best_index: tf.Tensor
    reward: tf.Tensor
    discount: tf.Tensor
    is_last: tf.Tensor
    state: Nest = ()


def targets(
    reward: tf.Tensor,
    discount: tf.Tensor,
    is_last: tf.Tensor,
    best_value: tf.Tensor,
    gamma: float,
    lambda_: float,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns Peng's Q(lambda) targets of s_1 to s_{T-1}, and their weights (appendix A2).

        G_t = r_t + gamma c_t [(1 - lambda) V_{t+1} + lambda G_{t+1}],  G_T := V_T

    Lambda is constant, also where actions explored. The last timestep of an episode is bootstrapped
    from, so that a time limit (c = 1) is no end, but no trace crosses it; its own weight is 0,
    since no action was taken there. No gradient flows into any argument.

    Args:
      reward: [T, B] floating, of the step that follows each timestep.
      discount: [T, B], c, the environment's discount of that step.
      is_last: [T, B] bool.
      best_value: [T, B], V = Q(s, a*).
      gamma: discount per step.
      lambda_: trace parameter.

    Returns:
      target: [T - 1, B], G.
      weight: [T - 1, B], 1, or 0 at the last timestep of an episode.
    """
    ends = tf.cast(is_last, reward.dtype)
    target = q_lambda.returns(
        reward[:-1], gamma * discount[:-1], best_value[1:], lambda_ * (1 - ends[1:])
    )
    return tf.stop_gradient(target), 1 - ends[:-1]


def targets_of(
    unroll: StoredUnroll, best_value: tf.Tensor, config: AQLConfig
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns `targets` of B unrolls, given V of their timesteps, [T, B]."""
    columns = map(tf.transpose, (unroll.reward, unroll.discount, unroll.is_last))
    return targets(*columns, best_value, config.discount, config.trace)


def value_loss(value: tf.Tensor, target: tf.Tensor, weight: tf.Tensor) -> tf.Tensor:
    """Returns the sum of weight (G - Q(s, a))^2 (eq 4 with Q(lambda)); [T - 1, B] each -> scalar.

    Gradients flow into `value` only: the target is a constant.
    """
    return tf.reduce_sum(weight * tf.square(tf.stop_gradient(target) - value))


def proposal_loss(log_prob: tf.Tensor, entropy: tf.Tensor, entropy_cost: float) -> tf.Tensor:
    """Returns the sum of -log mu(a*) - lambda H(mu) (eq 3); [T, B] each -> scalar."""
    return -tf.reduce_sum(log_prob + entropy_cost * entropy)


def time_major(values: tf.Tensor, length: int) -> tf.Tensor:
    """Returns [T, B] of values [B, T] or [B * T], which follow each other unroll by unroll."""
    return tf.transpose(tf.reshape(values, [-1, length]))


def flat(column: tf.Tensor) -> tf.Tensor:
    """Returns [B * T, N] of a column [B, T, N]."""
    return tf.reshape(column, [-1, column.shape[-1]])


class AQLLearner(Learner):
    """Learner of Q by the actors' a*, without a target network, and of a proposal if there is one.

    It does not search: a* are those that the actors stored.

    Attributes:
      value: Q.
      proposal: the proposal with its hidden layers; None if the search has no proposal.
      value_variables: variables of Q, shared layers included.
      proposal_variables: variables of the proposal; () without.
    """

    def __init__(self, config: AQLConfig, spec: EnvironmentSpec, space: ActionSpace):
        """Builds the networks, two optimisers and their variables."""
        super().__init__()
        self._config = config
        self.value = networks.ValueNetwork(config, spec, space)
        self.proposal: networks.ProposalNetwork | None = None
        if config.search == "proposal":
            num_features = self.value.shared.output_size
            self.proposal = networks.ProposalNetwork(config, num_features, space)
        self.value_optimizer = networks.make_optimizer(config)
        optimizers.create_variables(self.value_optimizer, self.value_variables)
        if self.proposal is not None:
            self.proposal_optimizer = networks.make_optimizer(config)
            optimizers.create_variables(self.proposal_optimizer, self.proposal_variables)

    @property
    def value_variables(self) -> tuple[tf.Variable, ...]:
        """Variables that the value loss trains."""
        return self.value.parameters

    @property
    def proposal_variables(self) -> tuple[tf.Variable, ...]:
        """Variables that the proposal loss trains."""
        return () if self.proposal is None else self.proposal.parameters

    @property
    def actor_variables(self) -> tuple[tf.Variable, ...]:
        """Variables of Q, then of the proposal."""
        return (*self.value_variables, *self.proposal_variables)

    def gradients(self, batch: Batch) -> Gradients:
        """Returns the gradients of both losses on B unrolls; nothing is written back."""
        config, unroll = self._config, batch.steps
        length, best = unroll.reward.shape[1], flat(unroll.best_index)
        with tf.GradientTape() as tape:
            features = networks.features_of(self.value.shared, unroll)
            part = self.value.state(features)
            value = time_major(self.value.values(part, flat(unroll.action_index)), length)
            with tape.stop_recording():
                best_value = time_major(self.value.values(part, best), length)
            target, weight = targets_of(unroll, best_value, config)
            loss = value_loss(value[:-1], target, weight)
        value_gradients = tape.gradient(loss, self.value_variables)
        metrics = {
            "value_loss": tf.math.divide_no_nan(loss, tf.reduce_sum(weight)),
            "mean_q": tf.reduce_mean(best_value),
            "value_gradient_norm": tf.linalg.global_norm(value_gradients),
        }
        proposal_gradients = ()
        if self.proposal is not None:
            proposal_gradients, more = self._proposal_gradients(features, best)
            metrics |= more
        return Gradients((value_gradients, proposal_gradients), (), metrics)

    def _proposal_gradients(self, features: tf.Tensor, best: tf.Tensor) -> tuple:
        """Returns the gradients of the proposal's own layers at all timesteps, and metrics."""
        with tf.GradientTape() as tape:
            hidden = self.proposal.trunk(tf.stop_gradient(features))
            log_prob, entropy = self.proposal.proposal.log_prob_and_entropy(hidden, best)
            loss = proposal_loss(log_prob, entropy, self._config.entropy_cost)
        gradients = tape.gradient(loss, self.proposal_variables)
        return gradients, {
            "proposal_loss": -tf.reduce_mean(log_prob),
            "entropy": tf.reduce_mean(entropy),
            "proposal_gradient_norm": tf.linalg.global_norm(gradients),
        }

    def apply(self, gradients: tuple) -> None:
        """Makes a step of both optimisers; see base class."""
        value_gradients, proposal_gradients = gradients
        self.value_optimizer.apply(value_gradients, self.value_variables)
        if self.proposal is not None:
            self.proposal_optimizer.apply(proposal_gradients, self.proposal_variables)
        self.steps.assign_add(1)
