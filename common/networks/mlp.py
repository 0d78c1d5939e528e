"""Multilayer perceptrons: with softsign layers, as in ReF-ER, and with ReLU, as in AQL."""

from collections.abc import Sequence
import math

import sonnet as snt
import tensorflow as tf

from common.networks.control import Layer

OUTPUT_SCALE = 0.1
"""Output weights begin within 0.1 / sqrt(inputs) (appendix A), so that outputs begin near zero."""


def output_layer(input_size: int, output_size: int) -> snt.Linear:
    """Returns a linear layer of `input_size` inputs whose outputs begin near zero."""
    bound = OUTPUT_SCALE / math.sqrt(input_size)
    near_zero = snt.initializers.RandomUniform(-bound, bound)
    return snt.Linear(output_size, w_init=near_zero, name="output")


class SoftsignMLP(snt.Module):
    """Softsign layers and a linear output (Novati & Koumoutsakos 2019, ReF-ER, appendix A).

    Hidden weights begin uniformly within +-g, g = sqrt(6 / (inputs + outputs)). The paper prints
    6 / sqrt(inputs + outputs), but the source that it cites (Glorot & Bengio 2010) and the authors'
    program have the root over the whole fraction. Biases are not in the paper: as in the authors'
    program, hidden ones begin within the same +-g and those of the output at 0.

    Attributes:
      layers: the layers and activations in the order in which they are applied.
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
          activation: of the output; None leaves it linear.
        """
        super().__init__()
        self.layers: list[Layer] = []
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

    def __call__(self, inputs: tf.Tensor) -> tf.Tensor:
        """Returns outputs: [B, D] -> [B, output_size] float32."""
        for layer in self.layers:
            inputs = layer(inputs)
        return inputs


@snt.allow_empty_variables
class ReluMLP(snt.Module):
    """ReLU layers, with Sonnet's initialisers, and an output layer or none.

    Attributes:
      layers: the layers and activations in the order in which they are applied.
      output_size: length of an output.
    """

    def __init__(
        self, input_size: int, hidden_sizes: Sequence[int], output: snt.Linear | None = None
    ):
        """Builds the layers and their variables.

        Args:
          input_size: D, length of an input.
          hidden_sizes: units of each hidden layer; without any, and without `output`, the network
            is the identity.
          output: last layer, linear; None ends with the last ReLU.
        """
        super().__init__()
        self.layers: list[Layer] = []
        for depth, units in enumerate(hidden_sizes):
            self.layers += [snt.Linear(units, name=f"hidden_{depth}"), tf.nn.relu]
        if output is not None:
            self.layers.append(output)
        self.output_size = self(tf.zeros([1, input_size])).shape[-1]

    def __call__(self, inputs: tf.Tensor) -> tf.Tensor:
        """Returns outputs: [B, D] -> [B, output_size] float32."""
        for layer in self.layers:
            inputs = layer(inputs)
        return inputs
