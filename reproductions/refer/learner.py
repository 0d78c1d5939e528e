"""Learners of V-RACER, NAF and DDPG with each kind of replay, and of ACER.

Source: ReF-ER (Novati & Koumoutsakos 2019). The losses are in `vracer`, `naf`, `ddpg` and `acer`,
the rules of ReF-ER in `rules`.
"""

import abc
from collections.abc import Sequence
import math
from typing import Any, NamedTuple

import tensorflow as tf

from common.learning import learner
from common.learning.learner import Gradients, Learner
from common.networks.standardizer import Standardizer
from common.replay.episode_wire import EpisodeBatch, HistoryBatch, WindowBatch
from common.types import Batch, Metrics
from common.values import gaussian, policy_gradients, value_learning
from reproductions.refer import acer, advantages, ddpg, naf, networks, rules, vracer
from reproductions.refer.config import ReferConfig


class Refresh(NamedTuple):
    """The values of B steps that the memory stores anew, all float32 [B].

    ACER's are those of all L steps of its windows, one window behind the other, [B L].

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
    """Base of the learners: standardised observations, the rules' state, annealed rates.

    All methods take batches whose `steps` are an `EpisodeBatch`, `HistoryBatch` with recurrent
    networks, or ACER's `WindowBatch`, and `Gradients.outputs` is a `Refresh`.

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
        """Makes all that the learners share, for observations of D elements."""
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

    def view(self, steps: EpisodeBatch | HistoryBatch) -> networks.View:
        """Returns what networks get of the steps."""
        kind = networks.WindowView if self._config.recurrent else networks.StateView
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
        return value_learning.normalize_by_max(
            value_learning.importance_weights(
                batch.probabilities, batch.size, start + (1.0 - start) * progress
            )
        )

    def shared_metrics(self) -> Metrics:
        """Returns the metrics of all learners, of the state before the step."""
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
        learner.create_variables(self.optimizer, network.parameters)

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

    def _next_values(self, view: networks.View, steps: EpisodeBatch | HistoryBatch) -> tf.Tensor:
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
        learner.copy_variables(network.parameters, self.target_network.parameters)

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
        learner.move_towards(online, target, self._config.target_rate)


class ActorCriticGradients(NamedTuple):
    """The gradients of the policy's and of the critic's variables."""

    policy: Sequence[tf.Tensor]
    critic: Sequence[tf.Tensor]


class TwoRatesLearner(ReferLearner):
    """Base of the learners whose policy and critic have an Adam and a learning rate each.

    Attributes:
      policy_learning_rate: float32 variable, annealed; the critic has `learning_rate`.
      policy_optimizer: of `policy_variables`.
      critic_optimizer: of `critic_variables`.
    """

    def make_optimizers(self) -> None:
        """Makes both Adams; the networks have to be there."""
        self.policy_learning_rate = _rate(self._config.policy_learning_rate)
        self.policy_optimizer = _make_adam(self._config, self.policy_learning_rate)
        self.critic_optimizer = _make_adam(self._config, self.learning_rate)
        learner.create_variables(self.policy_optimizer, self.policy_variables)
        learner.create_variables(self.critic_optimizer, self.critic_variables)

    @property
    @abc.abstractmethod
    def critic_variables(self) -> Sequence[tf.Variable]:
        """Variables of the critic."""

    @property
    @abc.abstractmethod
    def online_and_slow(self) -> tuple[Sequence[tf.Variable], Sequence[tf.Variable]]:
        """Variables, and those that move slowly towards them."""

    def anneal(self, step: tf.Tensor) -> None:
        """Sets both learning rates; see base class."""
        super().anneal(step)
        config = self._config
        rate = rules.annealed(config.policy_learning_rate, step, config.annealing)
        self.policy_learning_rate.assign(rate)

    def make_step(self, gradients: ActorCriticGradients) -> None:
        """Makes a step of both Adams, then one of the slow networks."""
        self.critic_optimizer.apply(gradients.critic, self.critic_variables)
        self.policy_optimizer.apply(gradients.policy, self.policy_variables)
        self.steps.assign_add(1)
        learner.move_towards(*self.online_and_slow, self._config.target_rate)


class DdpgLearner(TwoRatesLearner):
    """DDPG: policy and critic with their targets, and an Adam each (section 2, algorithm 4).

    Attributes:
      networks: policy and critic.
      target_networks: slow copies of them, from which targets are computed.
    """

    def __init__(self, config: ReferConfig, observation_size: int, action_size: int):
        super().__init__(config, observation_size)
        sizes = observation_size, action_size
        self.networks = networks.make_ddpg_networks(config, *sizes)
        self.target_networks = networks.make_ddpg_networks(config, *sizes)
        learner.copy_variables(*self.online_and_slow)
        self.make_optimizers()

    @property
    def policy_variables(self) -> Sequence[tf.Variable]:
        """Variables of the online policy; acting needs no critic."""
        return self.networks.policy.trainable_variables

    @property
    def critic_variables(self) -> Sequence[tf.Variable]:
        """Variables of the online critic."""
        return self.networks.critic.trainable_variables

    @property
    def online_and_slow(self) -> tuple[Sequence[tf.Variable], Sequence[tf.Variable]]:
        """Variables of both networks, and of their targets."""
        return self.networks.variables, self.target_networks.variables

    def gradients(self, batch: Batch) -> Gradients:
        """Returns the gradients of a step on B steps; see base class."""
        config, online, target = self._config, self.networks, self.target_networks
        steps, view = batch.steps, self.view(batch.steps)
        action, behaviour_mean = view.states.action, view.states.extras["mean"]
        observation, next_observation = view.observation, view.next_observation
        bootstrap = target.critic.of(next_observation, view.next_actions_before)
        y = steps.rewards + steps.discounts * bootstrap(target.policy(next_observation))
        rule_1 = (self.c_max(), config.clipping)
        weights = self.weights(batch)
        with tf.GradientTape() as critic_tape:
            value_of = online.critic.of(observation, view.actions_before)
            q = value_of(action)
        with tf.GradientTape() as policy_tape:
            mean = online.policy(observation)
            rho = ddpg.importance_weight(
                action, mean, behaviour_mean, config.sigma, self._log_bound
            )
            value, dqda = policy_gradients.value_and_action_gradient(mean, value_of)
            losses = ddpg.policy_loss(
                mean, dqda, behaviour_mean, rho, self.beta, *rule_1, config.sigma
            )
            policy_loss = tf.reduce_mean(weights * losses)
        with critic_tape:
            critic_loss = tf.reduce_mean(weights * ddpg.critic_loss(q, y, rho, *rule_1))
            decay = tf.add_n([tf.nn.l2_loss(v) for v in self.critic_variables])
            critic_loss += config.critic_decay * decay
        gradients = ActorCriticGradients(
            policy_tape.gradient(policy_loss, self.policy_variables),
            critic_tape.gradient(critic_loss, self.critic_variables),
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


class AcerLearner(TwoRatesLearner):
    """ACER for continuous actions (section 5.3, appendix A; Wang et al. 2017, algorithm 3).

    Attributes:
      policy: the policy that acts.
      average_policy: slow copy of it, around which the trust region lies.
      critic: V and the advantage.
    """

    def __init__(self, config: ReferConfig, observation_size: int, action_size: int):
        super().__init__(config, observation_size)
        sizes = observation_size, action_size
        self._action_size = action_size
        self.policy = networks.AcerPolicy(config, *sizes)
        self.average_policy = networks.AcerPolicy(config, *sizes)
        self.critic = networks.DuelingCritic(config, *sizes)
        learner.copy_variables(*self.online_and_slow)
        self.make_optimizers()
        # A checkpoint has it, so that a resumed run goes on with the noise of the same seed.
        seed = tf.random.uniform([], maxval=tf.int64.max, dtype=tf.int64)
        self._seed = tf.Variable(seed, trainable=False, name="seed")

    @property
    def policy_variables(self) -> Sequence[tf.Variable]:
        """Variables of the policy."""
        return self.policy.parameters

    @property
    def critic_variables(self) -> Sequence[tf.Variable]:
        """Variables of V and of the advantage."""
        return self.critic.parameters

    @property
    def online_and_slow(self) -> tuple[Sequence[tf.Variable], Sequence[tf.Variable]]:
        """Variables of the policy, and of the average one."""
        return self.policy.parameters, self.average_policy.parameters

    def noise(self, num_states: tf.Tensor) -> tf.Tensor:
        """Returns the noise of the actions that the next update draws, [1 + n, num_states, A].

        The first one makes a', the others the u_j.
        """
        config = self._config
        shape = [1 + config.advantage_samples, num_states, self._action_size]
        seed = tf.stack([self._seed, self.steps])
        return acer.truncated_normal(shape, config.noise_bound, seed)

    def gradients(self, batch: Batch) -> Gradients:
        """Returns the gradients of a step on windows of B episodes; see base class."""
        config, steps = self._config, batch.steps
        states, stored = self.standardizer(steps.states.observation), steps.states.extras
        columns = states, steps.states.action, stored["mean"], stored["variance"]
        observation, action, *behaviour = (_flat(column[:, :-1]) for column in columns)
        with tf.GradientTape() as policy_tape:
            mean, deviation = self.policy(observation)
            outputs = tf.concat([mean, deviation], axis=-1)
        policy = mean, tf.square(deviation)
        drawn = mean + deviation * self.noise(tf.shape(mean)[0])
        with tf.GradientTape() as critic_tape:
            values = tf.reshape(self.critic.value(_flat(states)), tf.shape(states)[:2])
            value = _flat(values[:, :-1])
            actions = tf.concat([action[tf.newaxis], drawn[1:]], axis=0)
            advantages = self.critic.advantages(observation, actions)
            mean_advantage = tf.reduce_mean(advantages[1:], axis=0)
            q = value + advantages[0] - mean_advantage
            rho = gaussian.importance_weight(action, *policy, *behaviour, self._log_bound)
            q_ret, q_opc = self._targets(steps, values, q, rho)
            weights = _weights(steps)
            losses = acer.critic_loss(value, q, q_ret, rho)
            critic_loss = tf.reduce_sum(weights * losses)
        gradient = acer.ascent(
            rho,
            q_opc - value,
            acer.score(action, mean, deviation),
            gaussian.importance_weight(drawn[0], *policy, *behaviour, self._log_bound),
            self.critic.advantages(observation, drawn[:1])[0] - mean_advantage,
            acer.score(drawn[0], mean, deviation),
            config.truncation,
        )
        k = acer.divergence_gradient(mean, deviation, *self.average_policy(observation))
        direction = acer.trust_region(gradient, k, config.trust_region)
        gradients = ActorCriticGradients(
            policy_tape.gradient(
                outputs, self.policy_variables, -weights[:, tf.newaxis] * direction
            ),
            critic_tape.gradient(critic_loss, self.critic_variables),
        )
        divergence = gaussian.kl_divergence(*behaviour, *policy)
        if config.divergence == "policy_to_behavior":
            divergence = gaussian.kl_divergence(*policy, *behaviour)
        errors, next_values = tf.square(q_ret - q), _flat(values[:, 1:])
        refresh = Refresh(value, rho, divergence, errors, next_values, tf.zeros_like(value))
        is_bounded = tf.reduce_any(direction != gradient, axis=-1)
        metrics = {
            **self.shared_metrics(),
            "critic_loss": critic_loss,
            "mean_q": tf.reduce_sum(weights * q),
            "mean_variance": tf.reduce_mean(self.policy.variance),
            "trust_region_share": tf.reduce_sum(weights * tf.cast(is_bounded, weights.dtype)),
            "critic_gradient_norm": tf.linalg.global_norm(gradients.critic),
            "policy_gradient_norm": tf.linalg.global_norm(gradients.policy),
        }
        return Gradients(gradients, refresh, metrics)

    def _targets(
        self, steps: WindowBatch, values: tf.Tensor, q: tf.Tensor, rho: tf.Tensor
    ) -> list[tf.Tensor]:
        """Returns Q_ret and Q_opc, [B L] each, from values [B, L + 1], q and rho [B L]."""
        shape = tf.shape(steps.rewards)
        found = acer.targets(
            tf.transpose(steps.rewards),
            self._config.discount,
            tf.transpose(values[:, :-1]),
            tf.transpose(tf.reshape(q, shape)),
            tf.transpose(tf.reshape(rho, shape)),
            self._action_size,
            tf.where(steps.bootstraps, values[:, -1], 0.0),
            self._config.trace_exponent,
        )
        return [_flat(tf.transpose(one)) for one in found]


def _flat(columns: tf.Tensor) -> tf.Tensor:
    """Joins the first two dimensions."""
    shape = tf.concat([[-1], tf.shape(columns)[2:]], 0)
    return tf.reshape(columns, shape)


def _weights(steps: WindowBatch) -> tf.Tensor:
    """Returns 1 / (number of steps) for each step of windows, 0 in front of them, [B L] float32."""
    longest = tf.shape(steps.rewards, tf.int64)[1]
    is_step = tf.range(longest) >= longest - steps.lengths[:, tf.newaxis]
    return _flat(tf.cast(is_step, tf.float32)) / tf.cast(tf.reduce_sum(steps.lengths), tf.float32)


_LEARNERS = {"vracer": VracerLearner, "naf": NafLearner, "ddpg": DdpgLearner, "acer": AcerLearner}


def make_learner(config: ReferConfig, observation_size: int, action_size: int) -> ReferLearner:
    """Builds the learner of `config.agent` for flat observations and continuous actions."""
    return _LEARNERS[config.agent](config, observation_size, action_size)


def _rate(initial: float) -> tf.Variable:
    return tf.Variable(initial, trainable=False, name="learning_rate")


def _make_adam(config: ReferConfig, learning_rate: tf.Variable) -> learner.Adam:
    return learner.Adam(learning_rate, config.adam_beta1, config.adam_beta2, config.adam_epsilon)
