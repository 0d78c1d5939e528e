"""The layers for images that Q, proposal and policy share: convolutions below an LSTM (figure 1).

They are IMPALA's deep network (appendix A1): the residual torso, a layer, and an LSTM that also
gets the last action, as one-hots, and the last reward, clipped to [-1, 1].
"""

from typing import Any, NamedTuple

import numpy as np
import sonnet as snt
import tensorflow as tf

from common.networks import packing
from common.networks.recurrent import LSTM, LSTMState
from common.networks.residual import ResidualTorso
from reproductions.aql.actions import ActionSpace
from reproductions.aql.config import AQLConfig


class RecurrentState(NamedTuple):
    """State of a recurrent policy between two timesteps; zeros where an episode begins.

    Attributes:
      lstm: state of the LSTM.
      action: float32 [B, S], the last action's encoding.
      reward: float32 [B], of the last action, unclipped.
    """

    lstm: LSTMState
    action: tf.Tensor | np.ndarray
    reward: tf.Tensor | np.ndarray


def state_specs(config: AQLConfig, space: ActionSpace) -> RecurrentState:
    """Returns the specs of the state of one environment."""
    lstm = tf.TensorSpec([config.lstm_size])
    return RecurrentState(
        LSTMState(lstm, lstm), tf.TensorSpec([space.encoded_size]), tf.TensorSpec([])
    )


class RecurrentLayers(snt.Module):
    """Images, last actions and last rewards of sequences -> features.

    Attributes:
      space: of the actions.
      output_size: F, length of the features.
    """

    def __init__(self, config: AQLConfig, image_shape: tuple[int, int, int], space: ActionSpace):
        """Builds the layers and their variables."""
        super().__init__()
        size = config.lstm_size
        self.space = space
        self.output_size = size
        self._torso = ResidualTorso(image_shape, config.channels)
        self._linear = snt.Linear(size)
        self._linear(tf.zeros([1, self._torso.output_size]))
        self._lstm = LSTM(size + space.encoded_size + 1, size)

    def unroll(
        self,
        images: tf.Tensor,
        state: LSTMState,
        action: tf.Tensor,
        reward: tf.Tensor,
        is_first: tf.Tensor,
    ) -> tuple[tf.Tensor, LSTMState]:
        """Returns the features [B, T, F] and the state after the last timestep.

        Args:
          images: uint8 [B, T, H, W, C]; T must be known when the graph is made.
          state: of the LSTM before the first timestep.
          action: [B, T, S], the encoding of the action before each timestep, 0 where an episode
            begins.
          reward: [B, T], of that action.
          is_first: bool [B, T], where the state is zeros before the timestep.
        """
        length = images.shape[1]
        pixels = self._torso(tf.reshape(images, [-1, *images.shape[2:]]))
        pixels = tf.nn.relu(self._linear(pixels))
        pixels = tf.reshape(pixels, [-1, length, self.output_size])
        clipped = tf.clip_by_value(reward, -1.0, 1.0)[..., tf.newaxis]
        inputs = tf.concat([pixels, clipped, action], axis=-1)
        outputs, state = self._lstm.unroll(
            tf.transpose(inputs, [1, 0, 2]), tf.transpose(is_first), state
        )
        return tf.transpose(outputs, [1, 0, 2]), state

    def features(self, unroll: Any) -> tf.Tensor:
        """Returns the features of B unrolls from their stored states, [B * T, F].

        Args:
          unroll: has the columns observation, action_index, reward, is_last and state of [B, T,
            ...], of the state [B, ...].
        """
        goes_on = 1 - tf.cast(unroll.is_last[:, :-1], tf.float32)
        state = unroll.state
        action = goes_on[..., tf.newaxis] * self.space.encode(unroll.action_index[:, :-1])
        reward = goes_on * unroll.reward[:, :-1]
        never = tf.zeros_like(unroll.is_last[:, :1])  # the stored state is that of its timestep
        outputs, _ = self.unroll(
            unroll.observation,
            state.lstm,
            tf.concat([state.action[:, tf.newaxis], action], axis=1),
            tf.concat([state.reward[:, tf.newaxis], reward], axis=1),
            tf.concat([never, unroll.is_last[:, :-1]], axis=1),
        )
        return tf.reshape(outputs, [-1, self.output_size])

    def step(self, images: tf.Tensor, state: RecurrentState) -> tuple[tf.Tensor, LSTMState]:
        """Returns the features [B, F] of images [B, H, W, C], and the LSTM's state after them."""
        features, lstm = self.unroll(
            images[:, tf.newaxis],
            state.lstm,
            state.action[:, tf.newaxis],
            state.reward[:, tf.newaxis],
            tf.zeros([tf.shape(images)[0], 1], tf.bool),  # the caller resets the state
        )
        return features[:, 0], lstm


class RecurrentTwin:
    """An actor's copy of `RecurrentLayers`, which makes one TensorFlow call for its environments.

    Attributes:
      num_parameters: length P of the vector that `load` takes.
    """

    is_recurrent = True

    def __init__(self, layers: RecurrentLayers):
        """Makes the copy; the layers become its own."""
        self._layers = layers
        variables = layers.trainable_variables
        self.num_parameters = sum(variable.shape.num_elements() for variable in variables)
        self.load = packing.loader(variables)
        self._step = tf.function(layers.step, autograph=False)

    def initial_state(self, num_environments: int) -> RecurrentState:
        """Returns zeros of [K, ...]."""
        lstm = np.zeros((num_environments, self._layers.output_size), np.float32)
        action = np.zeros((num_environments, self._layers.space.encoded_size), np.float32)
        return RecurrentState(LSTMState(lstm, lstm), action, np.zeros(num_environments, np.float32))

    def __call__(
        self, images: np.ndarray, state: RecurrentState
    ) -> tuple[np.ndarray, RecurrentState]:
        """Returns the features [K, F] and the state; its action and reward are to be set."""
        features, lstm = self._step(images, state)
        return features.numpy(), state._replace(lstm=LSTMState(*(one.numpy() for one in lstm)))
