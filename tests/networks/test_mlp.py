"""Tests of common.networks.control."""

import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf

from common.networks import numpy_twins, packing
from common.networks.control import ReluMLP, SoftsignMLP

D, HIDDEN, OUT = 40, (300, 200), 50


def linears(network):
    return [layer for layer in network.layers if hasattr(layer, "w")]


def test_an_mlp_has_softsign_layers_and_a_linear_output():
    network = SoftsignMLP(D, HIDDEN, OUT)
    x = np.random.default_rng(0).normal(size=(5, D)).astype(np.float32)
    h = x.astype(np.float64)
    first, second, output = linears(network)
    for layer in (first, second):
        h = h @ layer.w.numpy() + layer.b.numpy()
        h = h / (1 + np.abs(h))
    expected = h @ output.w.numpy() + output.b.numpy()
    np.testing.assert_allclose(network(x), expected, rtol=1e-4, atol=1e-5)
    bounded = SoftsignMLP(D, HIDDEN, OUT, tf.tanh)
    packing.assign(packing.pack(network.trainable_variables), bounded.trainable_variables)
    np.testing.assert_allclose(bounded(x), np.tanh(expected), rtol=1e-4, atol=1e-5)


def test_hidden_parameters_begin_uniformly_within_glorots_bound():
    tf.random.set_seed(0)
    network = SoftsignMLP(D, HIDDEN, OUT)
    *hidden, output = linears(network)
    for layer, inputs, units in zip(hidden, (D, 300), HIDDEN):
        bound = np.sqrt(6 / (inputs + units))
        for values in (layer.w.numpy(), layer.b.numpy()):
            assert 0.95 * bound < np.abs(values).max() <= bound
            assert values.std() == pytest.approx(bound / np.sqrt(3), rel=0.1)
    bound = 0.1 / np.sqrt(HIDDEN[-1])
    assert 0.99 * bound < np.abs(output.w).max() <= bound
    assert output.w.numpy().std() == pytest.approx(bound / np.sqrt(3), rel=0.05)
    np.testing.assert_array_equal(output.b, np.zeros(OUT))


@pytest.mark.parametrize("activation", [None, tf.tanh])
def test_the_numpy_twin_equals_the_mlp_and_loads(activation):
    network, other = (SoftsignMLP(D, HIDDEN, OUT, activation) for _ in range(2))
    rng = np.random.default_rng(0)
    for variable in other.trainable_variables:  # far from their initial values
        variable.assign_add(rng.normal(scale=0.05, size=variable.shape))
    observation = rng.normal(size=(7, D)).astype(np.float32) * 3
    kept = observation.copy()
    twin = numpy_twins.twin(network)
    np.testing.assert_allclose(twin(observation), network(observation), atol=1e-5)
    twin.load(packing.to_numpy(other.trainable_variables))
    assert np.abs(other(observation)).max() > 0.1
    np.testing.assert_allclose(twin(observation), other(observation), atol=1e-5)
    assert twin(observation).dtype == np.float32
    np.testing.assert_array_equal(observation, kept)


def test_relu_layers_and_an_output():
    network = ReluMLP(3, [4, 5], snt.Linear(2))
    assert network.output_size == 2
    h = np.random.default_rng(0).standard_normal((6, 3)).astype(np.float32)
    outputs = network(h)
    for layer in (network.layers[0], network.layers[2]):
        h = np.maximum(h @ layer.w.numpy() + layer.b.numpy(), 0)
    last = network.layers[4]
    expected = h @ last.w.numpy() + last.b.numpy()
    np.testing.assert_allclose(outputs, expected, rtol=1e-5, atol=1e-6)


def test_without_layers_it_is_the_identity():
    network = ReluMLP(3, [])
    assert network.output_size == 3 and not network.trainable_variables
    np.testing.assert_array_equal(network(tf.ones([2, 3])), np.ones([2, 3]))
