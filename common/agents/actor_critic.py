"""Agents with a deterministic policy and a critic: what DDPG, D3PG, D4PG and Ape-X DPG share.

The losses are each paper's own: its `learner.py` has them.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import sonnet as snt
import tensorflow as tf

from common.acting.noise import GaussianNoise, OrnsteinUhlenbeckNoise
from common.acting.policy import ExploringPolicy, Policy
from common.agents.replay_agent import ReplayAgent
from common.environments import requirements
from common.environments.spec import EnvironmentSpec
from common.learning import optimizers, targets
from common.networks import control, heads, numpy_twins
from common.types import Metrics, Nest, StoredTransition


class ActorCritic(NamedTuple):
    """A deterministic policy and its critic: learnt, saved and sent together.

    Attributes:
      policy: [B, D] -> [B, A].
      critic: ([B, D], [B, A]) -> outputs [B, ...], as its head's.
    """

    policy: control.ControlPolicy
    critic: heads.Critic

    @property
    def variables(self) -> tuple[tf.Variable, ...]:
        """Those of the policy, then of the critic: the order in which they are packed."""
        return (*self.policy.trainable_variables, *self.critic.trainable_variables)


Loss = Callable[[], tuple[tf.Tensor, tf.Tensor]]
"""A scalar to descend, and a tensor that the step returns besides."""


class Step(NamedTuple):
    """Results of a step of both optimisers; scalars but for `errors`.

    Attributes:
      errors: [B], the second result of the critic's loss: TD errors or distances before the step.
      critic_loss: the critic's loss.
      mean_q: the second result of the policy's loss: the mean value of its actions.
      critic_gradient_norm: before any clipping.
      policy_gradient_norm: likewise.
    """

    errors: tf.Tensor
    critic_loss: tf.Tensor
    mean_q: tf.Tensor
    critic_gradient_norm: tf.Tensor
    policy_gradient_norm: tf.Tensor

    def metrics(self, priorities: tf.Tensor, weights: tf.Tensor) -> Metrics:
        """Returns the metrics of an update, given new priorities [B] and importance weights [B]."""
        return {
            "critic_loss": self.critic_loss,
            "mean_q": self.mean_q,
            "priority_mean": tf.reduce_mean(priorities),
            "importance_weight_mean": tf.reduce_mean(weights),
            "importance_weight_max": tf.reduce_max(weights),
            "critic_gradient_norm": self.critic_gradient_norm,
            "policy_gradient_norm": self.policy_gradient_norm,
        }


class ActorCriticLearner(tf.Module):
    """Online and target networks, and an optimiser for each of policy and critic.

    A paper's learner inherits it and adds `update`, see `common.learning.learner.Learner`.
    """

    def __init__(
        self,
        make_networks: Callable[[], ActorCritic],
        make_optimizer: Callable[[], snt.Optimizer],
        target_period: int,
        max_critic_gradient_norm: float | None = None,
    ):
        """Builds all variables, also the optimisers'; targets begin as copies.

        Args:
          make_networks: called for the online networks, then for the targets.
          make_optimizer: called for the policy, then for the critic.
          target_period: steps from one copy of both targets to the next.
          max_critic_gradient_norm: the critic's gradient is scaled down to this global norm; None:
            it is not.
        """
        super().__init__()
        self._target_period = target_period
        self._max_critic_gradient_norm = max_critic_gradient_norm
        self.networks = make_networks()
        self.target_networks = make_networks()
        targets.copy(self.networks.variables, self.target_networks.variables)
        self.policy_optimizer = make_optimizer()
        self.critic_optimizer = make_optimizer()
        optimizers.create_variables(self.policy_optimizer, self.networks.policy.trainable_variables)
        optimizers.create_variables(self.critic_optimizer, self.networks.critic.trainable_variables)
        self.steps = tf.Variable(0, dtype=tf.int64, trainable=False, name="learner_steps")

    @property
    def actor_variables(self) -> tuple[tf.Variable, ...]:
        """The online policy and critic, which are replicated to the actors."""
        return self.networks.variables

    def apply_gradients(self, critic_loss: Loss, policy_loss: Loss) -> Step:
        """Makes one step of both optimisers, then copies the targets if it is time.

        Both gradients are taken before either network changes. The critic gets none from
        `policy_loss`.
        """
        policy_variables = self.networks.policy.trainable_variables
        critic_variables = self.networks.critic.trainable_variables
        with tf.GradientTape() as critic_tape:
            loss, errors = critic_loss()
        with tf.GradientTape() as policy_tape:
            negative_value, mean_q = policy_loss()
        critic_gradient = critic_tape.gradient(loss, critic_variables)
        policy_gradient = policy_tape.gradient(negative_value, policy_variables)
        critic_norm = tf.linalg.global_norm(critic_gradient)
        if self._max_critic_gradient_norm is not None:
            critic_gradient, _ = tf.clip_by_global_norm(
                critic_gradient, self._max_critic_gradient_norm, critic_norm
            )
        self.critic_optimizer.apply(critic_gradient, critic_variables)
        self.policy_optimizer.apply(policy_gradient, policy_variables)

        self.steps.assign_add(1)
        targets.copy_periodically(
            self.steps, self._target_period, self.networks.variables, self.target_networks.variables
        )
        return Step(errors, loss, mean_q, critic_norm, tf.linalg.global_norm(policy_gradient))


class ActorCriticEvaluator(Policy):
    """The policy without noise, on its NumPy twin."""

    def __init__(self, networks: ActorCritic):
        self._policy = numpy_twins.twin(networks.policy)

    def load(self, flat: np.ndarray) -> None:
        """Takes over the policy's part of both networks, [P] float32."""
        self._policy.load(flat[: self._policy.num_parameters])

    def __call__(self, observation: np.ndarray, state: Nest = ()):
        """[K, D] -> actions [K, A], state, no extras."""
        return self._policy(observation), state, {}


class ActorCriticActor(ExploringPolicy):
    """The policy with noise, on NumPy twins.

    With each action it buffers two outputs of its copy of the critic, from which Ape-X (appendix F)
    computes initial priorities without running the networks again: of the action taken, and of the
    policy's own. A paper's actor inherits it and adds `initial_priorities`.
    """

    def __init__(
        self, networks: ActorCritic, action_size: int, noise: GaussianNoise | OrnsteinUhlenbeckNoise
    ):
        self._policy = numpy_twins.twin(networks.policy)
        self._critic = numpy_twins.twin(networks.critic)
        self._action_size = action_size
        self._noise = noise

    def load(self, flat: np.ndarray) -> None:
        """Takes over both networks, [P] float32 in the order of `ActorCritic.variables`."""
        self._policy.load(flat[: self._policy.num_parameters])
        self._critic.load(flat[self._policy.num_parameters :])

    def initial_state(self, num_environments: int) -> Nest:
        """Returns the state of the noise before an episode."""
        return self._noise.initial_state((num_environments, self._action_size))

    def __call__(self, observation: np.ndarray, state: Nest = ()):
        """[K, D] -> noisy actions [K, A], state, buffered outputs of the critic [K, ...]."""
        greedy = self._policy(observation)
        action, state = self._noise(greedy, state)
        outputs = self._critic(
            np.concatenate([observation, observation]), np.concatenate([action, greedy])
        )
        taken, bootstrap = np.split(outputs, 2)
        return action, state, {"taken": taken, "bootstrap": bootstrap}


class ActorCriticAgent(ReplayAgent):
    """An agent for flat observations and continuous actions.

    A paper's agent inherits it and adds its learner, its actor and its memory's distributions.
    """

    metrics = (
        "critic_loss",
        "mean_q",
        "priority_mean",
        "importance_weight_mean",
        "importance_weight_max",
        "critic_gradient_norm",
        "policy_gradient_norm",
    )
    jit_compile = True

    def __init__(
        self, config: Any, setting: str, make_networks: Callable[[Any, int, int], ActorCritic]
    ):
        """Makes the agent.

        Args:
          config: a paper's dataclass of hyperparameters.
          setting: its name.
          make_networks: (configuration, size of an observation, size of an action) -> networks.
        """
        super().__init__(config, setting)
        self.updates_per_call = config.updates_per_call
        self._make_networks = make_networks

    def require(self, spec: EnvironmentSpec) -> None:
        """Raises ValueError unless observations are flat and actions continuous."""
        requirements.require_control(spec)

    def step_specs(self, spec: EnvironmentSpec) -> StoredTransition:
        """Returns the columns of an n-step transition, all float32."""
        return StoredTransition(
            observation_tm1=tf.TensorSpec([spec.observation_size]),
            action_tm1=tf.TensorSpec([spec.action_size]),
            n_step_reward=tf.TensorSpec([]),
            n_step_discount=tf.TensorSpec([]),
            observation_t=tf.TensorSpec([spec.observation_size]),
        )

    def make_evaluator(self, spec: EnvironmentSpec, num_environments: int) -> ActorCriticEvaluator:
        """Builds the policy without noise (D4PG section 4, Ape-X appendix D)."""
        del num_environments  # the twins take any batch
        return ActorCriticEvaluator(
            self._make_networks(self._config, spec.observation_size, spec.action_size)
        )
