"""Tests of common.networks.images."""

import numpy as np
import tensorflow as tf

from common.networks.images import ResidualTorso


def convolved(maps, w, b):
    """3 x 3, stride 1, zeros around: [H, W, C] -> [H, W, D]."""
    height, width, _ = maps.shape
    padded = np.pad(maps, ((1, 1), (1, 1), (0, 0)))
    out = np.zeros((height, width, w.shape[-1])) + b
    for i in range(3):
        for j in range(3):
            out += padded[i : i + height, j : j + width] @ w[i, j]
    return out


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
            layers = [section._first, *(one for block in section._blocks for one in block)]
            first, *others = [(one._layer.w.numpy(), one._b.numpy()) for one in layers]
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
