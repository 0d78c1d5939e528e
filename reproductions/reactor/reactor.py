"""Reactor (Gruslys et al. 2018), from observation to loss; equations numbered as in the paper.

The module has the Retrace targets and the losses (sections 3.1 to 3.3), the learner (section 3.4),
and the policy of workers and evaluator (sections 3.4 and 6.4). The network is in `networks`.

T is the number of transitions of a sequence, which has T + 1 frames x_1, ..., x_{T+1}. Names that
end in `_tm1` refer to the frames x_1 to x_T, on which the network is trained. Names that end in
`_t` refer to x_2 to x_{T+1}, which the target network evaluates: their index 0 is x_2.
"""

from collections.abc import Sequence
import functools
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tree

from common.acting.policy import Policy
from common.agents.agent import Agent, GraphPolicy
from common.data.sequences import Sequences, StoredTimestep
from common.environments.batch import FIRST, LAST
from common.environments.spec import EnvironmentSpec
from common.learning.learner import (
    Adam,
    Gradients,
    Learner,
    copy_in_branch,
    copy_variables,
    create_variables,
)
from common.networks import packing
from common.networks.recurrent import LSTMState
from common.replay import memory, png
from common.types import Batch, Nest
from common.values import categorical, multistep, policy_gradients, value_learning
from reproductions.reactor.config import AGENT, ReactorConfig
from reproductions.reactor.networks import (
    ReactorNetwork,
    ReactorOutputs,
    ReactorState,
    make_network,
    state_specs,
)


class RetraceTargets(NamedTuple):
    """Targets of the action values at the frames x_1 to x_T.

    Attributes:
      values: [T, B, K], the distributions q*(x_t, a_t); [T, B] without distributions.
      returns: [T, B], R(x_t, a_t), the means of the values.
      traces: [T, B], the coefficients c_t.
    """

    values: tf.Tensor
    returns: tf.Tensor
    traces: tf.Tensor


def retrace_targets(
    target: ReactorOutputs, steps_t: StoredTimestep, support: tf.Tensor | None, lambda_: float
) -> RetraceTargets:
    """Returns the targets of Retrace for the target network's policy (sections 2.1.2 and 3.2).

    A true end of an episode has a discount of 0. At a time limit (LAST with a discount above 0) the
    return bootstraps from the values of all actions: c is 0 there, since the action at LAST was
    never taken.

    Args:
      target: outputs of the target network at the frames x_2 to x_{T+1}.
      steps_t: the same frames, [T, B, ...].
      support: [K], the atoms; None without distributions.
      lambda_: see `multistep.retrace_coefficients`.
    """
    a_t, mu_t = steps_t.action, steps_t.extras["mu"]
    c_t = multistep.retrace_coefficients(target.policy, a_t, mu_t, lambda_)  # eq 4
    c_t *= _mask(steps_t)
    if support is None:
        values = multistep.scalar_retrace_targets(
            target.q, target.policy, a_t, c_t, steps_t.reward, steps_t.discount
        )
        return RetraceTargets(values, values, c_t)
    values = multistep.categorical_retrace_targets(
        tf.nn.softmax(target.logits),
        target.policy,
        a_t,
        c_t,
        steps_t.reward,
        steps_t.discount,
        support,
    )
    # No matvec: in TensorFlow 2.21 its kernel corrupts memory when it broadcasts a matrix.
    return RetraceTargets(values, tf.reduce_sum(values * support, axis=-1), c_t)


def value_losses(
    online: ReactorOutputs, actions: tf.Tensor, target_values: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the losses of action values and the magnitudes of their gradients, both [T, B].

    With distributions the loss is -sum_i q*_i log q_i (section 3.2), whose gradient with respect to
    the logits has a magnitude of sum_i |q*_i - q_i|. Without distributions the loss is
    (R - Q)^2 / 2, its gradient's magnitude |R - Q|. The mean of these magnitudes is a sequence's
    priority (section 3.3).

    Args:
      online: outputs of the network at the frames x_1 to x_T.
      actions: [T, B] integer, the actions taken at these frames.
      target_values: the `values` of `RetraceTargets`.
    """
    if online.logits is None:
        errors = target_values - tf.gather(online.q, actions, axis=2, batch_dims=2)
        return 0.5 * tf.square(errors), tf.abs(errors)
    logits = tf.gather(online.logits, actions, axis=2, batch_dims=2)  # [T, B, K]
    losses = -tf.reduce_sum(target_values * tf.nn.log_softmax(logits), axis=-1)
    return losses, categorical.total_variation(target_values, tf.nn.softmax(logits))


def policy_losses(
    online: ReactorOutputs, steps_tm1: StoredTimestep, returns: tf.Tensor, config: ReactorConfig
) -> tf.Tensor:
    """Returns losses [T, B] whose gradients are minus the policy gradients of section 3.1.

    Gradients flow into the policy only. The losses themselves do not measure progress.

    Args:
      online: outputs of the network at the frames x_1 to x_T.
      steps_tm1: the same frames, [T, B, ...].
      returns: [T, B], R.
      config: its `policy_gradient` names the estimator.
    """
    actions, mu = steps_tm1.action, steps_tm1.extras["mu"]
    if config.policy_gradient in ("tislr", "islr"):
        c = config.c if config.policy_gradient == "tislr" else float("inf")
        return policy_gradients.truncated_islr_loss(
            online.policy, mu, online.q, actions, returns, c
        )
    c = config.c if config.policy_gradient == "beta_loo" else float("inf")
    mu_a = tf.gather(mu, actions, axis=2, batch_dims=2)
    beta = policy_gradients.leave_one_out_beta(mu_a, c)
    return policy_gradients.leave_one_out_loss(online.policy, online.q, actions, returns, beta)


def entropies(policy: tf.Tensor) -> tf.Tensor:
    """Returns H(pi) = -sum_a pi(a) log pi(a), in nats: [T, B, A] -> [T, B]."""
    return -tf.reduce_sum(policy * tf.math.log(policy), axis=-1)


class ReactorLearner(Learner):
    """Learner with the network, the target network, Adam, and the update of section 3.4.

    Attributes:
      network: trained on the frames x_1 to x_T.
      target_network: evaluates the frames x_2 to x_{T+1}.
    """

    def __init__(self, config: ReactorConfig, spec: EnvironmentSpec):
        super().__init__()
        self._config = config
        self.network = make_network(config, spec)
        self.target_network = make_network(config, spec)
        # Its momentum is 0 (section 3.4.1).
        self.optimizer = Adam(
            config.learning_rate, config.adam_beta1, config.adam_beta2, config.adam_epsilon
        )
        copy_variables(self.actor_variables, self.target_variables)
        create_variables(self.optimizer, self.actor_variables)

    @property
    def actor_variables(self) -> tuple:
        """Variables of the network, which actors and evaluator copy."""
        return self.network.trainable_variables

    @property
    def target_variables(self) -> tuple:
        """Variables of the target network, in the order of `actor_variables`."""
        return self.target_network.trainable_variables

    def gradients(self, batch: Batch) -> Gradients:
        """Returns the gradients of a step on B sequences with images uint8 [B, T + 1, H, W, C].

        A sequence's loss is the mean over its T frames. A LAST frame counts with a loss and an
        error of 0, since its action was never taken. The outputs are the new priorities [B]: the
        mean errors, without importance weights.
        """
        config = self._config
        steps = tf.nest.map_structure(_swap_leading, batch.steps)
        steps_tm1: StoredTimestep = tf.nest.map_structure(lambda column: column[:-1], steps)
        steps_t: StoredTimestep = tf.nest.map_structure(lambda column: column[1:], steps)
        weights = value_learning.importance_weights(
            batch.probabilities, batch.size, config.importance_exponent
        )
        target = self._unroll(self.target_network, steps_t)
        retraced = retrace_targets(target, steps_t, self.network.support, config.trace_lambda)
        with tf.GradientTape() as tape:
            online = self._unroll(self.network, steps_tm1)
            q_losses, errors = value_losses(online, steps_tm1.action, retraced.values)
            pi_losses = policy_losses(online, steps_tm1, retraced.returns, config)
            entropy = entropies(online.policy)
            # The losses need no relative weights: values and policy train no common variables.
            losses = q_losses + pi_losses - config.entropy_cost * entropy
            mask = _mask(steps_tm1)
            loss = tf.reduce_mean(weights * tf.reduce_mean(mask * losses, axis=0))
        gradients = tape.gradient(loss, self.actor_variables)
        priorities = tf.reduce_mean(mask * errors, axis=0)
        values = tf.reduce_sum(online.policy * online.q, axis=-1)
        metrics = {
            "loss": tf.reduce_mean(weights * tf.reduce_mean(mask * q_losses, axis=0)),
            "entropy": tf.reduce_mean(entropy),
            "mean_q": tf.reduce_mean(values),
            "mean_trace": tf.reduce_mean(retraced.traces),
            "priority_mean": tf.reduce_mean(priorities),
            "priority_max": tf.reduce_max(priorities),
            "importance_weight_mean": tf.reduce_mean(weights),
            "gradient_norm": tf.linalg.global_norm(gradients),
        }
        return Gradients(gradients, priorities, metrics)

    def apply(self, gradients: Sequence[tf.Tensor]) -> None:
        """Takes an Adam step and copies the target network every T_update; see base class."""
        self.optimizer.apply(gradients, self.actor_variables)
        self.steps.assign_add(1)
        copy_in_branch(
            self.steps, self._config.target_period, self.actor_variables, self.target_variables
        )

    def _unroll(self, network: ReactorNetwork, steps: StoredTimestep) -> ReactorOutputs:
        """Returns a network's outputs at T frames, from the states before the first of them."""
        is_first = tf.equal(steps.step_type, FIRST)
        if self._config.stored_state:
            state = tf.nest.map_structure(lambda column: column[0], steps.extras["state"])
        else:
            state = network.initial_state(tf.shape(is_first)[1])
        outputs, _ = network.unroll(steps.observation, is_first, ReactorState(*state))
        return outputs


def _swap_leading(column: tf.Tensor) -> tf.Tensor:
    """Swaps [B, T, ...] to [T, B, ...], without `tf.transpose`, which logs errors about uint8."""
    return tf.stack(tf.unstack(column, axis=1))


def _mask(steps: StoredTimestep) -> tf.Tensor:
    """Returns 0 at LAST frames, whose action was never taken, and 1 elsewhere: [T, B] float32."""
    return tf.cast(tf.not_equal(steps.step_type, LAST), tf.float32)


class ReactorPolicy(Policy):
    """Policy that draws actions from pi, with its floor, and returns pi as mu.

    Its recurrent state is the state of the policy's LSTM, since acting needs no values. With stored
    states it is the state of both LSTMs, which is also an extra of each timestep.
    """

    def __init__(self, config: ReactorConfig, spec: EnvironmentSpec, seed: int):
        """Creates the policy with random parameters.

        Args:
          config: hyperparameters.
          spec: the environment's spec.
          seed: seed of the actions.
        """
        self._network = make_network(config, spec)
        self._stored_state = config.stored_state
        act = functools.partial(step, self._network, config.stored_state)
        self._step = tf.function(act, autograph=False)
        self._random = np.random.default_rng(seed)
        self._load = packing.loader(self._network.trainable_variables)

    def load(self, flat: np.ndarray) -> None:
        """Loads the network, [P] float32 in the order of its trainable_variables."""
        self._load(flat)

    def initial_state(self, num_environments: int) -> ReactorState | LSTMState:
        """Returns zeros, [K, 128] each."""
        state = self._network.initial_state(num_environments)
        state = tree.map_structure(lambda leaf: leaf.numpy(), state)
        return state if self._stored_state else state.policy

    def __call__(self, observation: np.ndarray, state: Nest):
        """Acts on observations [K, ...].

        Returns:
          action: int32 [K].
          state: the state after the observations.
          extras: "mu", pi(.|x) float32 [K, A] from which the actions were drawn. With stored states
            also "state", the `ReactorState` before the observations.
        """
        policy, new_state = self._step(observation, state)
        mu = policy.numpy()
        new_state = tree.map_structure(lambda leaf: leaf.numpy(), new_state)
        extras = {"mu": mu}
        if self._stored_state:
            extras["state"] = state
        return self._draw(mu), new_state, extras

    def _draw(self, mu: np.ndarray) -> np.ndarray:
        """Returns an action int32 [K] for each row of probabilities [K, A]."""
        ends = mu.cumsum(axis=1, dtype=np.float64)
        points = self._random.random((len(mu), 1)) * ends[:, -1:]  # the sum may be off by rounding
        return (ends > points).argmax(axis=1).astype(np.int32)


def step(
    network: ReactorNetwork, stored_state: bool, observation: tf.Tensor, state: Nest
) -> tuple[tf.Tensor, Nest]:
    """Returns pi [K, A] at observations [K, ...], and the state after them.

    With stored states it is the state of both LSTMs, otherwise the state of the policy's LSTM. The
    graph then drops the values.
    """
    both = state if stored_state else ReactorState(state, state)
    no_reset = tf.zeros([1, tf.shape(observation)[0]], tf.bool)  # the caller resets the state
    outputs, both = network.unroll(observation[tf.newaxis], no_reset, both)
    return outputs.policy[0], both if stored_state else both.policy


class Reactor(Agent):
    """Reactor, and its ablations by configuration."""

    declaration = AGENT
    jit_compile = False  # XLA slows convolutions on a CPU

    def __init__(self, config: ReactorConfig, setting: str = AGENT.settings.default):
        super().__init__(config, setting)
        self.target_period = config.target_period
        self.decodes = config.png_frames
        mix = config.uniform_mix
        sample: memory.Distribution = {
            "contextual": memory.ContextualPriorityTree(1.0, mix),
            "max": memory.Proportional(1.0, mix),
            "uniform": memory.Uniform(),
        }[config.prioritization]
        # Section 3.3.
        self.data = Sequences(config, sample, memory.Fifo(), reward_clip=config.reward_clip or None)

    def encode(self, observation: np.ndarray) -> np.ndarray:
        """Returns observations [K, ...] as they are, or as PNG files, an object array [K]."""
        return png.encode(observation) if self.decodes else observation

    def decode(self, steps: StoredTimestep, spec: EnvironmentSpec) -> StoredTimestep:
        """Decodes PNG files [B, T] to uint8 [B, T, H, W, C]."""
        images = png.decode(steps.observation, spec.image_shape, "observation")
        return steps._replace(observation=images)

    def step_specs(self, spec: EnvironmentSpec) -> StoredTimestep:
        """Returns the columns of a timestep, with mu of all actions (footnote 1)."""
        extras: dict[str, Any] = {"mu": tf.TensorSpec([spec.action_size])}
        if self.config.stored_state:
            extras["state"] = state_specs()
        observation = tf.TensorSpec(spec.observation_shape, spec.observation_dtype)
        return StoredTimestep(
            observation=png.column(spec.image_shape) if self.decodes else observation,
            action=tf.TensorSpec([], tf.int32),
            reward=tf.TensorSpec([]),
            discount=tf.TensorSpec([]),
            step_type=tf.TensorSpec([], tf.uint8),
            extras=extras,
        )

    def build_learner(self, spec: EnvironmentSpec, seed: int) -> ReactorLearner:
        """Builds the learner of section 3.4."""
        del seed
        return ReactorLearner(self.config, spec)

    def make_actor(
        self, spec: EnvironmentSpec, actors: range, num_actors: int, seed: int
    ) -> ReactorPolicy:
        """Builds the policy of a worker; all workers act alike."""
        del actors, num_actors
        return ReactorPolicy(self.config, spec, seed)

    def make_evaluator(self, spec: EnvironmentSpec, num_environments: int) -> ReactorPolicy:
        """Builds the same policy; its draws have the same seed in every evaluator."""
        del num_environments
        return ReactorPolicy(self.config, spec, seed=0)

    def graph_policy(self, learner: ReactorLearner, spec: EnvironmentSpec) -> GraphPolicy:
        """Returns the policy, whose draws differ from call to call."""
        del spec

        def act(observation: tf.Tensor, state: Nest) -> tuple[tf.Tensor, Nest]:
            policy, state = step(learner.network, self.config.stored_state, observation, state)
            return tf.random.categorical(tf.math.log(policy), 1, tf.int32)[:, 0], state

        return act
