"""Learners of V-RACER, NAF and DDPG with each kind of replay (Novati & Koumoutsakos 2019).

The losses are in `vracer`, `naf` and `ddpg`, the rules of ReF-ER in `rules`.
"""

import abc
from collections.abc import Sequence
import math
from typing import Any, NamedTuple

import tensorflow as tf

from common.learning import optimizers, targets
from common.learning.learner import Gradients, Learner
from common.networks.standardizer import Standardizer
from common.types import Batch, EpisodeBatch, EpisodeWindows, Metrics
from common.values import policy_gradients, prioritization
from reproductions.refer import advantages, ddpg, naf, networks, rules, views, vracer
from reproductions.refer.config import ReferConfig

_SHARED_METRICS = (
    "kl_divergence",
    "far_policy_fraction",
    "beta",
    "c_max",
    "learning_rate",
    "reward_scale",
)
METRICS = {
    "vracer": (*_SHARED_METRICS, "policy_loss", "value_loss", "mean_variance", "gradient_norm"),
    "naf": (*_SHARED_METRICS, "critic_loss", "mean_q", "gradient_norm"),
    "ddpg": (
        *_SHARED_METRICS,
        "critic_loss",
        "mean_q",
        "saturated_actions",
        "critic_gradient_norm",
        "policy_gradient_norm",
    ),
}
"""Metrics of an agent's updates and their columns in learner.csv."""
ADVANTAGE_METRICS = ("advantage_loss",)
"""Those of V-RACER with an advantage, in addition."""


class Refresh(NamedTuple):
    """The values of B steps that the memory stores anew, all float32 [B].

    Attributes:
      values: V of the states; zeros from DDPG.
      rhos: importance weights.
      divergences: D_KL of the policies, in nats.
      errors: squared errors, for the ranks of prioritised replay.
      next_values: V of the next states, correct where `EpisodeBatch.bootstraps`; zeros from DDPG.
      advantages: A of the actions; zeros without an advantage.
    """

    values: tf.Tensor
    rhos: tf.Tensor
    divergences: tf.Tensor
    errors: tf.Tensor
    next_values: tf.Tensor
    advantages: tf.Tensor


class ReferLearner(Learner):
    """Base of the three learners: standardised observations, the rules' state, annealed rates.

    All methods take batches whose `steps` are an `EpisodeBatch`, or `EpisodeWindows` with recurrent
    networks, and `Gradients.outputs` is a `Refresh`.

    Attributes:
      standardizer: of observations; the agent sets its moments before the first update.
      far_fraction: float32 variable, the part of the memory that is far from the policy. The agent
        sets it before each call, as the next two.
      mean_divergence: float32 variable, mean D_KL of the memory in nats.
      reward_scale: float32 variable, sigma_r.
      beta: float32 variable; 1 without rule 2.
      learning_rate: float32 variable, annealed, that optimisers use and with which beta moves.
    """

    def __init__(self, config: ReferConfig, observation_size: int):
        """Makes all that the three learners share, for observations of D elements."""
        super().__init__()
        self._config = config
        self.learning_rate = _rate(config.learning_rate)
        self.standardizer = Standardizer(observation_size)
        self.far_fraction = tf.Variable(0.0, trainable=False, name="far_fraction")
        self.mean_divergence = tf.Variable(0.0, trainable=False, name="mean_divergence")
        self.reward_scale = tf.Variable(1.0, trainable=False, name="reward_scale")
        beta = config.initial_beta if config.penalty else 1.0
        self.beta = tf.Variable(beta, trainable=False, name="beta")
        self._log_bound = math.log(config.max_importance_weight)

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
        """Makes a step of optimisers and target networks and counts it."""

    def apply(self, gradients: Any) -> None:
        """Makes a step with annealed rates, then one of beta (eqs 12, 13); see base class."""
        config = self._config
        self.anneal(self.steps.read_value())
        self.make_step(gradients)
        if config.penalty:
            far_fraction, rate = self.far_fraction, self.learning_rate
            self.beta.assign(rules.next_beta(self.beta, far_fraction, config.penalty_d, rate))

    def anneal(self, step: tf.Tensor) -> None:
        """Sets the learning rates of the step that follows `step` updates."""
        config = self._config
        self.learning_rate.assign(rules.annealed(config.learning_rate, step, config.annealing))

    def view(self, steps: EpisodeBatch | EpisodeWindows) -> views.View:
        """Returns what networks get of the steps."""
        kind = views.WindowView if self._config.recurrent else views.StateView
        return kind(steps, self.standardizer)

    def c_max(self) -> tf.Tensor:
        """Returns the present bound of importance weights near the policy (eq 13)."""
        return rules.c_max(self.steps, self._config.penalty_c, self._config.annealing)

    def weights(self, batch: Batch) -> tf.Tensor | float:
        """Returns the importance weights of prioritised replay, [B], at most 1; 1 if uniform.

        They are (p_min / p)^b with the least probability of the batch. b rises from its start to 1
        with A t. Not in the paper; the authors' program.
        """
        config = self._config
        if config.sampling == "uniform":
            return 1.0
        start = config.importance_exponent
        progress = tf.minimum(1.0, config.annealing * tf.cast(self.steps, tf.float32))
        return prioritization.normalize_by_max(
            prioritization.importance_weights(
                batch.probabilities, batch.size, start + (1.0 - start) * progress
            )
        )

    def shared_metrics(self) -> Metrics:
        """Returns the metrics of all three, of the state before the step."""
        config = self._config
        return {
            "kl_divergence": self.mean_divergence.read_value(),
            "far_policy_fraction": self.far_fraction.read_value(),
            "beta": self.beta.read_value(),
            "c_max": self.c_max(),
            "learning_rate": rules.annealed(config.learning_rate, self.steps, config.annealing),
            "reward_scale": self.reward_scale.read_value(),
        }


class OneNetworkLearner(ReferLearner):
    """Base of the learners with one network, which acts, and its Adam.

    Attributes:
      network: value and policy.
      optimizer: of all parameters of `network`.
    """

    def __init__(self, config: ReferConfig, observation_size: int, network: Any):
        super().__init__(config, observation_size)
        self.network = network
        self.optimizer = _make_adam(config, self.learning_rate)
        optimizers.create_variables(self.optimizer, network.parameters)

    @property
    def policy_variables(self) -> Sequence[tf.Variable]:
        """Variables of the network."""
        return self.network.parameters

    def make_step(self, gradients: Sequence[tf.Tensor]) -> None:
        """Makes a step of Adam."""
        self.optimizer.apply(gradients, self.network.parameters)
        self.steps.assign_add(1)


class VracerLearner(OneNetworkLearner):
    """V-RACER (section 4)."""

    def __init__(self, config: ReferConfig, observation_size: int, action_size: int):
        network = networks.VracerNetwork(config, observation_size, action_size)
        super().__init__(config, observation_size, network)

    def gradients(self, batch: Batch) -> Gradients:
        """Returns the gradients of a step on B steps; see base class."""
        config, network, steps = self._config, self.network, batch.steps
        view = self.view(steps)
        observation, action, behaviour = view.observation, view.states.action, view.states.extras
        has_advantage = config.advantage != "none"
        with tf.GradientTape() as tape:
            value, mean, coefficients = network(observation)
            variance = network.variance
            advantage = advantages.advantage(config, coefficients, action, mean, variance)
            losses = vracer.loss(
                value,
                mean,
                variance,
                action,
                behaviour["mean"],
                behaviour["variance"],
                steps.q_ret,
                self.beta,
                self.c_max(),
                config.clipping,
                self._log_bound,
                config.divergence,
                advantage if has_advantage else None,
            )
            loss = tf.reduce_mean(self.weights(batch) * losses.loss)
        gradients = tape.gradient(loss, network.parameters)
        refresh = Refresh(
            value,
            losses.rho,
            losses.divergence,
            losses.error,
            self._next_values(view, steps),
            advantage,
        )
        metrics = {
            **self.shared_metrics(),
            "policy_loss": tf.reduce_mean(losses.policy_loss),
            "value_loss": tf.reduce_mean(losses.value_loss),
            "mean_variance": tf.reduce_mean(network.variance),
            "gradient_norm": tf.linalg.global_norm(gradients),
        }
        if has_advantage:
            metrics["advantage_loss"] = tf.reduce_mean(losses.advantage_loss)
        return Gradients(gradients, refresh, metrics)

    def _next_values(self, view: views.View, steps: EpisodeBatch | EpisodeWindows) -> tf.Tensor:
        """Returns V of the next states, but zeros if no episode of the batch needs a bootstrap."""
        return tf.cond(
            tf.reduce_any(steps.bootstraps),
            lambda: self.network(view.next_observation).value,
            lambda: tf.zeros_like(steps.q_ret),
        )


class NafLearner(OneNetworkLearner):
    """NAF, whose network also has the matrix of the advantage (section 2).

    Attributes:
      target_network: slow copy of `network`, whose values bootstrap.
    """

    def __init__(self, config: ReferConfig, observation_size: int, action_size: int):
        network = networks.NafNetwork(config, observation_size, action_size)
        super().__init__(config, observation_size, network)
        self.target_network = networks.NafNetwork(config, observation_size, action_size)
        targets.copy(network.parameters, self.target_network.parameters)

    def gradients(self, batch: Batch) -> Gradients:
        """Returns the gradients of a step on B steps; see base class."""
        config, network, steps = self._config, self.network, batch.steps
        observation = self.standardizer(steps.states.observation)
        next_value = self.target_network.value(self.standardizer(steps.next_states.observation))
        target = steps.rewards + steps.discounts * next_value
        with tf.GradientTape() as tape:
            outputs = network(observation)
            losses = naf.loss(
                *outputs,
                steps.states.action,
                steps.states.extras["mean"],
                target,
                self.beta,
                self.c_max(),
                config.clipping,
                config.sigma,
                self._log_bound,
            )
            loss = tf.reduce_mean(self.weights(batch) * losses.loss)
        gradients = tape.gradient(loss, network.parameters)
        errors = tf.square(losses.q - target)
        zeros = tf.zeros_like(errors)
        refresh = Refresh(outputs.value, losses.rho, losses.divergence, errors, next_value, zeros)
        metrics = {
            **self.shared_metrics(),
            "critic_loss": 0.5 * tf.reduce_mean(errors),
            "mean_q": tf.reduce_mean(losses.q),
            "gradient_norm": tf.linalg.global_norm(gradients),
        }
        return Gradients(gradients, refresh, metrics)

    def make_step(self, gradients: Sequence[tf.Tensor]) -> None:
        """Makes a step of Adam, then one of the target network."""
        super().make_step(gradients)
        online, target = self.network.parameters, self.target_network.parameters
        targets.move(online, target, self._config.target_rate)


class DdpgGradients(NamedTuple):
    """The gradients of both networks' variables."""

    policy: Sequence[tf.Tensor]
    critic: Sequence[tf.Tensor]


class DdpgLearner(ReferLearner):
    """DDPG: policy and critic with their targets, and an Adam each (section 2, algorithm 4).

    Attributes:
      networks: policy and critic.
      target_networks: slow copies of them, from which targets are computed.
      policy_learning_rate: float32 variable, annealed; the critic has `learning_rate`.
      policy_optimizer: of the policy.
      critic_optimizer: of the critic.
    """

    def __init__(self, config: ReferConfig, observation_size: int, action_size: int):
        super().__init__(config, observation_size)
        sizes = observation_size, action_size
        self.networks = networks.make_ddpg_networks(config, *sizes)
        self.target_networks = networks.make_ddpg_networks(config, *sizes)
        targets.copy(self.networks.variables, self.target_networks.variables)
        self.policy_learning_rate = _rate(config.policy_learning_rate)
        self.policy_optimizer = _make_adam(config, self.policy_learning_rate)
        self.critic_optimizer = _make_adam(config, self.learning_rate)
        optimizers.create_variables(self.policy_optimizer, self.policy_variables)
        optimizers.create_variables(self.critic_optimizer, self._critic_variables)

    @property
    def policy_variables(self) -> Sequence[tf.Variable]:
        """Variables of the online policy; acting needs no critic."""
        return self.networks.policy.trainable_variables

    @property
    def _critic_variables(self) -> Sequence[tf.Variable]:
        return self.networks.critic.trainable_variables

    def gradients(self, batch: Batch) -> Gradients:
        """Returns the gradients of a step on B steps; see base class."""
        config, online, target = self._config, self.networks, self.target_networks
        steps, view = batch.steps, self.view(batch.steps)
        action, behaviour_mean = view.states.action, view.states.extras["mean"]
        observation, next_observation = view.observation, view.next_observation
        next_action = view.next_action(target.policy(next_observation))
        bootstrap = target.critic(next_observation, next_action)
        y = steps.rewards + steps.discounts * bootstrap
        rule_1 = (self.c_max(), config.clipping)
        weights = self.weights(batch)
        with tf.GradientTape() as policy_tape:
            mean = online.policy(observation)
            rho = ddpg.importance_weight(
                action, mean, behaviour_mean, config.sigma, self._log_bound
            )
            value, dqda = policy_gradients.value_and_action_gradient(
                mean, lambda action: online.critic(observation, view.action(action))
            )
            losses = ddpg.policy_loss(
                mean, dqda, behaviour_mean, rho, self.beta, *rule_1, config.sigma
            )
            policy_loss = tf.reduce_mean(weights * losses)
        with tf.GradientTape() as critic_tape:
            q = online.critic(observation, view.action(action))
            critic_loss = tf.reduce_mean(weights * ddpg.critic_loss(q, y, rho, *rule_1))
            decay = tf.add_n([tf.nn.l2_loss(v) for v in self._critic_variables])
            critic_loss += config.critic_decay * decay
        gradients = DdpgGradients(
            policy_tape.gradient(policy_loss, self.policy_variables),
            critic_tape.gradient(critic_loss, self._critic_variables),
        )
        kl, zeros = ddpg.divergence(mean, behaviour_mean, config.sigma), tf.zeros_like(rho)
        refresh = Refresh(zeros, rho, kl, tf.square(q - y), zeros, zeros)
        metrics = {
            **self.shared_metrics(),
            "critic_loss": critic_loss,
            "mean_q": tf.reduce_mean(value),
            "saturated_actions": policy_gradients.saturated_share(mean),
            "critic_gradient_norm": tf.linalg.global_norm(gradients.critic),
            "policy_gradient_norm": tf.linalg.global_norm(gradients.policy),
        }
        return Gradients(gradients, refresh, metrics)

    def anneal(self, step: tf.Tensor) -> None:
        """Sets both learning rates; see base class."""
        super().anneal(step)
        config = self._config
        rate = rules.annealed(config.policy_learning_rate, step, config.annealing)
        self.policy_learning_rate.assign(rate)

    def make_step(self, gradients: DdpgGradients) -> None:
        """Makes a step of both Adams, then one of the target networks."""
        self.critic_optimizer.apply(gradients.critic, self._critic_variables)
        self.policy_optimizer.apply(gradients.policy, self.policy_variables)
        self.steps.assign_add(1)
        online, target = self.networks.variables, self.target_networks.variables
        targets.move(online, target, self._config.target_rate)


_LEARNERS = {"vracer": VracerLearner, "naf": NafLearner, "ddpg": DdpgLearner}


def make_learner(config: ReferConfig, observation_size: int, action_size: int) -> ReferLearner:
    """Builds the learner of `config.agent` for flat observations and continuous actions."""
    return _LEARNERS[config.agent](config, observation_size, action_size)


def _rate(initial: float) -> tf.Variable:
    return tf.Variable(initial, trainable=False, name="learning_rate")


def _make_adam(config: ReferConfig, learning_rate: tf.Variable) -> optimizers.Adam:
    return optimizers.Adam(learning_rate, config.adam_beta1, config.adam_beta2, config.adam_epsilon)
