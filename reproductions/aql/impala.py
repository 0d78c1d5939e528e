"""IMPALA (section 5.1): an actor-critic with V-trace on unrolls that are learnt from once.

The paper only names it, as an actor-critic with importance weighted advantages. The details are not
in the paper. The policy is AQL's proposal over the discretised actions. The losses and the
baseline's cost are those of IMPALA's paper and published program, which has no replay either.
"""

import math

import numpy as np
import sonnet as snt
import tensorflow as tf

from common.environments.spec import EnvironmentSpec
from common.learning.learner import Gradients, Learner, create_variables
from common.networks import numpy_twins
from common.networks.control import ReluMLP
from common.types import Batch
from common.values.multistep import v_trace
from reproductions.aql import networks
from reproductions.aql.actions import ActionSpace
from reproductions.aql.aql import SharedLayersPolicy, flat, time_major
from reproductions.aql.config import AQLConfig
from reproductions.aql.networks import load_parts, shared_twin
from reproductions.aql.proposals import FlatPolicy, FlatPolicyTwin, ProposalTwin


class PolicyNetwork(snt.Module):
    """The policy and the layers that it shares with the baseline.

    Attributes:
      shared: the shared layers, see `networks.make_shared`.
      policy: the distribution of actions, with its hidden layers.
      parameters: all variables, the shared ones first.
    """

    def __init__(self, config: AQLConfig, spec: EnvironmentSpec, space: ActionSpace):
        """Builds the layers and their variables."""
        super().__init__()
        self.shared = networks.make_shared(config, spec, space)
        self.policy = networks.ProposalNetwork(config, self.shared.output_size, space)
        self.parameters = (*self.shared.trainable_variables, *self.policy.parameters)


def targets(
    log_rho: tf.Tensor,
    reward: tf.Tensor,
    discount: tf.Tensor,
    is_last: tf.Tensor,
    value: tf.Tensor,
    gamma: float,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns V-trace's targets and advantages of s_1 to s_{T-1}, and their weights.

    The targets bootstrap from the last timestep of an episode, so that a time limit is not an end,
    but no trace crosses it. The weight of that timestep is 0, since no action was taken there. No
    gradient flows into any argument.

    Args:
      log_rho: [T, B] floating, log pi - log mu of the actions taken.
      reward: [T, B], the reward of the step that follows each timestep.
      discount: [T, B], the environment's discount of that step.
      is_last: [T, B] bool.
      value: [T, B], the baseline's values.
      gamma: discount per step.

    Returns:
      target: [T - 1, B], v.
      advantage: [T - 1, B].
      weight: [T - 1, B], 1, or 0 at the last timestep of an episode.
    """
    # At a last timestep the value is its own target: an error of 0. A discount of 0 cuts the trace.
    reward = tf.where(is_last, value, reward)
    target, advantage = v_trace(
        log_rho[:-1], gamma * discount[:-1], reward[:-1], value[:-1], value[-1]
    )
    return target, advantage, 1 - tf.cast(is_last[:-1], value.dtype)


def entropy_cost(config: AQLConfig, space: ActionSpace) -> float:
    """Returns the cost per nat. A uniform policy gains `impala_entropy_cost` in any action set."""
    return config.impala_entropy_cost / max(math.log(space.num_actions), math.log(2))


class ImpalaLearner(Learner):
    """Learner of a stochastic policy and a baseline, with one loss and one optimiser.

    Attributes:
      network: the policy and the shared layers.
      baseline: V, with the layer sizes that Q has at a state: [B, F] -> [B, 1].
    """

    def __init__(self, config: AQLConfig, spec: EnvironmentSpec, space: ActionSpace):
        """Builds the networks, the optimiser and their variables."""
        super().__init__()
        self._config = config
        self._entropy_cost = entropy_cost(config, space)
        self.network = PolicyNetwork(config, spec, space)
        sizes = (config.state_size, *config.joint_sizes)
        last = snt.Linear(1, w_init=networks.near_zero(sizes[-1]), name="value")
        self.baseline = ReluMLP(self.network.shared.output_size, sizes, last)
        self.optimizer = networks.make_optimizer(config)
        create_variables(self.optimizer, self.variables_trained)

    @property
    def variables_trained(self) -> tuple[tf.Variable, ...]:
        """Variables that the loss trains: those of `network`, then those of `baseline`."""
        return (*self.network.parameters, *self.baseline.trainable_variables)

    @property
    def actor_variables(self) -> tuple[tf.Variable, ...]:
        """Variables of the policy and of the layers that it shares; acting needs no baseline."""
        return self.network.parameters

    def gradients(self, batch: Batch) -> Gradients:
        """Returns the gradients of the loss on B unrolls; nothing is written back.

        The loss sums three terms over time and batch: -A log pi(a), half the baseline's squared
        error times its cost, and minus the entropy times its cost. Rewards are scaled, and
        therefore V and A as well.
        """
        config, unroll = self._config, batch.steps
        length = unroll.reward.shape[1]
        reward, discount, is_last, log_mu = map(
            tf.transpose,
            (unroll.reward, unroll.discount, unroll.is_last, unroll.extras["log_prob"]),
        )
        reward *= config.impala_reward_scale
        with tf.GradientTape() as tape:
            features = networks.features_of(self.network.shared, unroll)
            policy = self.network.policy
            log_pi, entropy = (
                time_major(column, length)
                for column in policy.proposal.log_prob_and_entropy(
                    policy.trunk(features), flat(unroll.extras["action_index"])
                )
            )
            value = time_major(self.baseline(features), length)
            log_rho = log_pi - log_mu
            target, advantage, weight = targets(
                log_rho, reward, discount, is_last, value, config.discount
            )
            policy_loss = -tf.reduce_sum(weight * advantage * log_pi[:-1])
            value_loss = 0.5 * tf.reduce_sum(weight * tf.square(target - value[:-1]))
            total_entropy = tf.reduce_sum(weight * entropy[:-1])
            loss = (
                policy_loss + config.baseline_cost * value_loss - self._entropy_cost * total_entropy
            )
        gradients = tape.gradient(loss, self.variables_trained)
        num_steps = tf.reduce_sum(weight)
        metrics = {
            "policy_loss": tf.math.divide_no_nan(policy_loss, num_steps),
            "value_loss": tf.math.divide_no_nan(value_loss, num_steps),
            "mean_value": tf.reduce_mean(value),
            "entropy": tf.math.divide_no_nan(total_entropy, num_steps),
            "mean_weight": tf.reduce_mean(tf.exp(tf.minimum(log_rho, 0.0))),
            "gradient_norm": tf.linalg.global_norm(gradients),
        }
        return Gradients(gradients, (), metrics)

    def apply(self, gradients: tuple) -> None:
        """Takes a step of the optimiser; see base class."""
        self.optimizer.apply(gradients, self.variables_trained)
        self.steps.assign_add(1)


class SampledPolicy(SharedLayersPolicy):
    """IMPALA's policy, which samples its actions, in evaluations as well."""

    def __init__(self, config: AQLConfig, spec: EnvironmentSpec, space: ActionSpace, seed: int):
        """Creates the policy with random parameters.

        Args:
          config: hyperparameters.
          spec: the environment's spec.
          space: the space of the actions; all sub-actions are finite.
          seed: seed of the samples.
        """
        network = PolicyNetwork(config, spec, space)
        super().__init__(spec, space, shared_twin(network.shared))
        self._generator = np.random.default_rng(seed)
        self._trunk = numpy_twins.twin(network.policy.trunk)
        policy = network.policy.proposal
        self._policy = (
            FlatPolicyTwin(policy) if isinstance(policy, FlatPolicy) else ProposalTwin(policy)
        )

    def load(self, flat: np.ndarray) -> None:
        """Loads `ImpalaLearner.actor_variables`, [P] float32."""
        load_parts([self.shared, self._trunk, self._policy], flat)

    def act(self, features: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Samples actions; see base class.

        The extras are "action_index" float32 [K, D], the actions of the space, and "log_prob"
        float32 [K], their log probabilities in nats.
        """
        hidden = self._trunk(features)
        action = self._policy.sample(hidden, 1, self._generator)[:, 0]
        return action, {"action_index": action, "log_prob": self._policy.log_prob(hidden, action)}
