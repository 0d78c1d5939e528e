"""Reactor's network (sections 3.4.1 and 6.4, table 3, figure 7)."""

from typing import NamedTuple

import sonnet as snt
import tensorflow as tf

from common.environments.spec import EnvironmentSpec
from common.networks.control import ReluMLP
from common.networks.images import ImageTorso, Sizes, VectorTorso, make_torso
from common.networks.recurrent import LSTM, LSTMState
from common.values import categorical
from reproductions.reactor.config import LSTM_SIZE, ReactorConfig

_HEAD = 32

SIZES = {
    "atari": Sizes(((16, 8, 4), (32, 4, 2), (32, 3, 1)), 128),
    "minatar": Sizes(((8, 3, 1),), 64),
}
"""Network sizes: table 3's, and half of Young and Tian's (2019) filters and units for MinAtar.

The concatenated ReLU doubles all of them.
"""


class ReactorState(NamedTuple):
    """The states of both LSTMs between two frames.

    Attributes:
      policy: state of the policy's LSTM.
      value: state of the action values' LSTM.
    """

    policy: LSTMState
    value: LSTMState


class ReactorOutputs(NamedTuple):
    """The policy and the action values of T frames.

    Attributes:
      policy: [T, B, A] float32, pi(a|x) with its floor.
      logits: [T, B, A, K] float32, l_i(x, a), whose softmax over i is q_i(x, a). None if the values
        are not distributions.
      q: [T, B, A] float32, Q(x, a), which is the mean of q_i(x, a) if there are distributions.
    """

    policy: tf.Tensor
    logits: tf.Tensor | None
    q: tf.Tensor


class ReactorTorso(snt.Module):
    """Convolutions and a linear layer: uint8 [N, H, W, C] -> float32 [N, 256] (table 3).

    Attributes:
      convolutions: the layers below the linear layer; ReLU layers if observations are flat.
    """

    def __init__(self, convolutions: ImageTorso | VectorTorso | ReluMLP, hidden: int):
        super().__init__()
        self.convolutions = convolutions
        self.linear = _linear(convolutions.output_size, hidden)
        self.output_size = 2 * hidden

    def __call__(self, observations: tf.Tensor) -> tf.Tensor:
        """Returns features [N, output_size] of observations [N, ...]."""
        return tf.nn.crelu(self.linear(self.convolutions(observations)))


class HiddenHead(snt.Module):
    """Hidden layer with a concatenated ReLU, and a linear layer: [N, F] -> [N, outputs]."""

    def __init__(self, input_size: int, output_size: int):
        super().__init__()
        self.hidden = _linear(input_size, _HEAD)
        self.output = _linear(2 * _HEAD, output_size)

    def __call__(self, features: tf.Tensor) -> tf.Tensor:
        """Returns [N, output_size] of features [N, F]."""
        return self.output(tf.nn.crelu(self.hidden(features)))


class ReactorNetwork(snt.Module):
    """A torso below two LSTMs: one for the policy, one for dueling (distributional) action values.

    No gradient flows from the policy into the torso (section 3.4.1).

    Attributes:
      torso: the layers that both LSTMs share.
      support: [K] float32, the atoms z_i of the distributions of values; None for scalar values.
    """

    def __init__(
        self, torso: ReactorTorso, num_actions: int, policy_floor: float, support: tf.Tensor | None
    ):
        """Builds the network and its variables.

        Args:
          torso: the layers that both LSTMs share.
          num_actions: A.
          policy_floor: epsilon, the share of the uniform policy in pi.
          support: [K] atoms of the distributions of values; None for scalar values.
        """
        super().__init__()
        self._num_actions = num_actions
        self._floor = policy_floor
        self.support = support
        self._num_atoms = 1 if support is None else int(support.shape[0])
        self.torso = torso
        self.policy_lstm = LSTM(self.torso.output_size, LSTM_SIZE)
        self.policy_head = HiddenHead(LSTM_SIZE, num_actions)
        self.value_lstm = LSTM(self.torso.output_size, LSTM_SIZE)
        self.value_head = HiddenHead(LSTM_SIZE, self._num_atoms)
        self.advantage_head = HiddenHead(LSTM_SIZE, num_actions * self._num_atoms)

    def initial_state(self, batch_size: int | tf.Tensor) -> ReactorState:
        """Returns the states at the start of an episode: zeros [B, 128]."""
        zeros = self.policy_lstm.initial_state(batch_size)
        return ReactorState(zeros, zeros)

    def unroll(
        self, observations: tf.Tensor, is_first: tf.Tensor, state: ReactorState
    ) -> tuple[ReactorOutputs, ReactorState]:
        """Returns the outputs of T frames and the state after them.

        Args:
          observations: [T, B, ...]; T must be known when the graph is built.
          is_first: bool [T, B], true at the first frames of episodes; LSTMs are reset before them.
          state: the state before the first of the T frames.
        """
        leading = [observations.shape[0], -1]
        features = self.torso(tf.reshape(observations, [-1, *observations.shape[2:]]))
        features = tf.reshape(features, [*leading, self.torso.output_size])
        blocked = tf.stop_gradient(features)
        policy_hidden, policy_state = self.policy_lstm.unroll(blocked, is_first, state.policy)
        value_hidden, value_state = self.value_lstm.unroll(features, is_first, state.value)

        policy = self._policy(tf.reshape(policy_hidden, [-1, LSTM_SIZE]))
        values = self._values(tf.reshape(value_hidden, [-1, LSTM_SIZE]))
        values = tf.reshape(values, [*leading, self._num_actions, self._num_atoms])
        if self.support is None:
            logits, q = None, tf.squeeze(values, axis=-1)
        else:
            logits, q = values, categorical.mean(values, self.support)
        policy = tf.reshape(policy, [*leading, self._num_actions])
        return ReactorOutputs(policy, logits, q), ReactorState(policy_state, value_state)

    def _policy(self, hidden: tf.Tensor) -> tf.Tensor:
        """Returns pi = (1 - epsilon) softmax(logits) + epsilon / A (section 6.4), [N, A]."""
        softmax = tf.nn.softmax(self.policy_head(hidden))
        return (1 - self._floor) * softmax + self._floor / self._num_actions

    def _values(self, hidden: tf.Tensor) -> tf.Tensor:
        """Returns l_i(x, a) = l_i(x) + l_i(x, a) - mean_b l_i(x, b) (section 3.4.1), [N, A, K]."""
        value = self.value_head(hidden)[:, tf.newaxis]
        advantage = tf.reshape(
            self.advantage_head(hidden), [-1, self._num_actions, self._num_atoms]
        )
        return value + advantage - tf.reduce_mean(advantage, axis=1, keepdims=True)


def make_network(config: ReactorConfig, spec: EnvironmentSpec) -> ReactorNetwork:
    """Builds the network and its variables."""
    support = None
    if config.distributional:
        support = categorical.support(config.v_min, config.v_max, config.num_atoms)
    torso = ReactorTorso(*make_torso(config, spec, SIZES, activation=tf.nn.crelu))
    return ReactorNetwork(torso, spec.action_size, config.policy_floor, support)


def state_specs() -> ReactorState:
    """Returns the specs of the states of one environment, [128] each."""
    state = LSTMState(tf.TensorSpec([LSTM_SIZE]), tf.TensorSpec([LSTM_SIZE]))
    return ReactorState(state, state)


def _linear(input_size: int, output_size: int) -> snt.Linear:
    """Returns a linear layer with its variables."""
    layer = snt.Linear(output_size)
    layer(tf.zeros([1, input_size]))
    return layer
