"""Networks for control from flat observations: the policy and the critic's torso.

The papers name little more than the layer sizes (Ape-X appendix D: 300-200 and 400-300 with tanh;
D4PG's Figure 1 lost them). What is not in a paper is taken from Acme's D4PG: the action enters
with the observation, LayerNorm before the first tanh, ELU after later layers, and the
initialisers. So sizes, `layer_norm` and `activation`, of later layers, are arguments.
"""

from collections.abc import Callable, Sequence

import sonnet as snt
import tensorflow as tf

Layer = Callable[[tf.Tensor], tf.Tensor]

# Sonnet's own default, named because it keeps it private and the NumPy twins need it.
LAYER_NORM_EPSILON = 1e-5


class ControlPolicy(snt.Module):
    """Deterministic policy: observation [B, D] -> canonical action [B, A] in (-1, 1), float32.

    The last layer starts near zero, so that first actions lie in the middle of their range.
    `layers` lists what is applied, in order.
    """

    def __init__(
        self,
        action_size: int,
        hidden_sizes: Sequence[int],
        layer_norm: bool,
        activation: Layer = tf.nn.elu,
        name: str | None = None,
    ):
        super().__init__(name=name)
        near_zero = snt.initializers.VarianceScaling(1e-4)
        self.layers: list[Layer] = [
            *_hidden_layers(hidden_sizes, layer_norm, activation),
            snt.Linear(action_size, w_init=near_zero, name="action"),
            tf.tanh,
        ]

    def __call__(self, observation: tf.Tensor) -> tf.Tensor:
        return _apply(self.layers, observation)


class ControlCriticTorso(snt.Module):
    """Features of a state and an action: [B, D], [B, A] -> [B, hidden_sizes[-1]], float32.

    `layers` lists what is applied, in order, to the concatenation of both.
    """

    def __init__(
        self,
        hidden_sizes: Sequence[int],
        layer_norm: bool,
        activation: Layer = tf.nn.elu,
        name: str | None = None,
    ):
        super().__init__(name=name)
        self.layers: list[Layer] = _hidden_layers(hidden_sizes, layer_norm, activation)

    def __call__(self, observation: tf.Tensor, action: tf.Tensor) -> tf.Tensor:
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
