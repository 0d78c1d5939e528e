"""Recurrent layers on sequences that may contain the beginnings of episodes."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import sonnet as snt
import tensorflow as tf

from common.networks.control import Layer, output_layer


class LSTMState(NamedTuple):
    """The state of an LSTM of width H between two steps.

    Attributes:
      hidden: [B, H] float32, the output of the previous step.
      cell: [B, H] float32.
    """

    hidden: tf.Tensor
    cell: tf.Tensor


class LSTM(snt.Module):
    """LSTM whose state is reset within a sequence: [T, B, F] -> [T, B, H].

    The equations, the order of the gates and the initial values are those of `snt.LSTM`, so the
    forget gates start with a bias of 1. The inputs of all steps are multiplied at once, and only
    the rest is unrolled. TensorFlow's fused kernel `BlockLSTMV2` is not faster, and has no resets.
    """

    def __init__(self, input_size: int, hidden_size: int):
        """Creates the variables.

        Args:
          input_size: F.
          hidden_size: H.
        """
        super().__init__()
        self._hidden_size = hidden_size
        forget = tf.concat([tf.zeros(hidden_size), tf.ones(hidden_size)], axis=0)
        bias = tf.concat([forget, tf.zeros(2 * hidden_size)], axis=0)  # input, forget, cell, output
        self.w_i = _weights(input_size, 4 * hidden_size, "w_i")
        self.w_h = _weights(hidden_size, 4 * hidden_size, "w_h")
        self.b = tf.Variable(bias, name="b")

    def initial_state(self, batch_size: int | tf.Tensor) -> LSTMState:
        """Returns the state at the beginning of an episode: zeros [B, H]."""
        zeros = tf.zeros([batch_size, self._hidden_size])
        return LSTMState(zeros, zeros)

    def unroll(
        self, inputs: tf.Tensor, is_first: tf.Tensor, state: LSTMState
    ) -> tuple[tf.Tensor, LSTMState]:
        """Returns the outputs [T, B, H] and the state after the last step; see `steps`."""
        _, states = self.steps(inputs, is_first, state)
        return tf.stack([state.hidden for state in states]), states[-1]

    def steps(
        self, inputs: tf.Tensor, is_first: tf.Tensor, state: LSTMState
    ) -> tuple[list[LSTMState], list[LSTMState]]:
        """Returns the states at the start of each of the T steps, after any reset, and at its end.

        Args:
          inputs: [T, B, F] float32; T must be known when the graph is built.
          is_first: [T, B] bool, True where an episode begins: its state is reset before the step.
          state: state before the first step.
        """
        length, _, size = inputs.shape
        # One product for all steps; each step adds the product with its hidden state.
        gates = tf.matmul(tf.reshape(inputs, [-1, size]), self.w_i) + self.b
        gates = tf.unstack(tf.reshape(gates, [length, -1, 4 * self._hidden_size]))
        keep = tf.unstack(1.0 - tf.cast(is_first, tf.float32)[..., tf.newaxis])  # T of [B, 1]
        w_h = tf.convert_to_tensor(self.w_h)
        before, after = [], []
        for t in range(length):
            hidden, cell = keep[t] * state.hidden, keep[t] * state.cell
            before.append(LSTMState(hidden, cell))
            i, f, g, o = tf.split(gates[t] + tf.matmul(hidden, w_h), 4, axis=-1)
            cell = tf.sigmoid(f) * cell + tf.sigmoid(i) * tf.tanh(g)
            state = LSTMState(tf.sigmoid(o) * tf.tanh(cell), cell)
            after.append(state)
        return before, after


class Window(NamedTuple):
    """B sequences of at most T inputs that end together.

    Attributes:
      inputs: [B, T, F] float32.
      begins: [B] int32, index of the first input of each sequence, at most T. Earlier inputs count
        as absent; at T the sequence is empty.
    """

    inputs: tf.Tensor
    begins: tf.Tensor


class History(NamedTuple):
    """The observations of K episodes before a step: the state of a policy that acts from windows.

    Networks that learn from windows, in which their state begins with zeros, also act from them;
    otherwise rho would not be 1 at a new step. The arrays are NumPy's or TensorFlow's.

    Attributes:
      observations: [K, H, D] float32, the newest last.
      lengths: [K] int32, the number of them that are the episode's, at most H.
    """

    observations: np.ndarray | tf.Tensor
    lengths: np.ndarray | tf.Tensor

    @classmethod
    def empty(cls, num_rows: int, length: int, observation_size: int) -> "History":
        """Returns the histories of K new episodes, in NumPy's arrays."""
        shape = num_rows, length, observation_size
        return cls(np.zeros(shape, np.float32), np.zeros(num_rows, np.int32))

    @property
    def begins(self) -> np.ndarray | tf.Tensor:
        """`Window.begins` of the observations and the next one, [K] int32."""
        return self.observations.shape[1] - self.lengths

    def extended(self, observation: np.ndarray | tf.Tensor) -> "tuple[Any, History]":
        """Returns the observations with the next ones [K, D], [K, H + 1, D]; the next history."""
        library = tf if tf.is_tensor(observation) else np
        inputs = library.concat([self.observations, observation[:, np.newaxis]], axis=1)
        lengths = library.minimum(self.lengths + 1, self.observations.shape[1])
        return inputs, History(inputs[:, 1:], lengths)


class LSTMNetwork(snt.Module):
    """LSTM layers and a dense output layer, which is initialised as in `SoftsignMLP`.

    Attributes:
      lstms: the recurrent layers in the order in which they are applied.
      layers: the output and its activation.
    """

    def __init__(
        self,
        input_size: int,
        hidden_sizes: Sequence[int],
        output_size: int,
        activation: Layer | None = None,
    ):
        """Builds the layers and their variables.

        Args:
          input_size: F, length of an input.
          hidden_sizes: cells of each LSTM layer.
          output_size: length of an output.
          activation: activation of the output; None leaves the output linear.
        """
        super().__init__()
        sizes = [input_size, *hidden_sizes]
        self.lstms = [LSTM(*pair) for pair in zip(sizes, hidden_sizes)]
        self.layers: list[Layer] = [output_layer(sizes[-1], output_size)]
        if activation is not None:
            self.layers.append(activation)
        self(Window(tf.zeros([1, 1, input_size]), tf.zeros([1], tf.int32)))

    def __call__(self, window: Window) -> tf.Tensor:
        """Returns the outputs at the last inputs, [B, output_size] float32; `begins` are below T.

        The state before the first input of each sequence is zero.
        """
        before = self.states(Window(window.inputs[:, :-1], window.begins))
        return self.at(window.inputs[:, -1], before)

    def states(self, window: Window) -> list[LSTMState]:
        """Returns the states of the layers after a window; they are zeros for empty sequences."""
        hidden = tf.transpose(window.inputs, [1, 0, 2])
        length = hidden.shape[0]
        states = [lstm.initial_state(tf.shape(window.begins)[0]) for lstm in self.lstms]
        if not length:
            return states
        is_first = tf.range(length)[:, tf.newaxis] <= window.begins
        is_there = tf.cast(window.begins < length, tf.float32)[:, tf.newaxis]
        for layer, lstm in enumerate(self.lstms):
            hidden, state = lstm.unroll(hidden, is_first, states[layer])
            states[layer] = LSTMState(is_there * state.hidden, is_there * state.cell)
        return states

    def states_before(self, window: Window, length: int) -> list[LSTMState]:
        """Returns the states of the layers before each input of a window, [B T, H] each.

        They are zeros before the first input of a sequence and are carried through all of it.
        Back-propagation is truncated: gradients do not cross the boundaries between parts of
        `length` inputs, counted from the window's end. T may be unknown when the graph is built.
        """
        num_rows, total, _ = tf.unstack(tf.shape(window.inputs))
        padding = -total % length
        places = tf.range(padding + total)[:, tf.newaxis] - padding
        inputs = tf.pad(tf.transpose(window.inputs, [1, 0, 2]), [[padding, 0], [0, 0], [0, 0]])
        columns = inputs, places <= tf.cast(window.begins, tf.int32)
        parts = [tf.reshape(c, [-1, length, num_rows, *c.shape[2:]]) for c in columns]

        def unroll(carried: tuple, part: tuple) -> tuple:
            (hidden, is_first), before, after = part, [], []
            for lstm, state in zip(self.lstms, tf.nest.map_structure(tf.stop_gradient, carried[1])):
                layer_before, layer_after = lstm.steps(hidden, is_first, state)
                before.append(tf.nest.map_structure(lambda *s: tf.stack(s), *layer_before))
                hidden = tf.stack([state.hidden for state in layer_after])
                after.append(layer_after[-1])
            return before, after

        start = [lstm.initial_state(num_rows) for lstm in self.lstms]
        empty = tf.nest.map_structure(lambda s: tf.tile(s[tf.newaxis], [length, 1, 1]), start)
        before, _ = tf.scan(unroll, tuple(parts), (empty, start))

        def flat(states: tf.Tensor) -> tf.Tensor:
            rows = tf.reshape(states, [-1, num_rows, states.shape[-1]])[padding:]
            return tf.reshape(tf.transpose(rows, [1, 0, 2]), [-1, states.shape[-1]])

        return tf.nest.map_structure(flat, before)

    def at(self, inputs: tf.Tensor, before: Sequence[LSTMState]) -> tf.Tensor:
        """Returns the outputs [B, output_size] at inputs [B, F], given the states before them."""
        return self.step(inputs, before)[0]

    def step(
        self, inputs: tf.Tensor, before: Sequence[LSTMState]
    ) -> tuple[tf.Tensor, list[LSTMState]]:
        """Returns the outputs as `at` does, and the states after the inputs."""
        hidden, goes_on = inputs[tf.newaxis], tf.zeros([1, tf.shape(inputs)[0]], tf.bool)
        after = []
        for lstm, state in zip(self.lstms, before, strict=True):
            hidden, state = lstm.unroll(hidden, goes_on, state)
            after.append(state)
        outputs = hidden[0]
        for layer in self.layers:
            outputs = layer(outputs)
        return outputs, after


def _weights(input_size: int, output_size: int, name: str) -> tf.Variable:
    initializer = snt.initializers.TruncatedNormal(stddev=input_size**-0.5)
    return tf.Variable(initializer([input_size, output_size], tf.float32), name=name)
