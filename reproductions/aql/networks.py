"""Networks of Q and of the proposal (figure 1, appendix A1), and their NumPy twins for the actors.

The paper gives layer sizes only in figure 1's drawing, and no initialisers. These are Sonnet's, but
last layers start small, so that the first values are near 0 and the first proposals near uniform.

Q and the proposal share layers. For images these are IMPALA's deep network (appendix A1): the
residual torso, a linear layer, and an LSTM that also receives the one-hot encoding of the last
action and the last reward, clipped to [-1, 1].

The twin of Q evaluates hundreds of candidates at a state. On one core it was as fast as XLA for
batches of states and a fifth faster for a single state: about 2 ms for 500 candidates of 21
sub-actions, nine tenths of it in matrix products.
"""

from collections.abc import Sequence
import math
from typing import Any, NamedTuple

import numpy as np
import sonnet as snt
import tensorflow as tf

from common.environments.spec import EnvironmentSpec
from common.learning.learner import Adam
from common.networks import numpy_twins, packing
from common.networks.control import ReluMLP
from common.networks.images import ResidualTorso, with_vector
from common.networks.recurrent import LSTM, LSTMState
from common.types import Nest
from reproductions.aql.actions import ActionSpace
from reproductions.aql.config import MAX_EXACT_ACTIONS, AQLConfig
from reproductions.aql.proposals import OUTPUT_SCALE, FlatPolicy, Proposal
from reproductions.aql.search import QFunction


class RecurrentState(NamedTuple):
    """State of a recurrent policy between two timesteps; zeros at the start of an episode.

    Attributes:
      lstm: state of the LSTM.
      action: float32 [B, S], the last action's encoding.
      reward: float32 [B], the last action's reward, unclipped.
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
    """Layers from the images, last actions and last rewards of sequences to features.

    Attributes:
      space: the space of the actions.
      output_size: F, length of the features.
    """

    def __init__(self, config: AQLConfig, spec: EnvironmentSpec, space: ActionSpace):
        """Builds the layers and their variables."""
        super().__init__()
        size = config.lstm_size
        self.space = space
        self.output_size = size
        assert spec.picture_shape is not None
        self._torso = with_vector(ResidualTorso(spec.picture_shape, config.channels), spec)
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
          images: uint8 [B, T, H, W, C]; T must be known when the graph is built.
          state: the LSTM's state before the first timestep.
          action: [B, T, S], the encoding of the action before each timestep, 0 where an episode
            starts.
          reward: [B, T], the reward of that action.
          is_first: bool [B, T], true where the state is reset to zeros before the timestep.
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
          unroll: `Unrolls` of [B, T, ...], with the extra "action_index".
        """
        goes_on = 1 - tf.cast(unroll.is_last[:, :-1], tf.float32)
        state = unroll.state
        taken = self.space.encode(unroll.extras["action_index"][:, :-1])
        action = goes_on[..., tf.newaxis] * taken
        reward = goes_on * unroll.reward[:, :-1]
        never = tf.zeros_like(unroll.is_last[:, :1])  # the stored state needs no reset
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


class RecurrentTwin(numpy_twins.GraphTwin):
    """An actor's copy of `RecurrentLayers`."""

    is_recurrent = True

    def __init__(self, layers: RecurrentLayers):
        """Creates the copy, which takes over the layers."""
        super().__init__(layers, layers.step)
        self._layers = layers

    def initial_state(self, num_environments: int) -> RecurrentState:
        """Returns zeros, [K, ...]."""
        lstm = np.zeros((num_environments, self._layers.output_size), np.float32)
        action = np.zeros((num_environments, self._layers.space.encoded_size), np.float32)
        return RecurrentState(LSTMState(lstm, lstm), action, np.zeros(num_environments, np.float32))

    def __call__(
        self, images: np.ndarray, state: RecurrentState
    ) -> tuple[np.ndarray, RecurrentState]:
        """Returns the features [K, F] and the state; the caller sets its action and reward."""
        features, lstm = self._call(images, state)
        return features.numpy(), state._replace(lstm=LSTMState(*(part.numpy() for part in lstm)))


class ValueNetwork(snt.Module):
    """Q(s, a): embeddings of the state and the action, then joint layers (figure 1).

    The first joint layer is linear in the concatenated embeddings. So it is the sum of the state's
    part, which all actions at the state share, and the action's part.

    Attributes:
      shared: the layers shared with the proposal, see `make_shared`.
      state: features of the state -> the state's part [B, J], with the layer's bias.
      action: encoded action -> the action's part [B, J].
      joint: the layers after the sum's ReLU: [B, J] -> [B, 1].
      parameters: all variables, in the order of these four.
    """

    def __init__(self, config: AQLConfig, spec: EnvironmentSpec, space: ActionSpace):
        """Builds the layers and their variables."""
        super().__init__()
        self.space = space
        first, *rest = config.joint_sizes
        # The initialiser of a single layer over both embeddings.
        deviation = 1 / math.sqrt(config.state_size + config.action_size)
        initial = snt.initializers.TruncatedNormal(stddev=deviation)
        last_size = config.joint_sizes[-1]
        self.shared = make_shared(config, spec, space)
        self.state = ReluMLP(
            self.shared.output_size, [config.state_size], snt.Linear(first, w_init=initial)
        )
        self.action = ReluMLP(
            space.encoded_size,
            [config.action_size],
            snt.Linear(first, with_bias=False, w_init=initial),
        )
        self.joint = ReluMLP(first, rest, snt.Linear(1, w_init=near_zero(last_size), name="value"))
        self.parameters = tuple(
            variable
            for part in (self.shared, self.state, self.action, self.joint)
            for variable in part.trainable_variables
        )

    def values(self, state_part: tf.Tensor, actions: tf.Tensor) -> tf.Tensor:
        """Returns values [B], given states' parts [B, J] and an action at each state, [B, D]."""
        hidden = tf.nn.relu(state_part + self.action(self.space.encode(actions)))
        return self.joint(hidden)[:, 0]

    def values_of(self, state_part: tf.Tensor, candidates: tf.Tensor) -> tf.Tensor:
        """Returns values [B, n], given states' parts [B, J] and candidates at each, [B, n, D]."""
        parts = tf.repeat(state_part, candidates.shape[1], axis=0)
        values = self.values(parts, tf.reshape(candidates, [-1, self.space.size]))
        return tf.reshape(values, tf.shape(candidates)[:2])


class ProposalNetwork(snt.Module):
    """The proposal with its hidden layers.

    Attributes:
      trunk: features of the state [B, F] -> [B, H].
      proposal: the distribution, given the trunk's output.
      parameters: all variables, the trunk's first.
    """

    def __init__(self, config: AQLConfig, num_features: int, space: ActionSpace):
        """Builds the layers and their variables."""
        super().__init__()
        self.trunk = ReluMLP(num_features, config.proposal_sizes)
        size = self.trunk.output_size
        self.proposal = (
            FlatPolicy(size, space)
            if config.flat_policy
            else Proposal(size, space, config.autoregressive, config.gaussian_variance)
        )
        self.parameters = (*self.trunk.trainable_variables, *self.proposal.parameters)


def make_shared(
    config: AQLConfig, spec: EnvironmentSpec, space: ActionSpace
) -> ReluMLP | RecurrentLayers:
    """Builds the layers that Q shares with the proposal or the policy.

    For images they are convolutions and an LSTM. For flat observations they are the identity,
    except in figure 11's network.
    """
    if config.channels:
        return RecurrentLayers(config, spec, space)
    return ReluMLP(spec.observation_size, config.shared_sizes)


def features_of(shared: ReluMLP | RecurrentLayers, unroll: Nest) -> tf.Tensor:
    """Returns the shared layers' features of the timesteps of B unrolls, [B * T, F].

    Args:
      shared: the result of `make_shared`.
      unroll: `Unrolls` of [B, T, ...].
    """
    if isinstance(shared, RecurrentLayers):
        return shared.features(unroll)
    return shared(tf.reshape(unroll.observation, [-1, unroll.observation.shape[-1]]))


def near_zero(input_size: int) -> snt.initializers.Initializer:
    """Returns the initialiser of a last layer's weights, which start near zero."""
    return snt.initializers.TruncatedNormal(stddev=OUTPUT_SCALE / math.sqrt(input_size))


def make_optimizer(config: AQLConfig) -> snt.Optimizer:
    """Builds Adam (section 5.1), or RMSProp (appendix A3)."""
    if config.optimizer == "rmsprop":
        return snt.optimizers.RMSProp(
            config.learning_rate, decay=config.rmsprop_decay, epsilon=config.rmsprop_epsilon
        )
    return Adam(config.learning_rate, config.adam_beta1, config.adam_beta2, config.adam_epsilon)


def load_parts(twins: Sequence[Any], flat: np.ndarray) -> None:
    """Loads the consecutive parts of a vector, [P] float32, into twins.

    Raises:
      ValueError: the length is wrong; the old parameters stay.
    """
    parts = packing.unpack(flat, [(twin.num_parameters,) for twin in twins])
    for twin, part in zip(twins, parts):
        twin.load(part)


class FeedforwardTwin:
    """NumPy twin of shared layers without a state; there may be no layers.

    Attributes:
      num_parameters: length P of the vector that `load` takes.
    """

    is_recurrent = False

    def __init__(self, layers: ReluMLP):
        self._twin = numpy_twins.twin(layers) if layers.layers else None
        self.num_parameters = self._twin.num_parameters if self._twin else 0

    def load(self, flat: np.ndarray) -> None:
        """Loads the parameters, [P] float32."""
        if self._twin:
            self._twin.load(flat)

    def initial_state(self, num_environments: int) -> Nest:
        """Returns ()."""
        del num_environments
        return ()

    def __call__(self, observation: np.ndarray, state: Nest) -> tuple[np.ndarray, Nest]:
        """Returns the features [K, F] of observations [K, Ds], and the state unchanged."""
        return (self._twin(observation) if self._twin else observation), state


def shared_twin(layers: ReluMLP | RecurrentLayers) -> FeedforwardTwin | RecurrentTwin:
    """Returns the actor's copy of shared layers, with a copy of their parameters."""
    if isinstance(layers, RecurrentLayers):
        return RecurrentTwin(layers)
    return FeedforwardTwin(layers)


class ValueTwin:
    """NumPy twin of a `ValueNetwork`.

    In a space of few actions, the actions' parts are computed once per snapshot of the parameters.

    The identity relu(x + b) = max(x, -b) + b saves a pass over all candidates at each layer that
    sees the action: the last b, from the layer or the state, goes through the next layer's weights
    as a single vector.

    Attributes:
      shared: twin of the shared layers.
      num_parameters: length P of the vector that `load` takes.
    """

    def __init__(self, network: ValueNetwork, table_size: int = 0):
        """Creates the twin.

        Args:
          network: the network, whose parameters are copied.
          table_size: maximum number of actions of a space in which each action is evaluated once,
            whatever the candidates are. It pays up to the number of candidates.
        """
        self._space = network.space
        self.shared = shared_twin(network.shared)
        self._state, self._action, self._joint = map(
            numpy_twins.twin, (network.state, network.action, network.joint)
        )
        self._twins = (self.shared, self._state, self._action, self._joint)
        self.num_parameters = sum(part.num_parameters for part in self._twins)
        self._has_table = self._space.num_actions <= table_size
        self._all: np.ndarray | None = None
        if self._space.num_actions <= MAX_EXACT_ACTIONS:
            self._all = self._space.encode(self._space.all_actions())
        self._prepare()

    def load(self, flat: np.ndarray) -> None:
        """Loads the parameters, [P] float32 in the order of `ValueNetwork.parameters`."""
        load_parts(self._twins, flat)
        self._prepare()

    def all_values(self, features: np.ndarray) -> np.ndarray:
        """Returns Q of all actions in a space of few: features [K, F] -> [K, num_actions]."""
        return self._table(self._state(features) + self._action_offset)

    def at(self, features: np.ndarray) -> QFunction:
        """Returns Q at K states: candidates [K, n, D] -> values [K, n], given features [K, F]."""
        offsets = self._state(features) + self._action_offset

        def parts_of(candidates: np.ndarray) -> np.ndarray:
            if self._all is None:
                return self._action_parts(self._space.encode(candidates))
            return self._all_parts[self._space.flat_index(candidates)]

        def values(candidates: np.ndarray) -> np.ndarray:
            # One state at a time, so that the hidden layers of its candidates fit the cache.
            return np.stack(
                [self._values(offset, parts_of(each)) for offset, each in zip(offsets, candidates)]
            )

        def looked_up(candidates: np.ndarray) -> np.ndarray:
            index = self._space.flat_index(candidates)
            return np.take_along_axis(self._table(offsets), index, axis=1)

        return looked_up if self._has_table else values

    def _table(self, offsets: np.ndarray) -> np.ndarray:
        return np.stack([self._values(offset, self._all_parts) for offset in offsets])

    def _action_parts(self, encoded: np.ndarray) -> np.ndarray:
        """Returns the actions' parts without `_action_offset`: [n, S] -> [n, J]."""
        hidden = encoded @ self._w
        return np.maximum(hidden, -self._b, out=hidden) @ self._output

    def _values(self, offset: np.ndarray, action_parts: np.ndarray) -> np.ndarray:
        """Returns values [n] of a state's part with `_action_offset`, [J], and actions' parts."""
        for w, b in self._joint_layers:
            action_parts = np.maximum(action_parts, -offset) @ w
            offset = offset @ w + b
        return action_parts[:, 0] + offset

    def _prepare(self) -> None:
        """Computes everything that depends only on the parameters, such as all actions' parts."""
        (_, (self._w, self._b)), _, (_, (self._output,)) = self._action.layers()
        self._joint_layers = [part for kind, part in self._joint.layers() if kind == "linear"]
        self._action_offset = self._b @ self._output  # all actions' parts have it in common
        self._all_parts = None if self._all is None else self._action_parts(self._all)
