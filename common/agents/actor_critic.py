"""Agents with a deterministic policy and a critic: the common part of DDPG, D4PG and Ape-X DPG.

It contains the learner, the actor and the agent, built from two networks and their target networks.
Each agent's own file has its losses and initial priorities.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import sonnet as snt
import tensorflow as tf

from common.acting.policy import OrnsteinUhlenbeckNoise, Policy
from common.agents.actor_critic_config import ActorCriticConfig
from common.agents.agent import GraphPolicy, TransitionAgent
from common.data.transitions import Transitions
from common.environments.spec import EnvironmentSpec
from common.learning import learner
from common.learning.learner import Learner
from common.networks import control, images, numpy_twins, packing, recurrent
from common.networks.standardizer import RunningMoments, Standardizer
from common.replay import memory
from common.types import Batch, Metrics, Nest


class ActorCritic(NamedTuple):
    """A deterministic policy and its critic, which are trained, saved and sent together.

    Attributes:
      policy: features [B, D] -> actions [B, A].
      critic: (features [B, D], actions [B, A]) -> output of its head [B, ...].
      torso: observations [B, ...] -> features; None if flat observations are the features.
    """

    policy: control.LayeredNetwork | recurrent.LSTMNetwork
    critic: control.Critic | snt.Module
    torso: Standardizer | images.ImageEncoder | None = None

    @property
    def variables(self) -> tuple[tf.Variable, ...]:
        """Variables of policy, critic and torso, in the order in which they are packed."""
        torso = () if self.torso is None else self.torso.variables
        return (*self.policy.trainable_variables, *self.critic.trainable_variables, *torso)

    @property
    def critic_variables(self) -> tuple[tf.Variable, ...]:
        """Variables of the critic and the torso, which the critic's loss trains."""
        torso = () if self.torso is None else self.torso.trainable_variables
        return (*self.critic.trainable_variables, *torso)

    def features(self, observation: tf.Tensor) -> tf.Tensor:
        """Returns the inputs of both networks, float32 [B, D], for observations [B, ...]."""
        return observation if self.torso is None else self.torso(observation)


CriticLoss = Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]]
"""Function of features [B, D] that returns a scalar to minimise, and errors [B]."""
PolicyLoss = Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor, tf.Tensor]]
"""Function of features [B, D] that returns what `common.values.policy_gradients.dpg_loss` does."""


class ActorCriticGradients(NamedTuple):
    """The gradients of both networks, with metrics of their losses.

    Attributes:
      policy: the gradients of the policy's variables, after clipping.
      critic: the gradients of `ActorCritic.critic_variables`, after clipping.
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
    """Base of learners with online and target networks and separate policy and critic optimisers.

    A paper's learner inherits from it and adds `gradients`.

    Attributes:
      networks: the online networks.
      target_networks: copies of the online networks; they compute targets.
      moments: moments of `observation_tm1` over all batches so far; None if observations are not
        standardised.
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
          policy_optimizer: optimiser of the online policy.
          critic_optimizer: optimiser of the online critic and the torso.
          target_period: steps between copies to the target networks.
          target_rate: if below 1, each step instead moves the target networks by this fraction.
          critic_decay: coefficient of half the critic's squared weights, not biases, in its loss.
          max_critic_norm: global norm to which the critic's gradient is clipped; 0 does not clip.
          max_policy_norm: the same for the policy's gradient.
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
        self.moments: RunningMoments | None = None
        if isinstance(self.networks.torso, Standardizer):
            self.moments = RunningMoments(tuple(self.networks.torso.mean.shape))
        self.policy_optimizer = policy_optimizer
        self.critic_optimizer = critic_optimizer
        learner.create_variables(self.policy_optimizer, self.networks.policy.trainable_variables)
        learner.create_variables(self.critic_optimizer, self.networks.critic_variables)

    @property
    def actor_variables(self) -> tuple[tf.Variable, ...]:
        """Variables of the online networks, which are published to the actors."""
        return self.networks.variables

    def update(self, batch: Batch) -> tuple[Nest, Metrics]:
        """Updates the moments with the batch, then makes one learner step; see base class."""
        if self.moments is not None:
            self.moments.update(batch.steps.observation_tm1)
            for networks in (self.networks, self.target_networks):
                assert isinstance(networks.torso, Standardizer)
                networks.torso.follow(self.moments)
        return super().update(batch)

    def gradients_of(
        self, observation: tf.Tensor, critic_loss: CriticLoss, policy_loss: PolicyLoss
    ) -> ActorCriticGradients:
        """Returns the gradients of both losses.

        `policy_loss` contributes to the gradients of neither the critic nor the torso.

        Args:
          observation: [B, ...]; both losses are functions of its features.
          critic_loss: returns the scalar loss and errors [B].
          policy_loss: returns the scalar loss, the mean value of the policy's actions, and the
            share of their elements that are saturated.
        """
        with tf.GradientTape() as critic_tape:
            features = self.networks.features(observation)
            loss, errors = critic_loss(features)
            regularized = loss
            if self._critic_decay:
                weights = [w for w in self.networks.critic.trainable_variables if w.shape.rank == 2]
                regularized += self._critic_decay * tf.add_n(list(map(tf.nn.l2_loss, weights)))
        with tf.GradientTape() as policy_tape:
            negative_value, mean_q, saturated = policy_loss(tf.stop_gradient(features))
        critic = critic_tape.gradient(regularized, self.networks.critic_variables)
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
        """Takes a step with both optimisers; see base class."""
        networks = self.networks
        self.critic_optimizer.apply(gradients.critic, networks.critic_variables)
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
    """Returns Adam optimisers of policy and critic, otherwise with Sonnet's default constants."""
    rates = (learning_rate, config.critic_learning_rate or learning_rate)
    policy, critic = map(snt.optimizers.Adam, rates)
    return policy, critic


def make_networks(
    config: Any,
    spec: EnvironmentSpec,
    head: control.Head,
    activation: control.Layer = tf.nn.elu,
    terrain_sizes: Sequence[int] = (),
) -> ActorCritic:
    """Builds the networks and their variables; the action enters the critic's first layer.

    Args:
      config: an `ActorCriticConfig` with `policy_sizes`, `critic_sizes` and `layer_norm`.
      spec: the environment's spec.
      head: the critic's output layer.
      activation: activation after every hidden layer but the first.
      terrain_sizes: units of each network's layers for terrain heights; by default no such layers.
    """
    norm, num_features = config.layer_norm, spec.observation_size
    torso: Standardizer | images.ImageEncoder | None = None
    if config.torso != "mlp":
        num_features = config.image_features
        convolutions = images.SIZES[config.torso].convolutions
        torso = images.ImageEncoder(spec, convolutions, num_features)
    elif config.normalize_observations:
        torso = Standardizer(num_features)

    def first() -> Sequence[control.Layer]:
        return control.terrain_layers(spec, terrain_sizes, norm)

    policy = control.ControlPolicy(
        spec.action_size, config.policy_sizes, norm, activation, first(), config.unit_norm
    )
    below_head = control.ControlCriticTorso(config.critic_sizes, norm, activation, first())
    critic = control.Critic(below_head, head)
    features = tf.zeros([1, num_features])
    policy(features)  # Sonnet creates variables at the first call
    critic(features, tf.zeros([1, spec.action_size]))
    return ActorCritic(policy, critic, torso)


class ActorCriticEvaluator(Policy):
    """The policy without noise, run as NumPy twins."""

    def __init__(self, networks: ActorCritic):
        self._policy = numpy_twins.twin(networks.policy)
        self._torso = None if networks.torso is None else numpy_twins.twin(networks.torso)
        self._size = sum(variable.shape.num_elements() for variable in networks.variables)

    def load(self, flat: np.ndarray) -> None:
        """Loads the policy from `ActorCritic.variables`, [P] float32.

        Raises:
          ValueError: the length is wrong; the old parameters stay.
        """
        packing.check_size(flat, self._size)  # the twins load parts of it
        self._policy.load(flat[: self._policy.num_parameters])
        if self._torso is not None:
            self._torso.load(flat[-self._torso.num_parameters :])

    def layers(self) -> list[tuple[str, list[np.ndarray]]]:
        """Returns the layers of the torso and the policy; see base class."""
        first = [] if self._torso is None else self._torso.layers()
        return [*first, *self._policy.layers()]

    def features(self, observation: np.ndarray) -> np.ndarray:
        """Returns the inputs of the networks, float32 [K, D], for observations [K, ...]."""
        return observation if self._torso is None else self._torso(observation)

    def __call__(self, observation: np.ndarray, state: Nest = ()):
        """Returns actions [K, A] at observations [K, ...], the same state, and no extras."""
        return self._policy(self.features(observation)), state, {}


class ActorCriticActor(ActorCriticEvaluator):
    """The policy with noise, run as NumPy twins.

    Its extras are the outputs of its copy of the critic for two actions: the action taken and the
    policy's own action. Initial priorities are computed from them without running the networks
    again (Ape-X appendix F). A paper's actor inherits from it and adds `initial_priorities`.
    """

    def __init__(self, config: Any, networks: ActorCritic, action_size: int, seed: int):
        """Adds noise, Gaussian or Ornstein-Uhlenbeck as `config.noise` says, to the policy."""
        super().__init__(networks)
        self._critic = numpy_twins.twin(networks.critic)
        self._action_size = action_size
        theta = config.ou_theta if config.noise == "ou" else 1.0
        self._noise = OrnsteinUhlenbeckNoise(config.noise_sigma, theta, seed)

    def load(self, flat: np.ndarray) -> None:
        """Loads all networks; see base class."""
        super().load(flat)
        begin = self._policy.num_parameters
        self._critic.load(flat[begin : begin + self._critic.num_parameters])

    def initial_state(self, num_environments: int) -> Nest:
        """Returns the state of the noise before an episode."""
        return self._noise.initial_state((num_environments, self._action_size))

    def __call__(self, observation: np.ndarray, state: np.ndarray | float = 0.0):
        """Acts on observations [K, ...].

        Args:
          observation: [K, ...].
          state: state of the noise; 0 before an episode.

        Returns:
          action: [K, A], with noise.
          state: state of the noise.
          extras: outputs of the critic [K, ...]: "taken" for the noisy action, "bootstrap" for the
            policy's own action.
        """
        features = self.features(observation)
        greedy = self._policy(features)
        action, state = self._noise(greedy, state)
        outputs = self._critic(
            np.concatenate([features, features]), np.concatenate([action, greedy])
        )
        taken, bootstrap = np.split(outputs, 2)
        return action, state, {"taken": taken, "bootstrap": bootstrap}


class ActorCriticAgent(TransitionAgent):
    """Base of agents for continuous actions.

    A paper's agent inherits from it and adds its learner and its actor.
    """

    jit_compile = True

    def __init__(
        self,
        config: Any,
        setting: str,
        make_networks: Callable[[Any, EnvironmentSpec], ActorCritic],
        is_soft: bool = False,
    ):
        """Creates the agent.

        Args:
          config: a paper's dataclass of hyperparameters.
          setting: name of the configuration, for CSV files.
          make_networks: (config, the environment's spec) -> networks.
          is_soft: whether the replay's capacity is a soft limit; see `ItemData`.
        """
        super().__init__(config, setting)
        if config.torso != "mlp":
            self.jit_compile = False  # XLA slows convolutions on a CPU
        self.updates_per_call = config.updates_per_call
        self._make_networks = make_networks
        remove: memory.Distribution = memory.Fifo()
        if config.removal == "priority":
            remove = memory.Proportional(config.removal_exponent)
        sample = memory.prioritized(config.priority_exponent)
        self.data = Transitions(config, sample, remove, is_soft=is_soft)

    def make_evaluator(self, spec: EnvironmentSpec, num_environments: int) -> ActorCriticEvaluator:
        """Builds the policy without noise (D4PG section 4, Ape-X appendix D)."""
        del num_environments  # NumPy twins take any batch size
        return ActorCriticEvaluator(self._make_networks(self.config, spec))

    def graph_policy(self, learner: ActorCriticLearner, spec: EnvironmentSpec) -> GraphPolicy:
        """Returns the policy without noise; see base class."""
        del spec
        networks = learner.networks

        def act(observation: tf.Tensor, state: Nest) -> tuple[tf.Tensor, Nest]:
            return networks.policy(networks.features(observation)), state

        return act
