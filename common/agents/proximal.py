"""Agents with proximal policy optimisation (PPO): the common part of several papers' agents.

Source: Schulman et al. 2017. The policy is Gaussian with variances that do not depend on the state.
The value network is separate, and each network has its own optimiser. Each agent's own file has its
networks, scales, objective and learning rates.
"""

import abc
import math
from typing import Any, NamedTuple

import numpy as np
import sonnet as snt
import tensorflow as tf

from common.acting.policy import Policy, truncated_normal
from common.agents.agent import Agent, GraphPolicy
from common.data.data import StoredState, gaussian_state_specs
from common.data.rollouts import Rollouts, RolloutSteps
from common.environments.spec import EnvironmentSpec
from common.learning import learner as learner_lib
from common.learning.learner import Gradients
from common.learning.updates import RolloutLearner, RolloutUpdates
from common.networks import numpy_twins, packing, standardizer
from common.networks.standardizer import EPSILON, Standardizer
from common.replay.store import Store
from common.types import Batch, Metrics, Nest
from common.values import gaussian


class ProximalNetworks(snt.Module):
    """A policy N(m(s), Sigma) and its value, for standardised observations.

    Attributes:
      mean: [B, D] -> [B, A], m.
      value: [B, D] -> [B, 1], V in units of the scale of rewards.
      raw_variance: float32 [A] variable; see `common.networks.standardizer`.
      policy_variables: `raw_variance`, then the variables of `mean`.
      value_variables: the variables of `value`.
      observation_clip: bound of standardised observations.
    """

    def __init__(
        self,
        mean: snt.Module,
        value: snt.Module,
        action_size: int,
        initial_variance: float,
        observation_clip: float = math.inf,
    ):
        """Wraps networks whose variables already exist."""
        super().__init__()
        self.observation_clip = observation_clip
        self.mean, self.value = mean, value
        self.raw_variance = standardizer.variance_variable(initial_variance, action_size)
        self.policy_variables = (self.raw_variance, *mean.trainable_variables)
        self.value_variables = tuple(value.trainable_variables)

    @property
    def variance(self) -> tf.Tensor:
        """The diagonal of Sigma, [A]."""
        return standardizer.variance_of_raw(self.raw_variance)


class ProximalSteps(NamedTuple):
    """N steps from which updates learn, all float32.

    Attributes:
      observation: [N, D], standardised.
      action: [N, A].
      mean: [N, A], mean of the policy mu that acted.
      variance: [N, A], variance of mu.
      advantage: [N].
      value: [N], V when mu acted.
      target: [N], target of V.
    """

    observation: tf.Tensor
    action: tf.Tensor
    mean: tf.Tensor
    variance: tf.Tensor
    advantage: tf.Tensor
    value: tf.Tensor
    target: tf.Tensor


class ProximalLearner(RolloutLearner):
    """Learner of a value, and of a policy that maximises a surrogate of the return.

    Attributes:
      standardizer: standardises observations.
      reward_scale: float32 variable; rewards are divided by it.
      version: float32 variable, number of rollouts so far: the version of the parameters.
      networks: policy and value.
      policy_learning_rate: float32 variable.
      value_learning_rate: float32 variable.
      policy_optimizer: Adam of the policy.
      value_optimizer: Adam of the value.
    """

    def __init__(self, config: Any, observation_size: int, networks: ProximalNetworks):
        """Creates the optimisers and all other variables.

        Args:
          config: hyperparameters, among them `policy_learning_rate`, `value_learning_rate`,
            `adam_beta1`, `adam_beta2` and `adam_epsilon`.
          observation_size: D.
          networks: policy and value.
        """
        super().__init__()
        self.standardizer = Standardizer(observation_size)
        self.reward_scale = tf.Variable(1.0, trainable=False, name="reward_scale")
        self.version = tf.Variable(0.0, trainable=False, name="version")
        self.networks = networks
        self._config = config
        adam = config.adam_beta1, config.adam_beta2, config.adam_epsilon
        self.policy_learning_rate = tf.Variable(config.policy_learning_rate, trainable=False)
        self.value_learning_rate = tf.Variable(config.value_learning_rate, trainable=False)
        self.policy_optimizer = learner_lib.Adam(self.policy_learning_rate, *adam)
        self.value_optimizer = learner_lib.Adam(self.value_learning_rate, *adam)
        learner_lib.create_variables(self.policy_optimizer, networks.policy_variables)
        learner_lib.create_variables(self.value_optimizer, networks.value_variables)

    @property
    def actor_variables(self) -> tuple[tf.Variable, ...]:
        """Variables that `GaussianPolicy` loads."""
        return (
            self.standardizer.mean,
            self.standardizer.deviation,
            self.reward_scale,
            self.version,
            *self.networks.policy_variables,
            *self.networks.value_variables,
        )

    @abc.abstractmethod
    def policy_losses(
        self, rho: tf.Tensor, advantage: tf.Tensor, divergence: tf.Tensor
    ) -> tf.Tensor:
        """Returns the losses [B] of the policy, to be minimised.

        Args:
          rho: [B], pi(a|s) / mu(a|s).
          advantage: [B].
          divergence: [B], D_KL(mu || pi) in nats.
        """

    def begin(self, rollout: RolloutSteps) -> ProximalSteps:
        """Returns the steps in scaled units; the target of V is the advantage + V."""
        states: StoredState = rollout.states
        scale, clip = self.reward_scale + EPSILON, self.networks.observation_clip
        return ProximalSteps(
            tf.clip_by_value(self.standardizer(states.observation), -clip, clip),
            states.action,
            states.extras["mean"],
            states.extras["variance"],
            rollout.advantages / scale,
            rollout.values / scale,
            (rollout.advantages + rollout.values) / scale,
        )

    def gradients(self, batch: Batch) -> Gradients:
        """Returns the gradients of both losses on B steps; see base class."""
        steps: ProximalSteps = batch.steps
        networks = self.networks
        with tf.GradientTape() as policy_tape:
            mean, variance = networks.mean(steps.observation), networks.variance
            rho = gaussian.importance_weight(
                steps.action, mean, variance, steps.mean, steps.variance
            )
            divergence = gaussian.kl_divergence(steps.mean, steps.variance, mean, variance)
            policy_loss = tf.reduce_mean(self.policy_losses(rho, steps.advantage, divergence))
        with tf.GradientTape() as value_tape:
            value = networks.value(steps.observation)[:, 0]
            value_loss = 0.5 * tf.reduce_mean(tf.square(value - steps.target))
        policy_gradients = policy_tape.gradient(policy_loss, networks.policy_variables)
        value_gradients = value_tape.gradient(value_loss, networks.value_variables)
        metrics = {
            "policy_loss": policy_loss,
            "value_loss": value_loss,
            "policy_gradient_norm": tf.linalg.global_norm(policy_gradients),
            "value_gradient_norm": tf.linalg.global_norm(value_gradients),
        }
        return Gradients((policy_gradients, value_gradients), (), metrics)

    def apply(self, gradients: Nest) -> None:
        """Takes a step with both optimisers; see base class."""
        policy_gradients, value_gradients = gradients
        self.policy_optimizer.apply(policy_gradients, self.networks.policy_variables)
        self.value_optimizer.apply(value_gradients, self.networks.value_variables)
        self.steps.assign_add(1)

    def end(self, steps: ProximalSteps) -> Metrics:
        """Counts the rollout; returns metrics such as the divergence from the policy that acted."""
        networks = self.networks
        divergence = gaussian.kl_divergence(
            steps.mean, steps.variance, networks.mean(steps.observation), networks.variance
        )
        self.version.assign_add(1.0)
        error = tf.math.reduce_variance(steps.target - steps.value)
        variance = tf.math.reduce_variance(steps.target)
        return {
            "kl_divergence": tf.reduce_mean(divergence),
            "explained_variance": 1.0 - tf.math.divide_no_nan(error, variance),
            "mean_variance": tf.reduce_mean(networks.variance),
            "reward_scale": self.reward_scale.read_value(),
        }


class GaussianPolicy(Policy):
    """A policy of `ProximalNetworks`, run as NumPy twins; evaluators act with its mean.

    Actions are not clipped: the environment clips them.
    """

    def __init__(
        self,
        networks: ProximalNetworks,
        observation_size: int,
        action_size: int,
        seed: int | None = None,
        noise_bound: float = math.inf,
    ):
        """Creates the policy; `load` replaces its parameters with the learner's.

        Args:
          networks: networks of the same sizes as the learner's.
          observation_size: D.
          action_size: A.
          seed: seed of the noise; None acts without noise.
          noise_bound: bound at which the noise is truncated, in standard deviations.
        """
        self._noise_bound = noise_bound
        self._clip = networks.observation_clip
        self._mean_twin = numpy_twins.twin(networks.mean)
        self._value_twin = numpy_twins.twin(networks.value)
        self._standardizer = numpy_twins.twin(Standardizer(observation_size))
        sizes = [self._standardizer.num_parameters, 1, 1, action_size]
        sizes += [self._mean_twin.num_parameters, self._value_twin.num_parameters]
        self._shapes = [(size,) for size in sizes]
        self._generator = None if seed is None else np.random.default_rng(seed)
        self.load(np.zeros(sum(sizes), np.float32))

    def load(self, flat: np.ndarray) -> None:
        """Loads `ProximalLearner.actor_variables`, [P] float32.

        Raises:
          ValueError: the length is wrong; the previous parameters stay.
        """
        parts = packing.unpack(flat.copy(), self._shapes)
        moments, scale, self._version, raw, mean, value = parts
        self._standardizer.load(moments)
        self._scale = scale + np.float32(EPSILON)
        self._variance = standardizer.variance_of_raw_np(raw)
        self._mean_twin.load(mean)
        self._value_twin.load(value)

    def layers(self) -> list[tuple[str, list[np.ndarray]]]:
        """Returns the layers of the mean; see base class."""
        if self._generator is not None:
            raise ValueError("the policy samples its actions, so layers alone do not define them")
        clip = ("clip", [np.float32(self._clip)])
        return [*self._standardizer.layers(), clip, *self._mean_twin.layers()]

    def __call__(self, observation: np.ndarray, state: Nest = ()):
        """Acts on observations [K, D] float32.

        Returns:
          action: [K, A] float32.
          state: the state for the next step.
          extras: float32 arrays: the policy's "mean" and "variance" [K, A], the "value" [K] in
            units of rewards, and the parameters' "version" [K].
        """
        mean, value, state = self._outputs(observation, state)
        action = mean.copy()
        if self._generator is not None:
            noise = truncated_normal(self._generator, mean.shape, self._noise_bound)
            action += np.sqrt(self._variance) * noise
        extras = {
            "mean": mean,
            "variance": np.broadcast_to(self._variance, mean.shape),
            "value": self._scale * value[:, 0],
            "version": np.broadcast_to(self._version, mean.shape[:1]),
        }
        return action, state, extras

    def _outputs(self, observation: np.ndarray, state: Nest) -> tuple[np.ndarray, np.ndarray, Nest]:
        """Returns m [K, A], V [K, 1] in units of the scale of rewards, and the next state."""
        inputs = self._standardized(observation)
        return self._mean_twin(inputs), self._value_twin(inputs), state

    def _standardized(self, observation: np.ndarray) -> np.ndarray:
        return np.clip(self._standardizer(observation), -self._clip, self._clip)


class ProximalAgent(Agent):
    """Base of agents with a `ProximalLearner`.

    In addition to the fields of all agents, the configuration has `horizon`, `num_epochs`,
    `discount` and `trace`.

    Attributes:
      noise_bound: bound at which the actors' noise is truncated, in standard deviations.
    """

    jit_compile = True
    noise_bound = math.inf
    data: Rollouts

    def __init__(self, config: Any, setting: str, unroll_length: int | None = None):
        """Creates the data; see `RolloutAdder` for `unroll_length`."""
        super().__init__(config, setting)
        self.data = Rollouts(config.horizon, config.discount, config.trace, unroll_length)
        self.updates_per_call = config.num_epochs * config.horizon // config.batch_size
        self.publish_period = self.updates_per_call

    @abc.abstractmethod
    def make_networks(self, spec: EnvironmentSpec) -> ProximalNetworks:
        """Builds policy and value with their variables."""

    def make_policy(self, spec: EnvironmentSpec, seed: int | None) -> GaussianPolicy:
        """Builds the policy, with noise from `seed`, or without noise if it is None."""
        sizes = spec.observation_size, spec.action_size
        return GaussianPolicy(self.make_networks(spec), *sizes, seed, self.noise_bound)

    def step_specs(self, spec: EnvironmentSpec) -> StoredState:
        """Returns the columns of a state, with mean and variance of the policy that acted."""
        return gaussian_state_specs(spec)

    def make_actor(
        self, spec: EnvironmentSpec, actors: range, num_actors: int, seed: int
    ) -> GaussianPolicy:
        """Builds the exploring policy, which is the same for all actors."""
        del actors, num_actors
        return self.make_policy(spec, seed)

    def make_evaluator(self, spec: EnvironmentSpec, num_environments: int) -> GaussianPolicy:
        """Builds the policy without noise: it acts with its mean."""
        del num_environments
        return self.make_policy(spec, seed=None)

    def graph_policy(self, learner: ProximalLearner, spec: EnvironmentSpec) -> GraphPolicy:
        """Returns the policy's mean; see base class."""
        del spec
        networks = learner.networks
        clip = networks.observation_clip

        def act(observation: tf.Tensor, state: Nest) -> tuple[tf.Tensor, Nest]:
            standardized = learner.standardizer(observation)
            return networks.mean(tf.clip_by_value(standardized, -clip, clip)), state

        return act

    def updates(self, learner: ProximalLearner, store: Store, seed: int) -> RolloutUpdates:
        """Builds the updates on a rollout; the store then keeps only steps of their version."""
        store.follow(lambda: int(learner.version))
        horizon, batch_size, num_updates = (
            self.config.horizon,
            self.batch_size,
            self.updates_per_call,
        )
        return RolloutUpdates(learner, horizon, batch_size, num_updates, seed, self.jit_compile)
