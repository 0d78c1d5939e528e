"""Tests of common.replay.png."""

import numpy as np
import pytest
import tensorflow as tf

from common.replay import png


def noise(*shape):
    return np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)


@pytest.mark.parametrize("shape", [(84, 84, 4), (40, 36, 3), (36, 36, 2), (50, 40, 1)])
def test_round_trip_is_exact(shape):
    images = np.concatenate([noise(3, *shape), np.zeros((1, *shape), np.uint8)])
    encoded = png.encode(images)
    assert encoded.shape == (4,) and encoded.dtype == object
    np.testing.assert_array_equal(png.decode(tf.constant(encoded)), images)
    # Also as TensorFlow writes and reads such files.
    np.testing.assert_array_equal(
        png.decode(tf.io.encode_png(images, compression=1)), images
    )
    np.testing.assert_array_equal(tf.io.decode_png(encoded[0], channels=0), images[0])


def test_images_that_are_views_of_others():
    images = np.moveaxis(noise(2, 4, 36, 36), 1, -1)
    np.testing.assert_array_equal(png.decode(tf.constant(png.encode(images))), images)


@pytest.mark.parametrize("shape", [(84, 84, 4), (1, 1, 1), (36, 36, 1)])
def test_nothing_takes_more_than_the_bound(shape):
    assert len(png.encode(noise(1, *shape))[0]) <= png.max_bytes(shape)


def test_flat_frames_become_small():
    frame = np.full((1, 84, 84, 4), 87, np.uint8)
    frame[:, 40:44, 20:22] = 236
    assert len(png.encode(frame)[0]) < frame.size / 50


@pytest.mark.parametrize(
    "broken, reason",
    [
        (b"", "no image: 0 bytes"),
        (b"no image at all", "no image: 15 bytes"),
        (png.encode(noise(1, 84, 84, 4))[0][:2000], "no image: 2000 bytes"),
        (png.encode(noise(1, 36, 36, 4))[0], r"an image of \[36, 36, 4\], others are of \[84, 84"),
        (png.encode(noise(1, 84, 84, 1))[0], r"an image of \[84, 84, 1\]"),
    ],
    ids=["empty", "text", "cut", "size", "channels"],
)
def test_what_is_no_image_is_an_error_that_names_it(broken, reason):
    encoded = png.encode(noise(4, 84, 84, 4))
    encoded[2] = broken
    with pytest.raises(png.UndecodableImageError, match=reason) as caught:
        png.decode(tf.constant(encoded), "observation_t")
    assert caught.value.row == 2
    message = caught.value.message
    assert message.startswith("observation_t of row 2 is ") and "\n" not in message
