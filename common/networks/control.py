"""Networks for control from flat observations: policies, critics with their heads, and MLPs.

The papers state little more than the layer sizes (Ape-X appendix D: 300-200 and 400-300 with tanh;
the text of D4PG's PDF lacks the sizes in figure 1). Everything else follows Acme's D4PG: the action
enters with the observation, LayerNorm precedes the first tanh, ELU follows the later layers, and
the initialisers are Acme's. Sizes, `layer_norm` and `activation` are therefore arguments. The MLPs
have softsign layers, as in ReF-ER, or ReLU layers, as in AQL.
"""

from collections.abc import Callable, Sequence
import math

import sonnet as snt
import tensorflow as tf

from common.environments.spec import EnvironmentSpec

Layer = Callable[[tf.Tensor], tf.Tensor]

# Equals Sonnet's private default. The NumPy twins need it too.
LAYER_NORM_EPSILON = 1e-5
UNIT_NORM_EPSILON = 1e-12  # lower bound of the squared norm by which features are divided


def scaled_to_unit_norm(features: tf.Tensor) -> tf.Tensor:
    """Returns features [B, F] divided by their Euclidean norm (Bjorck et al. 2022, section 4).

    A row of zeros stays zero.
    """
    return tf.math.l2_normalize(features, axis=-1, epsilon=UNIT_NORM_EPSILON)


class LayeredNetwork(snt.Module):
    """A network from one input to one output that is a chain of layers.

    Attributes:
      layers: the layers and activations in the order in which they are applied.
    """

    layers: list[Layer]

    def __call__(self, inputs: tf.Tensor) -> tf.Tensor:
        """Returns outputs: [B, D] -> [B, size of the last layer] float32."""
        return _apply(self.layers, inputs)


class TerrainLayers(snt.Module):
    """Layers for the heights of the terrain, which replace the heights in an input by features.

    D4PG (section 4.3) reduces the heights before they join the other inputs. The layers are built
    like the hidden layers of the other networks.

    Attributes:
      where: the slice of an input that holds the heights.
      layers: the layers and activations in the order in which they are applied.
    """

    def __init__(
        self, spec: EnvironmentSpec, sizes: Sequence[int], layer_norm: bool, activation: Layer
    ):
        """Builds the layers; Sonnet creates their variables at the first call.

        Args:
          spec: the environment's spec, which gives the position of the heights in an observation.
          sizes: units of each layer, at least one.
          layer_norm: whether LayerNorm precedes the tanh of the first layer.
          activation: activation after every layer but the first.
        """
        super().__init__()
        end = spec.observation_size
        self.where = slice(end - spec.terrain_size, end)
        self.layers = _hidden_layers(sizes, layer_norm, activation)

    def __call__(self, inputs: tf.Tensor) -> tf.Tensor:
        """Returns inputs [B, D + ...] with `sizes[-1]` features instead of the heights."""
        heights = _apply(self.layers, inputs[:, self.where])
        before, after = inputs[:, : self.where.start], inputs[:, self.where.stop :]
        return tf.concat([before, heights, after], axis=-1)


def terrain_layers(spec: EnvironmentSpec, sizes: Sequence[int], layer_norm: bool) -> list[Layer]:
    """Returns new `TerrainLayers` for a network's `first_layers`; none if there is no terrain.

    Args:
      spec: the environment's spec.
      sizes: units of each layer; if empty, no layers are returned.
      layer_norm: as for `ControlPolicy`.
    """
    if not (spec.terrain_size and sizes):
        return []
    return [TerrainLayers(spec, sizes, layer_norm, tf.nn.elu)]


class ControlPolicy(LayeredNetwork):
    """Deterministic policy from flat observations [B, D] to canonical actions [B, A] in (-1, 1)."""

    def __init__(
        self,
        action_size: int,
        hidden_sizes: Sequence[int],
        layer_norm: bool,
        activation: Layer = tf.nn.elu,
        first_layers: Sequence[Layer] = (),
        unit_norm: bool = False,
    ):
        """Builds the layers; Sonnet creates their variables at the first call.

        The output layer starts near zero, so that the first actions lie in the middle of their
        range.

        Args:
          action_size: A.
          hidden_sizes: units of each hidden layer, at least one.
          layer_norm: whether LayerNorm precedes the tanh of the first hidden layer.
          activation: activation after every hidden layer but the first.
          first_layers: layers applied before the hidden layers.
          unit_norm: whether `scaled_to_unit_norm` follows the last hidden layer.
        """
        super().__init__()
        near_zero = snt.initializers.VarianceScaling(1e-4)
        self.layers = [
            *first_layers,
            *_hidden_layers(hidden_sizes, layer_norm, activation),
            *[scaled_to_unit_norm] * unit_norm,
            snt.Linear(action_size, w_init=near_zero, name="action"),
            tf.tanh,
        ]


class ControlCriticTorso(LayeredNetwork):
    """Network from flat observations joined with actions to features [B, hidden_sizes[-1]]."""

    def __init__(
        self,
        hidden_sizes: Sequence[int],
        layer_norm: bool,
        activation: Layer = tf.nn.elu,
        first_layers: Sequence[Layer] = (),
    ):
        """Builds the layers; arguments as for `ControlPolicy`."""
        super().__init__()
        hidden = _hidden_layers(hidden_sizes, layer_norm, activation)
        self.layers = [*first_layers, *hidden]


class ControlValue(LayeredNetwork):
    """Network from flat observations [B, D] to values [B, 1]."""

    def __init__(
        self, hidden_sizes: Sequence[int], layer_norm: bool, first_layers: Sequence[Layer] = ()
    ):
        """Builds the layers, whose output starts near zero; arguments as for `ControlPolicy`."""
        super().__init__()
        near_zero = snt.initializers.VarianceScaling(1e-4)
        hidden = _hidden_layers(hidden_sizes, layer_norm, tf.nn.elu)
        output = snt.Linear(1, w_init=near_zero, name="value")
        self.layers = [*first_layers, *hidden, output]


def _hidden_layers(hidden_sizes: Sequence[int], layer_norm: bool, activation: Layer) -> list[Layer]:
    initializer = snt.initializers.VarianceScaling(
        scale=0.333, mode="fan_out", distribution="uniform"
    )
    layers: list[Layer] = []
    for depth, size in enumerate(hidden_sizes):
        layers.append(snt.Linear(size, w_init=initializer, name=f"hidden_{depth}"))
        if depth > 0:
            layers.append(activation)
            continue
        if layer_norm:
            layers.append(
                snt.LayerNorm(
                    axis=-1, create_scale=True, create_offset=True, eps=LAYER_NORM_EPSILON
                )
            )
        layers.append(tf.tanh)
    return layers


def _apply(layers: Sequence[Layer], inputs: tf.Tensor) -> tf.Tensor:
    for layer in layers:
        inputs = layer(inputs)
    return inputs


OUTPUT_SCALE = 0.1
"""Bound on initial output weights, times sqrt(inputs) (ReF-ER appendix A): outputs start near 0."""


def output_layer(input_size: int, output_size: int) -> snt.Linear:
    """Returns a linear layer with `input_size` inputs whose outputs start near zero."""
    bound = OUTPUT_SCALE / math.sqrt(input_size)
    near_zero = snt.initializers.RandomUniform(-bound, bound)
    return snt.Linear(output_size, w_init=near_zero, name="output")


class SoftsignMLP(LayeredNetwork):
    """Softsign layers and a linear output (Novati & Koumoutsakos 2019, ReF-ER, appendix A).

    Initial hidden weights are uniform in +-g, g = sqrt(6 / (inputs + outputs)). The paper prints
    6 / sqrt(inputs + outputs), but the source that it cites (Glorot & Bengio 2010) and the authors'
    program have the root over the whole fraction. The paper does not mention biases. As in the
    authors' program, hidden biases start uniform in the same +-g, and output biases at 0.
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
          input_size: D, length of an input.
          hidden_sizes: units of each hidden layer.
          output_size: length of an output.
          activation: activation of the output; None leaves the output linear.
        """
        super().__init__()
        self.layers = []
        size = input_size
        for depth, units in enumerate(hidden_sizes):
            bound = math.sqrt(6 / (size + units))
            uniform = snt.initializers.RandomUniform(-bound, bound)
            linear = snt.Linear(units, w_init=uniform, b_init=uniform, name=f"hidden_{depth}")
            self.layers += [linear, tf.nn.softsign]
            size = units
        self.layers.append(output_layer(size, output_size))
        if activation is not None:
            self.layers.append(activation)
        self(tf.zeros([1, input_size]))


@snt.allow_empty_variables
class ReluMLP(LayeredNetwork):
    """ReLU layers with Sonnet's initialisers, and an optional output layer.

    Attributes:
      output_size: length of an output.
    """

    def __init__(
        self,
        input_size: int,
        hidden_sizes: Sequence[int],
        output: snt.Linear | None = None,
        activation: Layer | None = None,
    ):
        """Builds the layers and their variables.

        Args:
          input_size: D, length of an input.
          hidden_sizes: units of each hidden layer. If empty, and without `output`, the network is
            the identity.
          output: last layer; None ends with the last ReLU.
          activation: activation of `output`; None leaves it linear.
        """
        super().__init__()
        self.layers = []
        for depth, units in enumerate(hidden_sizes):
            self.layers += [snt.Linear(units, name=f"hidden_{depth}"), tf.nn.relu]
        if output is not None:
            self.layers += [output, activation] if activation else [output]
        self.output_size = self(tf.zeros([1, input_size])).shape[-1]


class CategoricalHead(LayeredNetwork):
    """Linear layer that returns logits [B, K] of distributions on K atoms (D4PG appendix A)."""

    def __init__(self, num_atoms: int):
        super().__init__()
        self.layers = [snt.Linear(num_atoms, name="logits")]


class ScalarHead(LayeredNetwork):
    """Linear layer that returns scalar values [B] (DDPG, D3PG, Ape-X DPG)."""

    def __init__(self):
        super().__init__()
        self.layers = [snt.Linear(1, name="value")]

    def __call__(self, features: tf.Tensor) -> tf.Tensor:
        """Returns values [B] for features [B, F]."""
        return tf.squeeze(super().__call__(features), axis=-1)


class MixtureHead(LayeredNetwork):
    """Linear layer that returns the inputs [B, 3 C] of `gaussian.mixture` (D4PG appendix A)."""

    def __init__(self, num_components: int):
        super().__init__()
        self.layers = [snt.Linear(3 * num_components, name="mixture")]


Head = CategoricalHead | ScalarHead | MixtureHead


class Critic(snt.Module):
    """A critic of observations and actions: head(torso([observation, action]))."""

    def __init__(self, torso: ControlCriticTorso, head: Head):
        super().__init__()
        self.torso = torso
        self.head = head

    def __call__(self, observation: tf.Tensor, action: tf.Tensor) -> tf.Tensor:
        """Returns the head's output: logits [B, K], values [B] or mixture parameters [B, 3 C]."""
        return self.head(self.torso(tf.concat([observation, action], axis=-1)))
