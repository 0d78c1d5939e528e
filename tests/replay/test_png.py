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
    np.testing.assert_array_equal(png.decode(tf.constant(encoded), shape), images)
    # Also as TensorFlow writes and reads such files.
    np.testing.assert_array_equal(
        png.decode(tf.io.encode_png(images, compression=1), shape), images
    )
    np.testing.assert_array_equal(tf.io.decode_png(encoded[0], channels=0), images[0])


def test_images_that_are_views_of_others():
    images = np.moveaxis(noise(2, 4, 36, 36), 1, -1)
    np.testing.assert_array_equal(
        png.decode(tf.constant(png.encode(images)), images.shape[1:]), images
    )


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
        (png.encode(noise(1, 36, 36, 4))[0], r"an image of \[36, 36, 4\], must be of \[84, 84"),
        (png.encode(noise(1, 84, 84, 1))[0], r"an image of \[84, 84, 1\]"),
    ],
    ids=["empty", "text", "cut", "size", "channels"],
)
def test_what_is_no_image_is_an_error_that_names_it(broken, reason):
    encoded = png.encode(noise(4, 84, 84, 4))
    encoded[2] = broken
    with pytest.raises(png.UndecodableImageError, match=reason) as caught:
        png.decode(tf.constant(encoded), (84, 84, 4), "observation_t")
    assert list(caught.value.reasons) == [2] and caught.value.column == "observation_t"
    message = caught.value.message
    assert message.startswith("observation_t of row 2 is ") and "\n" not in message


@pytest.mark.parametrize("wrong", [[0], [0, 1, 3], [0, 1, 2, 3]])
def test_every_image_of_another_shape_is_named_and_no_other(wrong):
    """Also where it is the first one, or where all are alike."""
    encoded = png.encode(noise(4, 40, 36, 4))
    encoded[wrong] = png.encode(noise(len(wrong), 36, 40, 4))
    with pytest.raises(png.UndecodableImageError) as caught:
        png.decode(tf.constant(encoded), (40, 36, 4), "observation_t")
    reason = "is an image of [36, 40, 4], must be of [40, 36, 4]"
    assert caught.value.reasons == dict.fromkeys(wrong, reason)
    assert caught.value.message == f"observation_t of row 0 {reason}"
