"""Networks of Q and of the proposal or policy (figure 1, appendix A1).

Layer sizes stood in figure 1's drawing only. Initialisers are not in the paper: Sonnet's, but the
last layers begin small, so that first values are near 0 and first proposals near uniform.
"""

import math

import sonnet as snt
import tensorflow as tf

from common.environments.spec import EnvironmentSpec
from common.learning import optimizers
from common.networks.control import ControlPolicy
from common.networks.mlp import ReluMLP
from common.types import Nest
from reproductions.aql.actions import ActionSpace
from reproductions.aql.config import AQLConfig
from reproductions.aql.flat_policy import FlatPolicy
from reproductions.aql.proposals import OUTPUT_SCALE, Proposal
from reproductions.aql.recurrent import RecurrentLayers


class ValueNetwork(snt.Module):
    """Q(s, a), of embeddings of the state and the action and of layers after both (figure 1).

    The first layer after the embeddings is linear in their concatenation, so it is the sum of a
    part of the state, which all actions at the state share, and a part of the action.

    Attributes:
      shared: the layers that the proposal shares, see `make_shared`.
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
        # The initialiser of one layer of both embeddings.
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
        """Returns values: states' parts [B, J], an action at each, [B, D] -> [B]."""
        hidden = tf.nn.relu(state_part + self.action(self.space.encode(actions)))
        return self.joint(hidden)[:, 0]

    def __call__(self, observation: tf.Tensor, actions: tf.Tensor) -> tf.Tensor:
        """Returns values: observations [B, Ds], candidates [B, n, D] -> [B, n] float32."""
        batch, num, size = actions.shape
        part = tf.repeat(self.state(self.shared(observation)), num, axis=0)
        return tf.reshape(self.values(part, tf.reshape(actions, [-1, size])), [batch, num])


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
    """Builds the layers that Q shares with proposal or policy.

    Of images they are convolutions and an LSTM; of flat observations the identity, but for figure
    11's network.
    """
    if config.channels:
        assert spec.image_shape is not None
        return RecurrentLayers(config, spec.image_shape, space)
    return ReluMLP(spec.observation_size, config.shared_sizes)


def features_of(shared: ReluMLP | RecurrentLayers, unroll: Nest) -> tf.Tensor:
    """Returns the shared layers' features of the timesteps of B unrolls, [B * T, F].

    Args:
      shared: of `make_shared`.
      unroll: columns of [B, T, ...], see `learner.StoredUnroll`.
    """
    if isinstance(shared, RecurrentLayers):
        return shared.features(unroll)
    return shared(tf.reshape(unroll.observation, [-1, unroll.observation.shape[-1]]))


def make_policy(config: AQLConfig, num_features: int, action_size: int) -> ControlPolicy:
    """Builds D3PG's policy, D4PG's network with layers as wide as the proposal's: [B, F] -> [B, A].

    With LayerNorm: ReLU layers came to actions of +-1 at every state, from where none learnt.
    """
    policy = ControlPolicy(action_size, config.proposal_sizes, layer_norm=True)
    policy(tf.zeros([1, num_features]))  # makes the variables
    return policy


def near_zero(input_size: int) -> snt.initializers.Initializer:
    """Returns the initialiser of a last layer's weights."""
    return snt.initializers.TruncatedNormal(stddev=OUTPUT_SCALE / math.sqrt(input_size))


def make_optimizer(config: AQLConfig) -> snt.Optimizer:
    """Builds Adam (section 5.1), or RMSProp (appendix A3)."""
    if config.optimizer == "rmsprop":
        return snt.optimizers.RMSProp(
            config.learning_rate, decay=config.rmsprop_decay, epsilon=config.rmsprop_epsilon
        )
    return optimizers.Adam(
        config.learning_rate, config.adam_beta1, config.adam_beta2, config.adam_epsilon
    )
