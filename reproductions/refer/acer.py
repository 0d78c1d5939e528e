"""ACER for continuous actions (Wang et al. 2017, section 5), a baseline of ReF-ER.

It learns from windows of episodes. Like V-RACER's policy, its policy has a variance that all states
share. Its critic is a stochastic dueling network. Equations are numbered as in the README, from 38
on.
"""

from collections.abc import Sequence

import tensorflow as tf

from common.learning.learner import Gradients
from common.networks.control import SoftsignMLP
from common.networks.recurrent import LSTMNetwork, LSTMState, Window
from common.replay.episode_wire import WindowBatch
from common.types import Batch
from common.values import gaussian
from reproductions.refer import networks, rules
from reproductions.refer.config import ReferConfig
from reproductions.refer.rules import Refresh, TwoRatesGradients, TwoRatesLearner


def targets(
    rewards: tf.Tensor,
    discount: float,
    values: tf.Tensor,
    q: tf.Tensor,
    rho: tf.Tensor,
    dimensions: int,
    bootstrap: tf.Tensor,
    exponent: float = 1.0,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns Q_ret and Q_opc of each step (eqs 40, 41), [T, ...] each, without gradients.

        Q_ret_t = r_t + g (V_{t+1} + c_{t+1} (Q_ret_{t+1} - Q_{t+1})),  c = min(1, rho)^(1 / dA),
        Q_opc_t = r_t + g (V_{t+1} + Q_opc_{t+1} - Q_{t+1}),

    After the last step, `bootstrap` alone follows. The critic learns from Q_ret: Retrace with roots
    of the importance weights. The policy learns from Q_opc: returns without traces.

    Args:
      rewards: [T, ...] floating, scaled.
      discount: g.
      values: [T, ...], V of the states.
      q: [T, ...], Q of the actions.
      rho: [T, ...], importance weights.
      dimensions: dA, the number of an action's dimensions.
      bootstrap: [...], V of the state after the last step, 0 at a true end.
      exponent: p of the trace's exponent dA^-p: 1, or 1/2 in the authors' program.
    """
    values, q, rho, bootstrap = map(tf.stop_gradient, (values, q, rho, bootstrap))
    trace = tf.minimum(1.0, rho) ** (dimensions**-exponent)

    def before(after: tuple, step: tuple) -> tuple:
        following, correction = after[2:]
        reward, value, q, trace = step
        q_ret = reward + discount * following
        q_opc = reward + discount * correction
        return q_ret, q_opc, value + trace * (q_ret - q), value + (q_opc - q)

    zeros = tf.zeros_like(bootstrap)
    q_ret, q_opc, _, _ = tf.scan(
        before, (rewards, values, q, trace), (zeros, zeros, bootstrap, bootstrap), reverse=True
    )
    return q_ret, q_opc


def trust_region(gradient: tf.Tensor, k: tf.Tensor, delta: float) -> tf.Tensor:
    """Returns z = g - max(0, (k . g - delta) / |k|^2) k, with k . z <= delta (eq 43).

    Where k = 0, z is g.

    Args:
      gradient: [..., n] floating, g, a direction of ascent.
      k: [..., n], the gradient of the divergence, which may grow by at most `delta`.
      delta: bound on k . z, above 0.

    Returns:
      [..., n].
    """
    excess = tf.reduce_sum(k * gradient, axis=-1, keepdims=True) - delta
    square = tf.reduce_sum(tf.square(k), axis=-1, keepdims=True)
    return gradient - tf.math.divide_no_nan(tf.maximum(excess, 0.0), square) * k


def score(action: tf.Tensor, mean: tf.Tensor, deviation: tf.Tensor) -> tf.Tensor:
    """Returns the gradient of log pi(a) with respect to the mean and the standard deviations.

    Args:
      action: [..., A] floating.
      mean: [..., A], mean of pi.
      deviation: [..., A], standard deviations of pi, above 0.

    Returns:
      [..., 2 A].
    """
    z = (action - mean) / deviation
    return tf.concat([z, tf.square(z) - 1.0], axis=-1) / tf.concat([deviation] * 2, axis=-1)


def divergence_gradient(
    mean: tf.Tensor, deviation: tf.Tensor, average_mean: tf.Tensor, average_deviation: tf.Tensor
) -> tf.Tensor:
    """Returns k, the gradient of D_KL(pi_avg || pi) by pi's mean and standard deviations.

    Args:
      mean: [..., A] floating, mean of pi.
      deviation: [..., A], standard deviations of pi, above 0.
      average_mean: [..., A], mean of the average policy.
      average_deviation: [..., A], standard deviations of the average policy, above 0.

    Returns:
      [..., 2 A].
    """
    z = (mean - average_mean) / deviation
    ratio = average_deviation / deviation
    of_deviation = 1.0 - tf.square(ratio) - tf.square(z)
    return tf.concat([z, of_deviation], axis=-1) / tf.concat([deviation] * 2, axis=-1)


def ascent(
    rho: tf.Tensor,
    advantage_opc: tf.Tensor,
    score_of_action: tf.Tensor,
    rho_of_sample: tf.Tensor,
    advantage_of_sample: tf.Tensor,
    score_of_sample: tf.Tensor,
    truncation: float,
) -> tf.Tensor:
    """Returns the truncated policy gradient with its correction (eq 42).

        g = min(c, rho) (Q_opc - V) score(a) + max(0, 1 - c / rho') (Q(a') - V) score(a')

    where a' is drawn from the policy, so that the second term corrects for the truncation.

    Args:
      rho: [...] floating, importance weights of the stored actions.
      advantage_opc: [...], Q_opc - V.
      score_of_action: [..., n], see `score`.
      rho_of_sample: [...], pi(a') / mu(a'), above 0.
      advantage_of_sample: [...], Q(a') - V.
      score_of_sample: [..., n].
      truncation: c.

    Returns:
      [..., n].
    """
    weight = tf.minimum(truncation, rho) * advantage_opc
    correction = tf.maximum(0.0, 1.0 - truncation / rho_of_sample) * advantage_of_sample
    return weight[..., tf.newaxis] * score_of_action + correction[..., tf.newaxis] * score_of_sample


def critic_losses(value: tf.Tensor, q: tf.Tensor, q_ret: tf.Tensor, rho: tf.Tensor) -> tf.Tensor:
    """Returns 1/2 (Q - Q_ret)^2 + 1/2 (V - V_target)^2 (eq 44).

    V_target = V + min(1, rho) (Q_ret - Q) is a constant. As Q contains V, the gradient with respect
    to V is -(1 + min(1, rho)) (Q_ret - Q). Gradients flow into `value` and `q` only.

    Args:
      value: [...] floating, V.
      q: [...], Q of the stored actions.
      q_ret: [...], targets of Q.
      rho: [...], importance weights.

    Returns:
      [...].
    """
    error = tf.stop_gradient(q_ret) - q
    target = tf.stop_gradient(value + tf.minimum(1.0, rho) * error)
    return 0.5 * (tf.square(error) + tf.square(value - target))


def truncated_normal(shape: tf.Tensor, bound: float, seed: tf.Tensor) -> tf.Tensor:
    """Returns standard normal numbers within +-bound, float32 of `shape`, that `seed` determines.

    Args:
      shape: shape of the result.
      bound: above 0, in standard deviations.
      seed: [2] integer.
    """
    low = 0.5 * tf.math.erfc(bound / 2**0.5)
    uniform = tf.random.stateless_uniform(shape, seed, low, 1.0 - low)
    return tf.math.ndtri(uniform)


def _flat(columns: tf.Tensor) -> tf.Tensor:
    """Merges the first two dimensions."""
    shape = tf.concat([[-1], tf.shape(columns)[2:]], 0)
    return tf.reshape(columns, shape)


def _weights(steps: WindowBatch) -> tf.Tensor:
    """Returns 1 / (number of steps) for steps of windows, 0 for rows in front: [B L] float32."""
    longest = tf.shape(steps.rewards, tf.int64)[1]
    is_step = tf.range(longest) >= longest - steps.lengths[:, tf.newaxis]
    return _flat(tf.cast(is_step, tf.float32)) / tf.cast(tf.reduce_sum(steps.lengths), tf.float32)


class AcerLearner(TwoRatesLearner):
    """ACER for continuous actions (section 5.3, appendix A; Wang et al. 2017, algorithm 3).

    Attributes:
      policy: the policy that acts.
      average_policy: slow copy of `policy`, the centre of the trust region.
      critic: V and the advantage.
    """

    def __init__(self, config: ReferConfig, observation_size: int, action_size: int):
        super().__init__(config, observation_size)
        sizes = observation_size, action_size
        self._action_size = action_size
        self.policy = networks.AcerPolicy(config, *sizes)
        self.average_policy = networks.AcerPolicy(config, *sizes)
        self.critic = networks.DuelingCritic(config, *sizes)
        self.make_optimizers()
        # Checkpoints contain the seed, so that a resumed run continues with its noise.
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
        """Variables of the policy, and of the average policy."""
        return self.policy.parameters, self.average_policy.parameters

    def noise(self, num_states: tf.Tensor) -> tf.Tensor:
        """Returns the noise of the actions that the next update draws, [1 + n, num_states, A].

        The first row is the noise of a', the others that of the u_j.
        """
        config = self._config
        shape = [1 + config.advantage_samples, num_states, self._action_size]
        seed = tf.stack([self._seed, self.steps])
        return truncated_normal(shape, config.noise_bound, seed)

    def gradients(self, batch: Batch) -> Gradients:
        """Returns the gradients of a step on windows of B episodes; see base class."""
        config, steps = self._config, batch.steps
        states, stored = self.standardizer(steps.states.observation), steps.states.extras
        columns = states, steps.states.action, stored["mean"], stored["variance"]
        observation, action, *behaviour = (_flat(column[:, :-1]) for column in columns)
        with tf.GradientTape() as policy_tape:
            before = self._states_before(self.policy.mlp, steps, states[:, :-1])
            mean, deviation = self.policy(observation, before)
            outputs = tf.concat([mean, deviation], axis=-1)
        policy = mean, tf.square(deviation)
        drawn = mean + deviation * self.noise(tf.shape(mean)[0])
        with tf.GradientTape() as critic_tape:
            before = self._states_before(self.critic.value, steps, states)
            values = networks.outputs_at(self.critic.value, _flat(states), before)
            values = tf.reshape(values, tf.shape(states)[:2])
            value = _flat(values[:, :-1])
            pairs = tf.concat([states, steps.states.action], axis=-1)[:, :-1]
            before = self._states_before(self.critic.advantage.mlp, steps, pairs)
            actions = tf.concat([action[tf.newaxis], drawn[1:]], axis=0)
            advantages = self.critic.advantages(observation, actions, before)
            mean_advantage = tf.reduce_mean(advantages[1:], axis=0)
            q = value + advantages[0] - mean_advantage
            rho = gaussian.importance_weight(action, *policy, *behaviour, self._log_bound)
            q_ret, q_opc = self._targets(steps, values, q, rho)
            weights = _weights(steps)
            losses = critic_losses(value, q, q_ret, rho)
            critic_loss = tf.reduce_sum(weights * losses)
        gradient = ascent(
            rho,
            q_opc - value,
            score(action, mean, deviation),
            gaussian.importance_weight(drawn[0], *policy, *behaviour, self._log_bound),
            self.critic.advantages(observation, drawn[:1], before)[0] - mean_advantage,
            score(drawn[0], mean, deviation),
            config.truncation,
        )
        before = self._states_before(self.average_policy.mlp, steps, states[:, :-1])
        k = divergence_gradient(mean, deviation, *self.average_policy(observation, before))
        direction = trust_region(gradient, k, config.trust_region)
        gradients = TwoRatesGradients(
            policy_tape.gradient(
                outputs, self.policy_variables, -weights[:, tf.newaxis] * direction
            ),
            critic_tape.gradient(critic_loss, self.critic_variables),
        )
        divergence = rules.divergence(behaviour, policy, config.divergence)
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

    def _states_before(
        self, layers: SoftsignMLP | LSTMNetwork, steps: WindowBatch, inputs: tf.Tensor
    ) -> Sequence[LSTMState]:
        """Returns the states of layers before each input [B, L, F] of windows; () for an MLP."""
        if not self._config.recurrent:
            return ()
        begins = tf.shape(steps.rewards, tf.int64)[1] - steps.lengths
        return layers.states_before(Window(inputs, begins), self._config.history + 1)

    def _targets(
        self, steps: WindowBatch, values: tf.Tensor, q: tf.Tensor, rho: tf.Tensor
    ) -> list[tf.Tensor]:
        """Returns Q_ret and Q_opc, [B L] each, from values [B, L + 1], q and rho [B L]."""
        shape = tf.shape(steps.rewards)
        found = targets(
            tf.transpose(steps.rewards),
            self._config.discount,
            tf.transpose(values[:, :-1]),
            tf.transpose(tf.reshape(q, shape)),
            tf.transpose(tf.reshape(rho, shape)),
            self._action_size,
            tf.where(steps.bootstraps, values[:, -1], 0.0),
            self._config.trace_exponent,
        )
        return [_flat(tf.transpose(target)) for target in found]
