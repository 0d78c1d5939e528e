"""NumPy twins of Sonnet policies and critics, for actors that keep pace with the simulator.

With 1 to 64 rows and small dense layers, most of the time of a TensorFlow call is overhead. A twin
applies the `layers` of its Sonnet module and agrees with the module to 1e-5. To evaluate two
actions at the same observations, stack the rows in one call: sharing the first layer's work showed
no gain in measurements.
"""

from collections.abc import Callable, Sequence
import itertools
from typing import Any, NamedTuple

import numpy as np
import sonnet as snt
import tensorflow as tf

from common.networks import control, packing, recurrent
from common.networks.images import ImageEncoder
from common.networks.recurrent import LSTMState
from common.networks.standardizer import Standardizer, StandardizerTwin


class _LayerTwin(NamedTuple):
    name: str  # "" for a layer that `_Twin.layers` cannot return
    function: Callable[..., np.ndarray]
    parameters: tuple[int, ...] = ()  # indices into the module's trainable_variables


class _Twin:
    """Layers as NumPy functions with their parameters."""

    def __init__(self, module: snt.Module, layers: Sequence[control.Layer]):
        variables = module.trainable_variables
        self._shapes = packing.shapes(variables)
        self._layers = _layer_twins(layers, _indices(variables))
        self.load(packing.to_numpy(variables))

    @property
    def num_parameters(self) -> int:
        """Length P of the vector that `load` takes."""
        return self._flat.size

    def load(self, flat_parameters: np.ndarray) -> None:
        """Replaces all parameters with a copy of new ones.

        A call that is running in another thread finishes with the old parameters.

        Args:
          flat_parameters: [P] float32, `packing.pack` of the module's trainable_variables.

        Raises:
          ValueError: the length is wrong; the old parameters stay.
        """
        flat = np.array(flat_parameters, dtype=np.float32)
        self._parameters = packing.unpack(flat, self._shapes)
        self._flat = flat

    def layers(self) -> list[tuple[str, list[np.ndarray]]]:
        """Returns each layer as its kind, such as "linear", and its parameters.

        Raises:
          ValueError: a layer's kind has no name.
        """
        if not all(layer.name for layer in self._layers):
            raise ValueError("the network has separate layers for the terrain, so it is not an MLP")
        parameters = self._parameters
        return [(name, [parameters[i] for i in indices]) for name, _, indices in self._layers]

    def _run(self, inputs: np.ndarray, parameters: Sequence[np.ndarray]) -> np.ndarray:
        for _, function, indices in self._layers:
            inputs = function(inputs, *[parameters[index] for index in indices])
        return inputs


class CriticTwin(_Twin):
    """NumPy twin of a `Critic`."""

    def __init__(self, critic: control.Critic):
        super().__init__(critic, [*critic.torso.layers, *critic.head.layers])
        self._is_scalar = isinstance(critic.head, control.ScalarHead)

    def __call__(self, observation: np.ndarray, action: np.ndarray) -> np.ndarray:
        """Returns the head's output in a new array.

        Args:
          observation: [B, D] float32.
          action: [B, A] float32, canonical.

        Returns:
          float32: values [B] of a scalar head, or the outputs [B, F] of another head.
        """
        outputs = self._run(np.concatenate([observation, action], axis=-1), self._parameters)
        return outputs[:, 0] if self._is_scalar else outputs


class MLPTwin(_Twin):
    """NumPy twin of a `LayeredNetwork`; see `twin`."""

    def __init__(self, network: control.LayeredNetwork):
        super().__init__(network, network.layers)

    def __call__(self, inputs: np.ndarray) -> np.ndarray:
        """Returns outputs in a new array: [B, D] float32 -> [B, output_size] float32."""
        return self._run(inputs, self._parameters)


class LSTMNetworkTwin(_Twin):
    """NumPy twin of an `LSTMNetwork`, which takes one input at a time."""

    def __init__(self, network: recurrent.LSTMNetwork):
        super().__init__(network, network.layers)
        indices = _indices(network.trainable_variables)
        self._lstms = [
            tuple(indices[variable.ref()] for variable in (lstm.w_i, lstm.w_h, lstm.b))
            for lstm in network.lstms
        ]

    def initial_state(self, num_rows: int) -> tuple[LSTMState, ...]:
        """Returns the state of each layer before the first input: zeros [B, H]."""
        sizes = [self._shapes[w_h][0] for _, w_h, _ in self._lstms]
        zeros = [np.zeros((num_rows, size), np.float32) for size in sizes]
        return tuple(LSTMState(zero, zero) for zero in zeros)

    def __call__(
        self, inputs: np.ndarray, state: Sequence[LSTMState]
    ) -> tuple[np.ndarray, tuple[LSTMState, ...]]:
        """Returns the outputs [B, output_size] at inputs [B, F] float32, and the next state."""
        parameters, states = self._parameters, []
        for layer, (hidden, cell) in zip(self._lstms, state):
            w_i, w_h, b = (parameters[index] for index in layer)
            i, f, g, o = np.split(inputs @ w_i + hidden @ w_h + b, 4, axis=-1)
            cell = _sigmoid(f) * cell + _sigmoid(i) * np.tanh(g)
            inputs = _sigmoid(o) * np.tanh(cell)
            states.append(LSTMState(inputs, cell))
        return self._run(inputs, parameters), tuple(states)

    def at_end(self, window: recurrent.Window) -> np.ndarray:
        """Returns the outputs at the last inputs of windows; see `LSTMNetwork.__call__`."""
        steps = np.moveaxis(window.inputs, 1, 0)
        state = self.initial_state(len(window.begins))
        for t, inputs in enumerate(steps):
            keep = (t > window.begins)[:, np.newaxis]
            outputs, state = self(inputs, [LSTMState(keep * h, keep * c) for h, c in state])
        return outputs


class GraphTwin:
    """An actor's copy of a module without a NumPy twin: one TensorFlow call for its environments.

    Attributes:
      num_parameters: length P of the vector that `load` takes.
    """

    def __init__(self, module: snt.Module, call: Callable[..., Any]):
        """Takes over the module, which nothing else may use; `call` is its method that acts."""
        variables = module.trainable_variables
        self.num_parameters = sum(variable.shape.num_elements() for variable in variables)
        self.load = packing.loader(variables)
        self._call = tf.function(call, autograph=False)


class EncoderTwin(GraphTwin):
    """An actor's copy of an `ImageEncoder`."""

    def __init__(self, encoder: ImageEncoder):
        """Takes over the encoder, which nothing else may use."""
        super().__init__(encoder, encoder)

    def layers(self) -> list[tuple[str, list[np.ndarray]]]:
        """Raises ValueError, since convolutions have no named kind."""
        raise ValueError("the network has convolutions, so it is not an MLP")

    def __call__(self, images: np.ndarray) -> np.ndarray:
        """Returns the features [K, F] float32 of images uint8 [K, H, W, C]."""
        return self._call(images).numpy()


def twin(module: tf.Module) -> Any:
    """Returns the twin of a module, with copied parameters.

    Args:
      module: a `LayeredNetwork` of one layer or more, a `Critic`, an `LSTMNetwork`, a
        `Standardizer`, or an `ImageEncoder`, which the twin takes over instead of copying it. Its
        variables must exist.

    Raises:
      TypeError: the module or one of its layers is of a type without a twin.
      ValueError: the module's variables have not been created yet.
    """
    if isinstance(module, control.Critic):
        return CriticTwin(module)
    if isinstance(module, control.LayeredNetwork):
        return MLPTwin(module)
    if isinstance(module, recurrent.LSTMNetwork):
        return LSTMNetworkTwin(module)
    if isinstance(module, ImageEncoder):
        return EncoderTwin(module)
    if isinstance(module, Standardizer):
        return StandardizerTwin(module)
    raise TypeError(
        f"A {type(module).__name__} has no NumPy twin: pass a ControlPolicy, a ControlValue, a "
        "Critic with a ControlCriticTorso, an MLP or an LSTMNetwork."
    )


def _indices(variables: Sequence[tf.Variable]) -> dict[Any, int]:
    return {variable.ref(): index for index, variable in enumerate(variables)}


def _layer_twins(layers: Sequence[control.Layer], indices: dict[Any, int]) -> list[_LayerTwin]:
    """Returns the twins of layers, given the indices of their variables."""
    twins = []
    for layer in layers:
        if isinstance(layer, snt.Linear):
            variables = [layer.w, layer.b] if layer.with_bias else [layer.w]
            twin = _LayerTwin("linear", _linear, tuple(indices[v.ref()] for v in variables))
        elif isinstance(layer, snt.LayerNorm):
            parameters = indices[layer.scale.ref()], indices[layer.offset.ref()]
            twin = _LayerTwin("layer_norm", _layer_norm, parameters)
        elif isinstance(layer, control.TerrainLayers):
            inner = _layer_twins(layer.layers, indices)
            parameters = tuple(index for each in inner for index in each.parameters)
            twin = _LayerTwin("", _terrain(layer.where, inner), parameters)
        elif layer in _ACTIVATIONS:
            twin = _ACTIVATIONS[layer]
        else:
            raise TypeError(f"The layer {layer} has no NumPy twin: add one to this module.")
        twins.append(twin)
    return twins


def _terrain(where: slice, layers: Sequence[_LayerTwin]) -> Callable[..., np.ndarray]:
    """Returns the function of `TerrainLayers`, which takes the parameters of all its layers."""

    def function(inputs: np.ndarray, *parameters: np.ndarray) -> np.ndarray:
        heights, left = inputs[:, where], iter(parameters)
        for layer in layers:
            heights = layer.function(heights, *itertools.islice(left, len(layer.parameters)))
        return np.concatenate([inputs[:, : where.start], heights, inputs[:, where.stop :]], axis=1)

    return function


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return np.float32(0.5) * (np.tanh(np.float32(0.5) * x) + np.float32(1))  # without overflow


def _linear(inputs: np.ndarray, w: np.ndarray, b: np.ndarray | None = None) -> np.ndarray:
    outputs = inputs @ w
    if b is not None:
        outputs += b
    return outputs


# The functions below work in place. Every stack of layers starts with a Linear, also the stack for
# terrain, so they only change arrays that the twin itself created.


def _layer_norm(inputs: np.ndarray, scale: np.ndarray, offset: np.ndarray) -> np.ndarray:
    size = inputs.shape[-1]
    inputs -= np.add.reduce(inputs, axis=-1, keepdims=True) / size
    variance = np.einsum("bi,bi->b", inputs, inputs)[:, np.newaxis] / size
    inputs /= np.sqrt(variance + control.LAYER_NORM_EPSILON)
    inputs *= scale
    inputs += offset
    return inputs


def _tanh(inputs: np.ndarray) -> np.ndarray:
    return np.tanh(inputs, out=inputs)


def _elu(inputs: np.ndarray) -> np.ndarray:
    # exp(x) - 1 is exact enough for the twins' tolerance of 1e-5 and, unlike expm1, vectorised.
    negative = np.minimum(inputs, 0)
    np.exp(negative, out=negative)
    negative -= 1
    np.maximum(inputs, 0, out=inputs)
    inputs += negative
    return inputs


def _unit_norm(inputs: np.ndarray) -> np.ndarray:
    squares = np.einsum("bi,bi->b", inputs, inputs)[:, np.newaxis]
    inputs /= np.sqrt(np.maximum(squares, np.float32(control.UNIT_NORM_EPSILON)))
    return inputs


def _softsign(inputs: np.ndarray) -> np.ndarray:
    scale = np.abs(inputs)
    scale += 1
    inputs /= scale
    return inputs


def _relu(inputs: np.ndarray) -> np.ndarray:
    return np.maximum(inputs, 0, out=inputs)


_ACTIVATIONS: dict[Callable, _LayerTwin] = {
    tf.tanh: _LayerTwin("tanh", _tanh),
    tf.nn.relu: _LayerTwin("relu", _relu),
    tf.nn.elu: _LayerTwin("elu", _elu),
    tf.nn.softsign: _LayerTwin("softsign", _softsign),
    control.scaled_to_unit_norm: _LayerTwin("unit_norm", _unit_norm),
}
