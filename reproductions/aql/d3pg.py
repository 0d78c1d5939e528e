"""D3PG (section 5.1): D4PG without distributions, on AQL's unrolls, networks and targets.

The paper specifies only its noise. Everything else is ours: Q(lambda) targets from target networks,
and a policy gradient at all timesteps.
"""

import numpy as np
import sonnet as snt
import tensorflow as tf

from common.acting.policy import OrnsteinUhlenbeckNoise, Policy
from common.agents.actor_critic import ActorCritic, ActorCriticLearner
from common.environments.spec import EnvironmentSpec
from common.learning.learner import Gradients
from common.networks import numpy_twins
from common.networks.control import ControlPolicy, ReluMLP
from common.types import Batch, Nest
from common.values import policy_gradients
from reproductions.aql import aql, networks
from reproductions.aql.actions import ActionSpace
from reproductions.aql.config import AQLConfig
from reproductions.aql.networks import FeedforwardTwin, load_parts


def make_policy(config: AQLConfig, num_features: int, action_size: int) -> ControlPolicy | ReluMLP:
    """Builds D3PG's policy, with layers as wide as the proposal's: [B, F] -> [B, A].

    In short runs, policies with ReLU layers saturated at actions of +-1 in every state and stopped
    learning. Policies with D4PG's layers, which have LayerNorm, did not.
    """
    if config.policy_network == "proposal":
        initial = networks.near_zero(config.proposal_sizes[-1])
        output = snt.Linear(action_size, w_init=initial, name="action")
        return ReluMLP(num_features, config.proposal_sizes, output, tf.tanh)
    policy = ControlPolicy(action_size, config.proposal_sizes, layer_norm=True)
    policy(tf.zeros([1, num_features]))  # creates the variables
    return policy


class D3PGLearner(ActorCriticLearner):
    """Learner of a deterministic policy and Q, with target networks and an optimiser for each.

    The policy's inputs are the features of the layers that it shares with Q. Only Q's loss trains
    these layers.
    """

    def __init__(self, config: AQLConfig, spec: EnvironmentSpec, space: ActionSpace):
        """Builds the networks, their targets and both optimisers."""

        def make_networks() -> ActorCritic:
            value = networks.ValueNetwork(config, spec, space)
            policy = make_policy(config, value.shared.output_size, space.size)
            return ActorCritic(policy, value)

        optimizers = networks.make_optimizer(config), networks.make_optimizer(config)
        super().__init__(make_networks, *optimizers, config.target_period)
        self._config = config

    @property
    def actor_variables(self) -> tuple[tf.Variable, ...]:
        """Variables of the policy, then of the layers that it shares; acting needs no Q."""
        policy, critic, _ = self.networks
        return (*policy.trainable_variables, *critic.shared.trainable_variables)

    def gradients(self, batch: Batch) -> Gradients:
        """Returns the gradients of both losses on B unrolls; nothing is written back."""
        config, unroll = self._config, batch.steps
        length, observation = unroll.reward.shape[1], aql.flat(unroll.observation)
        target_policy, target_value, _ = self.target_networks
        target_features = target_value.shared(observation)
        own_action = target_policy(target_features)
        best_value = target_value.values(target_value.state(target_features), own_action)
        target, weight = aql.targets_of(unroll, aql.time_major(best_value, length), config)
        policy, critic, _ = self.networks

        def value_loss(observation: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            part = critic.state(critic.shared(observation))
            value = critic.values(part, aql.flat(unroll.extras["action_index"]))
            value = aql.time_major(value, length)[:-1]
            return aql.value_loss(value, target, weight), target - value

        def policy_loss(observation: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            features = tf.stop_gradient(critic.shared(observation))
            part = critic.state(features)
            loss, mean_q, saturated = policy_gradients.dpg_loss(
                policy(features), lambda action: critic.values(part, action)
            )
            # The loss is a mean; all losses of AQL are sums.
            return loss * tf.cast(tf.size(unroll.reward), loss.dtype), mean_q, saturated

        gradients = self.gradients_of(observation, value_loss, policy_loss)
        metrics = {
            "value_loss": tf.math.divide_no_nan(gradients.critic_loss, tf.reduce_sum(weight)),
            "mean_q": gradients.mean_q,
            "value_gradient_norm": gradients.critic_gradient_norm,
            "saturated_actions": gradients.saturated_actions,
            "policy_gradient_norm": gradients.policy_gradient_norm,
        }
        return Gradients(gradients, (), metrics)


class DeterministicPolicy(Policy):
    """D3PG's policy, with or without Ornstein-Uhlenbeck noise (section 5.1)."""

    def __init__(
        self, config: AQLConfig, spec: EnvironmentSpec, space: ActionSpace, seed: int | None
    ):
        """Creates the policy with random parameters.

        Args:
          config: hyperparameters.
          spec: the environment's spec.
          space: the space of the actions; all sub-actions are continuous.
          seed: seed of the noise; None disables the noise.
        """
        shared = ReluMLP(spec.observation_size, config.shared_sizes)
        policy = make_policy(config, shared.output_size, space.size)
        self._action_size = space.size
        self._shared = FeedforwardTwin(shared)
        self._policy = numpy_twins.twin(policy)
        self._noise: OrnsteinUhlenbeckNoise | None = None
        if seed is not None:
            self._noise = OrnsteinUhlenbeckNoise(config.ou_sigma, config.ou_theta, seed)

    def load(self, flat: np.ndarray) -> None:
        """Loads `D3PGLearner.actor_variables`, [P] float32."""
        load_parts([self._policy, self._shared], flat)

    def initial_state(self, num_environments: int) -> Nest:
        """Returns the state of the noise before an episode; () without noise."""
        if self._noise is None:
            return ()
        return self._noise.initial_state((num_environments, self._action_size))

    def __call__(self, observation: np.ndarray, state: Nest = ()):
        """Acts on observations [K, Ds] float32.

        Returns:
          action: [K, A] float32.
          state: the state of the noise.
          extras: float32 [K, A]: "action_index", the action; "best_index", it without noise.
        """
        features, _ = self._shared(observation, ())
        best = self._policy(features)
        action = best
        if self._noise is not None:
            action, state = self._noise(best, state)
        return action, state, {"action_index": action, "best_index": best}
