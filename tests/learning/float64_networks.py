"""Policy and critic in NumPy float64, and gradients by finite differences.

What a learner does is compared with its paper's equations so, which shares nothing with TensorFlow.
"""

import numpy as np
import sonnet as snt
import tensorflow as tf


class Float64Networks:
    """The parameters of an `ActorCritic` as arrays that can be changed one number at a time."""

    def __init__(self, networks):
        self._networks = networks
        self._values = {v.ref(): v.numpy().astype(np.float64) for v in networks.variables}

    def of(self, variable):
        """The array of a variable."""
        return self._values[variable.ref()]

    def _run(self, layers, h):
        for layer in layers:
            if isinstance(layer, snt.Linear):
                h = h @ self.of(layer.w) + self.of(layer.b)
            elif isinstance(layer, snt.LayerNorm):
                h = (h - h.mean(1, keepdims=True)) / np.sqrt(h.var(1, keepdims=True) + 1e-5)
                h = h * self.of(layer.scale) + self.of(layer.offset)
            elif layer is tf.tanh:
                h = np.tanh(h)
            else:
                assert layer is tf.nn.elu
                h = np.where(h > 0, h, np.exp(np.minimum(h, 0)) - 1)
        return h

    def pi(self, x):
        """The policy's actions."""
        return self._run(self._networks.policy.layers, x)

    def outputs(self, x, a):
        """Of the critic's last layer, [B, F]."""
        critic = self._networks.critic
        return self._run([*critic.torso.layers, *critic.head.layers], np.concatenate([x, a], 1))

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
