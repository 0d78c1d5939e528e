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
from common.agents.actor_critic_config import ActorCriticConfig
from common.agents.agent import Agent, GraphPolicy
from common.data.transitions import StoredTransition
from common.environments.spec import EnvironmentSpec
from common.learning import learner
from common.learning.learner import Learner
from common.networks import control, numpy_twins, packing, recurrent
from common.types import Metrics, Nest


class ActorCritic(NamedTuple):
    """A deterministic policy and its critic, which are trained, saved and sent together.

    Attributes:
      policy: observations [B, D] -> actions [B, A].
      critic: (observations [B, D], actions [B, A]) -> output of its head [B, ...].
    """

    policy: control.ControlPolicy | control.SoftsignMLP | control.ReluMLP | recurrent.LSTMNetwork
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
      policy: the gradients of the policy's variables, after clipping.
      critic: the gradients of the critic's variables, after clipping.
      errors: [B], TD errors or distances before the step; second result of the critic's loss.
      critic_loss: the critic's loss before the step.
      mean_q: mean value of the policy's actions; second result of the policy's loss.
      saturated_actions: share of saturated elements; third result of the policy's loss.
      critic_gradient_norm: global norm before clipping.
      policy_gradient_norm: global norm before clipping.
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
        policy_optimizer: snt.Optimizer,
        critic_optimizer: snt.Optimizer,
        target_period: int,
        *,
        target_rate: float = 1.0,
        critic_decay: float = 0.0,
        max_critic_norm: float = 0.0,
        max_policy_norm: float = 0.0,
        max_policy_element: float = 0.0,
    ):
        """Builds all variables, including the optimisers'; target networks start as copies.

        Args:
          make_networks: called for the online networks, then for the target networks.
          policy_optimizer: of the online policy.
          critic_optimizer: of the online critic.
          target_period: steps between copies to the target networks.
          target_rate: below 1, each step moves the target networks this much instead.
          critic_decay: factor of half the critic's squared weights, without biases, in its loss.
          max_critic_norm: global norm to which the critic's gradient is clipped; 0 does not clip.
          max_policy_norm: the same of the policy's gradient.
          max_policy_element: magnitude to which each element of the policy's gradient is clipped; 0
            does not clip.
        """
        super().__init__()
        self._target_period = target_period
        self._target_rate = target_rate
        self._critic_decay = critic_decay
        self._max_critic_norm = max_critic_norm
        self._max_policy_norm = max_policy_norm
        self._max_policy_element = max_policy_element
        self.networks = make_networks()
        self.target_networks = make_networks()
        learner.copy_variables(self.networks.variables, self.target_networks.variables)
        self.policy_optimizer = policy_optimizer
        self.critic_optimizer = critic_optimizer
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
            regularized = loss
            if self._critic_decay:
                weights = [w for w in self.networks.critic.trainable_variables if w.shape.rank == 2]
                regularized += self._critic_decay * tf.add_n(list(map(tf.nn.l2_loss, weights)))
        with tf.GradientTape() as policy_tape:
            negative_value, mean_q, saturated = policy_loss()
        critic = critic_tape.gradient(regularized, self.networks.critic.trainable_variables)
        policy = policy_tape.gradient(negative_value, self.networks.policy.trainable_variables)
        critic_norm, policy_norm = map(tf.linalg.global_norm, (critic, policy))
        if self._max_critic_norm:
            critic, _ = tf.clip_by_global_norm(critic, self._max_critic_norm, critic_norm)
        if self._max_policy_norm:
            policy, _ = tf.clip_by_global_norm(policy, self._max_policy_norm, policy_norm)
        if bound := self._max_policy_element:
            policy = [tf.clip_by_value(gradient, -bound, bound) for gradient in policy]
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
        if self._target_rate < 1:
            learner.move_towards(online, target, self._target_rate)
        else:
            learner.copy_periodically(self.steps, self._target_period, online, target)


def make_optimizers(
    learning_rate: float, config: ActorCriticConfig
) -> tuple[snt.Optimizer, snt.Optimizer]:
    """Returns Adam for the policy and for the critic, with Sonnet's other constants."""
    rates = (learning_rate, config.critic_learning_rate or learning_rate)
    policy, critic = map(snt.optimizers.Adam, rates)
    return policy, critic


def make_noise(
    kind: str, sigma: float, theta: float, seed: int
) -> GaussianNoise | OrnsteinUhlenbeckNoise:
    """Returns the noise of a `kind`, "gaussian" or "ou"; `theta` is of the latter."""
    if kind == "ou":
        return OrnsteinUhlenbeckNoise(sigma, theta, seed)
    return GaussianNoise(sigma, seed)


def make_networks(
    config: Any,
    spec: EnvironmentSpec,
    head: control.Head,
    activation: control.Layer = tf.nn.elu,
    terrain_sizes: Sequence[int] = (),
) -> ActorCritic:
    """Builds both networks and their variables; the action enters the critic's first layer.

    Args:
      config: an `ActorCriticConfig` with `policy_sizes`, `critic_sizes` and `layer_norm`.
      spec: of the environment.
      head: the critic's output layer.
      activation: of every hidden layer after the first.
      terrain_sizes: layers that each network has for heights of the terrain; none by default.
    """
    norm = config.layer_norm

    def first() -> Sequence[control.Layer]:
        return control.terrain_layers(spec, terrain_sizes, norm) if terrain_sizes else ()

    policy = control.ControlPolicy(
        spec.action_size, config.policy_sizes, norm, activation, first(), config.unit_norm
    )
    torso = control.ControlCriticTorso(config.critic_sizes, norm, activation, first())
    critic = control.Critic(torso, head)
    packing.create_variables(policy, critic, spec.observation_size, spec.action_size)
    return ActorCritic(policy, critic)


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
