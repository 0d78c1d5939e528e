"""NumPy twins of Sonnet policies and critics, for acting at the simulator's pace.

For 1 to 64 rows through small dense layers, most of a TensorFlow call is overhead. A twin walks
the `layers` of the module it was made from and agrees with it to 1e-5. To value two actions at
the same observations, stack the rows in one call: sharing the first layer's work was measured to
be no faster.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import sonnet as snt
import tensorflow as tf

from common.networks import control, heads, packing


class _Step(NamedTuple):
    function: Callable[..., np.ndarray]
    parameters: tuple[int, ...]  # positions in the module's trainable_variables


class _Twin:
    """Layers as NumPy functions, and the parameters that they use."""

    def __init__(self, module: snt.Module, layers: Sequence[control.Layer]):
        variables = module.trainable_variables
        self._shapes = packing.shapes(variables)
        self._steps = _steps(layers, variables)
        self.load(packing.pack(variables).numpy())

    @property
    def num_parameters(self) -> int:
        """Length of the vector that `load` takes."""
        return self._flat.size

    def load(self, flat_parameters: np.ndarray) -> None:
        """Swaps in new parameters, copied; a call under way in another thread ends with the old.

        Args:
            flat_parameters: [num_parameters] float32, `packing.pack` of the module's
                trainable_variables.

        Raises:
            ValueError: the length is wrong; the old parameters stay.
        """
        flat = np.array(flat_parameters, dtype=np.float32)
        self._parameters = packing.unpack(flat, self._shapes)
        self._flat = flat

    def _run(self, inputs: np.ndarray) -> np.ndarray:
        parameters = self._parameters
        for function, positions in self._steps:
            inputs = function(inputs, *[parameters[position] for position in positions])
        return inputs


class PolicyTwin(_Twin):
    """Twin of a `ControlPolicy`."""

    def __init__(self, policy: control.ControlPolicy):
        super().__init__(policy, policy.layers)

    def __call__(self, observation: np.ndarray) -> np.ndarray:
        """Observation [B, D] float32 -> a new array, canonical action [B, A] float32."""
        return self._run(observation)


class CriticTwin(_Twin):
    """Twin of a `Critic` on a `ControlCriticTorso`."""

    def __init__(self, critic: heads.Critic):
        super().__init__(critic, [*critic.torso.layers, *critic.head.layers])
        self._is_scalar = isinstance(critic.head, heads.ScalarHead)

    def __call__(self, observation: np.ndarray, action: np.ndarray) -> np.ndarray:
        """Observation [B, D], action [B, A] float32 -> a new array, [B, K] logits or [B] values."""
        outputs = self._run(np.concatenate([observation, action], axis=-1))
        return outputs[:, 0] if self._is_scalar else outputs


def twin(module: control.ControlPolicy | heads.Critic) -> Any:
    """Returns the NumPy twin, `PolicyTwin` or `CriticTwin`, of a built module, with its parameters.

    Raises:
        TypeError: there is no twin of such a module, or of one of its layers.
        ValueError: the module's variables have not been created yet.
    """
    if isinstance(module, control.ControlPolicy):
        return PolicyTwin(module)
    if isinstance(module, heads.Critic) and isinstance(module.torso, control.ControlCriticTorso):
        return CriticTwin(module)
    raise TypeError(
        f"There is no NumPy twin of a {type(module).__name__}: only of a ControlPolicy, and of a "
        "Critic on a ControlCriticTorso."
    )


def _steps(layers: Sequence[control.Layer], variables: Sequence[tf.Variable]) -> tuple[_Step, ...]:
    position = {variable.ref(): index for index, variable in enumerate(variables)}
    steps = []
    for layer in layers:
        if isinstance(layer, snt.Linear):
            steps.append(_Step(_linear, (position[layer.w.ref()], position[layer.b.ref()])))
        elif isinstance(layer, snt.LayerNorm):
            parameters = (position[layer.scale.ref()], position[layer.offset.ref()])
            steps.append(_Step(_layer_norm, parameters))
        elif layer in _ACTIVATIONS:
            steps.append(_Step(_ACTIVATIONS[layer], ()))
        else:
            raise TypeError(f"There is no NumPy twin of the layer {layer}.")
    return tuple(steps)


def _linear(inputs: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    outputs = inputs @ w
    outputs += b
    return outputs


# What follows works in place: a Linear comes first in every stack, so the array is the twin's own.


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
    # exp - 1 loses nothing that matters beside 1e-5, and unlike expm1 it is vectorised.
    negative = np.minimum(inputs, 0)
    np.exp(negative, out=negative)
    negative -= 1
    np.maximum(inputs, 0, out=inputs)
    inputs += negative
    return inputs


_ACTIVATIONS: dict[Callable, Callable[[np.ndarray], np.ndarray]] = {tf.tanh: _tanh, tf.nn.elu: _elu}
