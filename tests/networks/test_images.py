"""Tests of common.networks.images."""

import types

from float64_networks import convolution
import numpy as np
import pytest
import tensorflow as tf

from common.environments.spec import MIN_SIDES, EnvironmentSpec
from common.networks import images as images_lib
from common.networks.control import ReluMLP
from common.networks.images import ResidualTorso

ATARI, SMALL = (84, 84, 4), (36, 40, 3)


def dueling(shape, num_actions=6, sizes=images_lib.SIZES["atari"], dtype=tf.float32, **options):
    """A network for images of a shape."""
    torso = images_lib.ImageTorso(shape, sizes.convolutions, dtype)
    return images_lib.DuelingNetwork(torso, sizes.hidden, num_actions, **options)


def count(variables):
    return sum(variable.shape.num_elements() for variable in variables)


def images(shape, size=5):
    return np.random.default_rng(0).integers(0, 256, (size, *shape), dtype=np.uint8)


def test_numbers_of_parameters():
    network = dueling(ATARI, num_actions=18)
    torso = [count(layer.trainable_variables) for layer in network.torso.layers]
    assert torso == [8_224, 32_832, 36_928]
    assert network.torso.output_size == 3136
    for stream, outputs in ((network.value, 1), (network.advantage, 18)):
        assert count(stream.hidden.trainable_variables) == 1_606_144
        assert count(stream.output.trainable_variables) == 513 * outputs
    assert count(network.trainable_variables) == 3_300_019


@pytest.mark.parametrize("name", images_lib.SIZES)
def test_the_smallest_images_leave_one_feature_map_cell(name):
    """`require_discrete` refuses smaller ones."""
    side, convolutions = MIN_SIDES[name], images_lib.SIZES[name].convolutions
    assert images_lib.ImageTorso((side, side, 1), convolutions).output_size == convolutions[-1][0]
    assert images_lib.ImageTorso((side - 1, side - 1, 1), convolutions).output_size == 0


def test_minatars_sizes():
    """16 filters of 3 x 3, which leave 8 x 8, and 128 hidden units (Young and Tian 2019)."""
    network = dueling((10, 10, 4), sizes=images_lib.SIZES["minatar"])
    assert [count(layer.trainable_variables) for layer in network.torso.layers] == [592]
    assert network.torso.output_size == 8 * 8 * 16
    assert count(network.value.hidden.trainable_variables) == 1025 * 128
    assert network(images((10, 10, 4))).shape == (5, 6)


@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16])
def test_vectors_below_images_are_features(dtype):
    """They are the numbers whose bytes follow the image, also in a compiled graph."""
    # The 52 bytes are in two rows of 40.
    spec = EnvironmentSpec(480, 2, image_shape=(12, 10, 4), vector_size=13)
    assert spec.picture_shape == (10, 10, 4)
    config = types.SimpleNamespace(torso="minatar")
    torso, _ = images_lib.make_torso(config, spec, images_lib.SIZES, dtype=dtype)
    vectors = np.random.default_rng(1).normal(size=(5, 13)).astype(np.float32)
    observation = images(spec.image_shape)
    observation[:, 10:].reshape(5, 80)[:, :52] = vectors.view(np.uint8)
    for call in (torso, tf.function(torso, jit_compile=True)):
        features = call(observation)
        assert features.dtype == dtype and features.shape == (5, torso.output_size)
        np.testing.assert_array_equal(features[:, -13:], tf.cast(vectors, dtype))
    alone = images_lib.ImageTorso((10, 10, 4), images_lib.SIZES["minatar"].convolutions, dtype)
    for own, other in zip(alone.trainable_variables, torso.trainable_variables):
        own.assign(other)
    np.testing.assert_array_equal(torso(observation)[:, :-13], alone(observation[:, :10]))


def test_flat_observations_have_an_mlp():
    """Its last size is that of the hidden layers, and one size leaves the observation as it is."""
    spec = EnvironmentSpec(4, 2, is_discrete=True)
    for sizes, below in (((64, 32), [4 * 64 + 64]), ((32,), [])):
        config = types.SimpleNamespace(torso="mlp", mlp_sizes=sizes)
        torso, hidden = images_lib.make_torso(config, spec, {})
        assert isinstance(torso, ReluMLP) and hidden == 32
        network = images_lib.DuelingNetwork(torso, hidden, spec.action_size)
        assert [count(each.trainable_variables) for each in network.torso.layers[::2]] == below
        assert count(network.value.hidden.trainable_variables) == 32 * torso.output_size + 32
        assert network(np.ones((5, 4), np.float32)).shape == (5, 2)


def test_a_torso_may_have_other_filters_and_a_concatenated_relu():
    """Reactor's (table 3): each layer's input is twice as deep as the filters before it."""
    convolutions = ((16, 8, 4), (32, 4, 2), (32, 3, 1))
    observation = images((36, 36, 1))
    torso = images_lib.ImageTorso((36, 36, 1), convolutions, activation=tf.nn.crelu)
    maps = observation / 255
    for layer, stride in zip(torso.layers, (4, 2, 1)):
        maps = convolution(maps, float64_of(layer.w), float64_of(layer.b), stride)
        maps = np.concatenate([np.maximum(maps, 0), np.maximum(-maps, 0)], axis=-1)
    np.testing.assert_allclose(torso(observation), maps.reshape(5, -1), rtol=1e-4, atol=1e-6)


def float64_of(variable):
    return variable.numpy().astype(np.float64)


def make_small(seed=0, **options):
    """Returns a small network whose biases are not zero."""
    tf.random.set_seed(seed)
    network = dueling(SMALL, **options)
    generator = np.random.default_rng(seed)
    for variable in network.trainable_variables:
        if len(variable.shape) == 1:
            variable.assign(generator.normal(size=variable.shape, scale=0.1))
    return network


def test_weights_begin_uniform_by_their_inputs():
    tf.random.set_seed(0)
    network = dueling(ATARI, num_actions=18)
    layers = [*network.torso.layers, network.value.hidden, network.advantage.output]
    for layer, inputs in zip(layers, (256, 512, 576, 3136, 512), strict=True):
        bound = inputs**-0.5
        assert np.abs(layer.w).max() <= bound
        np.testing.assert_allclose(np.std(layer.w), bound / 3**0.5, rtol=0.05)
        assert not np.any(layer.b)


def gradients(network, observation):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.square(network(observation)))
    return tape.gradient(loss, network.trainable_variables)


def test_rescaling_divides_what_enters_the_convolutions_by_the_root_of_two():
    observation = images(SMALL)
    plain, rescaled = make_small(), make_small(rescale_gradient=True)
    np.testing.assert_allclose(rescaled(observation), plain(observation), rtol=1e-5)
    in_torso = {variable.ref() for variable in rescaled.torso.trainable_variables}
    for variable, expected, actual in zip(
        rescaled.trainable_variables,
        gradients(plain, observation),
        gradients(rescaled, observation),
        strict=True,
    ):
        scale = 2**-0.5 if variable.ref() in in_torso else 1.0
        np.testing.assert_allclose(actual, scale * expected, rtol=1e-3, atol=1e-5)


def test_bfloat16_computes_the_layers_below_the_heads():
    """Variables, last layers and their arithmetic stay float32: errors are small next to a large V.

    The whole in bfloat16, whose numbers are 0.5 apart at 100, could not tell these actions apart.
    """
    exact, rounded = make_small(), make_small(dtype=tf.bfloat16)
    for network in (exact, rounded):
        network.value.output.b.assign([100.0])
    observation = images(SMALL)
    assert rounded.torso(observation).dtype == tf.bfloat16
    q = rounded(observation)
    assert q.dtype == tf.float32
    np.testing.assert_allclose(q, exact(observation), atol=0.01)
    assert 0.01 < np.ptp(q.numpy(), axis=1).min() < 0.5
    for variable, gradient in zip(rounded.trainable_variables, gradients(rounded, observation)):
        assert variable.dtype == gradient.dtype == tf.float32


def convolved(maps, w, b):
    """3 x 3, stride 1, zeros around: [H, W, C] -> [H, W, D]."""
    padded = np.pad(maps, ((1, 1), (1, 1), (0, 0)))
    return convolution(padded[np.newaxis], w, b, 1)[0]


def pooled(maps):
    """The largest of 3 x 3, stride 2, with TensorFlow's padding SAME."""
    height, width, _ = maps.shape
    before = [max((-(-size // 2) - 1) * 2 + 3 - size, 0) // 2 for size in (height, width)]
    padded = np.pad(maps, ((before[0], 2), (before[1], 2), (0, 0)), constant_values=-np.inf)
    return np.stack(
        [
            [padded[i : i + 3, j : j + 3].max(axis=(0, 1)) for j in range(0, 2 * -(-width // 2), 2)]
            for i in range(0, 2 * -(-height // 2), 2)
        ]
    )


def test_equals_a_plain_program():
    generator = np.random.default_rng(0)
    torso = ResidualTorso((7, 6, 3), (4, 5))
    for variable in torso.trainable_variables:
        variable.assign(0.5 * generator.standard_normal(variable.shape))
    images = generator.integers(0, 256, (2, 7, 6, 3)).astype(np.uint8)
    expected = []
    for maps in images / 255:
        for section in torso._sections:
            layers = [section._first, *(each for block in section._blocks for each in block)]
            first, *others = [(each._layer.w.numpy(), each._b.numpy()) for each in layers]
            maps = pooled(convolved(maps, *first))
            for a, b in zip(others[::2], others[1::2], strict=True):
                maps = maps + convolved(np.maximum(convolved(np.maximum(maps, 0), *a), 0), *b)
        expected.append(np.maximum(maps, 0).ravel())
    found = torso(tf.constant(images))
    assert found.shape == (2, torso.output_size)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_the_size_of_impalas_features():
    torso = ResidualTorso((84, 84, 3))
    assert torso.output_size == 11 * 11 * 32 and len(torso.trainable_variables) == 30
