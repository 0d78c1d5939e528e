"""Agents with a deterministic policy and a critic: the common part of DDPG, D4PG and Ape-X DPG.

It has the learner, the actor and the agent, built from two networks and their targets. Losses and
initial priorities are in the file of each agent.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import sonnet as snt
import tensorflow as tf

from common.acting.policy import GaussianNoise, OrnsteinUhlenbeckNoise, Policy
from common.agents.agent import Agent, GraphPolicy
from common.data.transitions import StoredTransition
from common.environments.spec import EnvironmentSpec
from common.learning import learner
from common.learning.learner import Learner
from common.networks import control, numpy_twins, recurrent
from common.types import Metrics, Nest


class ActorCritic(NamedTuple):
    """A deterministic policy and its critic, which are trained, saved and sent together.

    Attributes:
      policy: observations [B, D] -> actions [B, A].
      critic: (observations [B, D], actions [B, A]) -> output of its head [B, ...].
    """

    policy: control.ControlPolicy | control.SoftsignMLP | recurrent.LSTMNetwork
    critic: control.Critic | snt.Module

    @property
    def variables(self) -> tuple[tf.Variable, ...]:
        """Variables of the policy, then of the critic, in the order in which they are packed."""
        return (*self.policy.trainable_variables, *self.critic.trainable_variables)


CriticLoss = Callable[[], tuple[tf.Tensor, tf.Tensor]]
"""Function that returns a scalar to minimise, and errors [B]."""
PolicyLoss = Callable[[], tuple[tf.Tensor, tf.Tensor, tf.Tensor]]
"""Function with the results of `common.values.policy_gradients.dpg_loss`."""


class ActorCriticGradients(NamedTuple):
    """The gradients of both networks, with metrics of their losses.

    Attributes:
      policy: the gradients of the policy's variables.
      critic: the gradients of the critic's variables, after clipping.
      errors: [B], TD errors or distances before the step; second result of the critic's loss.
      critic_loss: the critic's loss before the step.
      mean_q: mean value of the policy's actions; second result of the policy's loss.
      saturated_actions: share of saturated elements; third result of the policy's loss.
      critic_gradient_norm: global norm before clipping.
      policy_gradient_norm: global norm.
    """

    policy: Sequence[tf.Tensor]
    critic: Sequence[tf.Tensor]
    errors: tf.Tensor
    critic_loss: tf.Tensor
    mean_q: tf.Tensor
    saturated_actions: tf.Tensor
    critic_gradient_norm: tf.Tensor
    policy_gradient_norm: tf.Tensor

    def metrics(self, priorities: tf.Tensor, weights: tf.Tensor) -> Metrics:
        """Returns the metrics of an update, given new priorities [B] and importance weights [B]."""
        return {
            "critic_loss": self.critic_loss,
            "mean_q": self.mean_q,
            "saturated_actions": self.saturated_actions,
            "priority_mean": tf.reduce_mean(priorities),
            "importance_weight_mean": tf.reduce_mean(weights),
            "importance_weight_max": tf.reduce_max(weights),
            "critic_gradient_norm": self.critic_gradient_norm,
            "policy_gradient_norm": self.policy_gradient_norm,
        }


class ActorCriticLearner(Learner):
    """Base of learners: online and target networks, and an optimiser each for policy and critic.

    A paper's learner inherits it and adds `gradients`.

    Attributes:
      networks: the online networks.
      target_networks: copies of the online networks; they compute targets.
      policy_optimizer: optimiser of the online policy.
      critic_optimizer: optimiser of the online critic.
      steps: int64 scalar, number of updates made.
    """

    def __init__(
        self,
        make_networks: Callable[[], ActorCritic],
        make_optimizer: Callable[[], snt.Optimizer],
        target_period: int,
        max_critic_gradient_norm: float | None = None,
    ):
        """Builds all variables, including the optimisers'; target networks start as copies.

        Args:
          make_networks: called for the online networks, then for the target networks.
          make_optimizer: called for the policy, then for the critic.
          target_period: steps between copies to the target networks.
          max_critic_gradient_norm: global norm to which the critic's gradient is clipped; None does
            not clip.
        """
        super().__init__()
        self._target_period = target_period
        self._max_critic_gradient_norm = max_critic_gradient_norm
        self.networks = make_networks()
        self.target_networks = make_networks()
        learner.copy_variables(self.networks.variables, self.target_networks.variables)
        self.policy_optimizer = make_optimizer()
        self.critic_optimizer = make_optimizer()
        learner.create_variables(self.policy_optimizer, self.networks.policy.trainable_variables)
        learner.create_variables(self.critic_optimizer, self.networks.critic.trainable_variables)

    @property
    def actor_variables(self) -> tuple[tf.Variable, ...]:
        """Variables of the online policy and critic, which are published to the actors."""
        return self.networks.variables

    def gradients_of(
        self, critic_loss: CriticLoss, policy_loss: PolicyLoss
    ) -> ActorCriticGradients:
        """Returns the gradients of both losses.

        `policy_loss` does not contribute to the critic's gradient.

        Args:
          critic_loss: returns the scalar loss and errors [B].
          policy_loss: returns the scalar loss, the mean value of the policy's actions, and their
            saturated share.
        """
        with tf.GradientTape() as critic_tape:
            loss, errors = critic_loss()
        with tf.GradientTape() as policy_tape:
            negative_value, mean_q, saturated = policy_loss()
        critic = critic_tape.gradient(loss, self.networks.critic.trainable_variables)
        policy = policy_tape.gradient(negative_value, self.networks.policy.trainable_variables)
        critic_norm, policy_norm = map(tf.linalg.global_norm, (critic, policy))
        if self._max_critic_gradient_norm is not None:
            critic, _ = tf.clip_by_global_norm(critic, self._max_critic_gradient_norm, critic_norm)
        return ActorCriticGradients(
            policy, critic, errors, loss, mean_q, saturated, critic_norm, policy_norm
        )

    def apply(self, gradients: ActorCriticGradients) -> None:
        """Makes a step of both optimisers; see base class."""
        networks = self.networks
        self.critic_optimizer.apply(gradients.critic, networks.critic.trainable_variables)
        self.policy_optimizer.apply(gradients.policy, networks.policy.trainable_variables)
        self.steps.assign_add(1)
        online, target = networks.variables, self.target_networks.variables
        learner.copy_periodically(self.steps, self._target_period, online, target)


class ActorCriticEvaluator(Policy):
    """The policy without noise, run as a NumPy twin."""

    def __init__(self, networks: ActorCritic):
        self._policy = numpy_twins.twin(networks.policy)

    def load(self, flat: np.ndarray) -> None:
        """Loads the policy from the parameters of both networks, [P] float32."""
        self._policy.load(flat[: self._policy.num_parameters])

    def layers(self) -> list[tuple[str, list[np.ndarray]]]:
        """Returns the policy's layers; see base class."""
        return self._policy.layers()

    def __call__(self, observation: np.ndarray, state: Nest = ()):
        """Returns actions, state and no extras: observations [K, D] -> actions [K, A]."""
        return self._policy(observation), state, {}


class ActorCriticActor(Policy):
    """The policy with noise, run as NumPy twins.

    Its extras are two outputs of its copy of the critic: for the action taken and for the policy's
    own action. Initial priorities are computed from them without running the networks again (Ape-X
    appendix F). A paper's actor inherits it and adds `initial_priorities`.
    """

    def __init__(
        self, networks: ActorCritic, action_size: int, noise: GaussianNoise | OrnsteinUhlenbeckNoise
    ):
        self._policy = numpy_twins.twin(networks.policy)
        self._critic = numpy_twins.twin(networks.critic)
        self._action_size = action_size
        self._noise = noise

    def load(self, flat: np.ndarray) -> None:
        """Loads both networks, [P] float32 in the order of `ActorCritic.variables`."""
        self._policy.load(flat[: self._policy.num_parameters])
        self._critic.load(flat[self._policy.num_parameters :])

    def initial_state(self, num_environments: int) -> Nest:
        """Returns the state of the noise before an episode."""
        return self._noise.initial_state((num_environments, self._action_size))

    def __call__(self, observation: np.ndarray, state: Nest = ()):
        """Acts on observations [K, D].

        Returns:
          action: [K, A], with noise.
          state: state of the noise.
          extras: outputs of the critic [K, ...]: "taken" for the noisy action, "bootstrap" for the
            policy's own action.
        """
        greedy = self._policy(observation)
        action, state = self._noise(greedy, state)
        outputs = self._critic(
            np.concatenate([observation, observation]), np.concatenate([action, greedy])
        )
        taken, bootstrap = np.split(outputs, 2)
        return action, state, {"taken": taken, "bootstrap": bootstrap}


class ActorCriticAgent(Agent):
    """Base of agents for flat observations and continuous actions.

    A paper's agent inherits it and adds its learner, its actor and its data.
    """

    jit_compile = True

    def __init__(
        self,
        config: Any,
        setting: str,
        make_networks: Callable[[Any, EnvironmentSpec], ActorCritic],
    ):
        """Makes the agent.

        Args:
          config: a paper's dataclass of hyperparameters.
          setting: name of the configuration, for CSV files.
          make_networks: (config, the environment's spec) -> networks.
        """
        super().__init__(config, setting)
        self.updates_per_call = config.updates_per_call
        self._make_networks = make_networks

    def step_specs(self, spec: EnvironmentSpec) -> StoredTransition:
        """Returns the columns of an n-step transition: observations [D], actions [A], float32."""
        return StoredTransition(
            observation_tm1=tf.TensorSpec([spec.observation_size]),
            action_tm1=tf.TensorSpec([spec.action_size]),
            n_step_reward=tf.TensorSpec([]),
            n_step_discount=tf.TensorSpec([]),
            observation_t=tf.TensorSpec([spec.observation_size]),
        )

    def make_evaluator(self, spec: EnvironmentSpec, num_environments: int) -> ActorCriticEvaluator:
        """Builds the policy without noise (D4PG section 4, Ape-X appendix D)."""
        del num_environments  # NumPy twins take any batch size
        return ActorCriticEvaluator(self._make_networks(self.config, spec))

    def graph_policy(self, learner: ActorCriticLearner, spec: EnvironmentSpec) -> GraphPolicy:
        """Returns the policy without noise; see base class."""
        del spec
        return lambda observation, state: (learner.networks.policy(observation), state)
