"""Policy and critic in NumPy float64, and gradients by finite differences.

What a learner does is compared with its paper's equations so, which shares nothing with TensorFlow.
"""

import numpy as np
import sonnet as snt
import tensorflow as tf

from common.networks.control import scaled_to_unit_norm


def run(layers, h, of):
    """Runs a network's layers on h, with the arrays that `of` gives for variables."""
    for layer in layers:
        if isinstance(layer, snt.Linear):
            h = h @ of(layer.w) + (of(layer.b) if layer.with_bias else 0)
        elif isinstance(layer, snt.LayerNorm):
            h = (h - h.mean(-1, keepdims=True)) / np.sqrt(h.var(-1, keepdims=True) + 1e-5)
            h = h * of(layer.scale) + of(layer.offset)
        elif layer is tf.tanh:
            h = np.tanh(h)
        elif layer is scaled_to_unit_norm:
            h = h / np.sqrt(np.sum(h * h, -1, keepdims=True))
        elif layer is tf.nn.relu:
            h = np.maximum(h, 0)
        elif layer is tf.nn.softsign:
            h = h / (1 + np.abs(h))
        else:
            assert layer is tf.nn.elu
            h = np.where(h > 0, h, np.exp(np.minimum(h, 0)) - 1)
    return h


def convolution(inputs, w, b, stride):
    """A VALID convolution, position by position."""
    kernel = len(w)
    height, width = ((side - kernel) // stride + 1 for side in inputs.shape[1:3])
    outputs = np.empty((len(inputs), height, width, w.shape[3]))
    for y in range(height):
        for x in range(width):
            patch = inputs[:, y * stride :, x * stride :][:, :kernel, :kernel]
            outputs[:, y, x] = np.tensordot(patch, w, 3) + b
    return outputs


def dueling(network, observation, of):
    """The action values [B, A] of images by DQN's dueling network."""
    features = np.asarray(observation, np.float64) / 255
    for layer, stride in zip(network.torso.layers, (4, 2, 1)):
        features = np.maximum(convolution(features, of(layer.w), of(layer.b), stride), 0)
    features = features.reshape(len(features), -1)

    def linear(inputs, layer):
        return inputs @ of(layer.w) + of(layer.b)

    value, advantage = (
        linear(np.maximum(linear(features, stream.hidden), 0), stream.output)
        for stream in (network.value, network.advantage)
    )
    return value + advantage - advantage.mean(1, keepdims=True)


class Float64Values:
    """The values of variables as arrays that can be changed one number at a time."""

    def __init__(self, variables):
        self._values = {v.ref(): v.numpy().astype(np.float64) for v in variables}

    def of(self, variable):
        """The array of a variable."""
        return self._values[variable.ref()]

    def run(self, network, h):
        """Runs a network with `layers` on h."""
        return run(network.layers, h, self.of)


class Float64Networks(Float64Values):
    """The parameters of an `ActorCritic`."""

    def __init__(self, networks):
        super().__init__(networks.variables)
        self._networks = networks

    def pi(self, x):
        """The policy's actions."""
        return run(self._networks.policy.layers, x, self.of)

    def outputs(self, x, a):
        """Of the critic's last layer, [B, F]."""
        critic = self._networks.critic
        layers = [*critic.torso.layers, *critic.head.layers]
        return run(layers, np.concatenate([x, a], 1), self.of)

    def q(self, x, a):
        """The values of a scalar critic."""
        return self.outputs(x, a)[:, 0]


def numeric_gradient(function, array, step=1e-6):
    """Central differences of a scalar in each number of `array`."""
    gradient = np.zeros_like(array)
    for index in np.ndindex(array.shape):
        original = array[index]
        array[index] = original + step
        above = function()
        array[index] = original - step
        gradient[index] = (above - function()) / (2 * step)
        array[index] = original
    return gradient


def values_of(variables):
    """The variables' values of this moment."""
    return [variable.numpy() for variable in variables]


def assert_all_equal(actual, expected):
    """Bit for bit."""
    for a, e in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(a, e)


def check_changes(before, variables, gradients, factor):
    """Asserts that an update with steps of plain SGD of size 1 added the gradients.

    Args:
      before: `Float64Networks` from before the update.
      variables: the variables of the policy or of the critic.
      gradients: gradient of the objective in each variable; each has a number that tells.
      factor: 1 where the update ascends, -1 where it descends, times a clipped norm's scale.
    """
    for variable, gradient in zip(variables, gradients, strict=True):
        change = variable.numpy() - before.of(variable)
        np.testing.assert_allclose(change, factor * gradient, rtol=2e-3, atol=2e-5)
        assert np.abs(gradient).max() > 1e-4
