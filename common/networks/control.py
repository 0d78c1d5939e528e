"""Networks for control from flat observations: the policy and the critic's torso.

The papers name little more than the layer sizes (Ape-X appendix D: 300-200 and 400-300 with tanh;
the text of D4PG's PDF has lost those of figure 1). Everything else follows Acme's D4PG: the action
enters with the observation, LayerNorm precedes the first tanh, ELU follows the later layers, and
the initialisers are Acme's. Sizes, `layer_norm` and `activation` are therefore arguments.
"""

from collections.abc import Callable, Sequence

import sonnet as snt
import tensorflow as tf

Layer = Callable[[tf.Tensor], tf.Tensor]

# Equals Sonnet's private default. The NumPy twins need it too.
LAYER_NORM_EPSILON = 1e-5


class ControlPolicy(snt.Module):
    """Deterministic policy from flat observations to canonical actions.

    Attributes:
      layers: the layers and activations in the order in which they are applied.
    """

    def __init__(
        self,
        action_size: int,
        hidden_sizes: Sequence[int],
        layer_norm: bool,
        activation: Layer = tf.nn.elu,
    ):
        """Builds the layers; Sonnet creates their variables at the first call.

        The output layer starts near zero, so that the first actions lie in the middle of their
        range.

        Args:
          action_size: A.
          hidden_sizes: units of each hidden layer, at least one.
          layer_norm: whether LayerNorm precedes the tanh of the first hidden layer.
          activation: of every hidden layer after the first.

        Raises:
          ValueError: `hidden_sizes` is empty.
        """
        super().__init__()
        near_zero = snt.initializers.VarianceScaling(1e-4)
        self.layers: list[Layer] = [
            *_hidden_layers(hidden_sizes, layer_norm, activation),
            snt.Linear(action_size, w_init=near_zero, name="action"),
            tf.tanh,
        ]

    def __call__(self, observation: tf.Tensor) -> tf.Tensor:
        """Returns canonical actions: [B, D] -> [B, A] float32 in (-1, 1)."""
        return _apply(self.layers, observation)


class ControlCriticTorso(snt.Module):
    """Features of a flat observation and an action.

    Attributes:
      layers: the layers and activations in the order in which they are applied.
    """

    def __init__(
        self, hidden_sizes: Sequence[int], layer_norm: bool, activation: Layer = tf.nn.elu
    ):
        """Builds the layers; arguments as for `ControlPolicy`."""
        super().__init__()
        self.layers: list[Layer] = _hidden_layers(hidden_sizes, layer_norm, activation)

    def __call__(self, observation: tf.Tensor, action: tf.Tensor) -> tf.Tensor:
        """Returns features: [B, D], [B, A] -> [B, hidden_sizes[-1]] float32."""
        return _apply(self.layers, tf.concat([observation, action], axis=-1))


def _hidden_layers(hidden_sizes: Sequence[int], layer_norm: bool, activation: Layer) -> list[Layer]:
    if not hidden_sizes:
        raise ValueError("hidden_sizes must name at least one layer, got none.")
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
