"""Tests of common.replay.png."""

import io
import zlib

import numpy as np
from PIL import Image
import pytest
import tensorflow as tf

from common.replay import png
from common.replay.memory import Fifo, Memory

SHAPES = [(84, 84, 4), (40, 36, 3), (36, 36, 2), (50, 40, 1)]


def noise(*shape):
    return np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)


@pytest.mark.parametrize("shape", SHAPES)
def test_round_trip_is_exact(shape):
    images = np.concatenate([noise(3, *shape), np.zeros((1, *shape), np.uint8)])
    encoded = png.encode(images)
    assert encoded.shape == (4,) and encoded.dtype == object
    np.testing.assert_array_equal(png.decode(tf.constant(encoded), shape), images)
    # Also as other programs read such files.
    np.testing.assert_array_equal(tf.io.decode_png(encoded[0], channels=0), images[0])
    pixels = np.asarray(Image.open(io.BytesIO(encoded[0])))
    np.testing.assert_array_equal(pixels.reshape(shape), images[0])


def test_images_that_are_views_of_others():
    images = np.moveaxis(noise(2, 4, 36, 36), 1, -1)
    np.testing.assert_array_equal(
        png.decode(tf.constant(png.encode(images)), images.shape[1:]), images
    )


@pytest.mark.parametrize("shape", [(84, 84, 4), (1, 1, 1), (36, 36, 1)])
def test_nothing_takes_more_than_the_bound(shape):
    assert len(png.encode(noise(1, *shape))[0]) <= png.max_bytes(shape)


@pytest.mark.parametrize("change", [0, -1, 1], ids=["filtered", "short", "long"])
def test_whole_files_of_other_rows_are_refused(change):
    rows = b"\1" + bytes(9 * (1 + 7 * 4) - 1) if not change else bytes(9 * (1 + 7 * 4) + change)
    file = png.prefix((9, 7, 4)) + png._chunk(b"IDAT", zlib.compress(rows)) + png.suffix()
    with pytest.raises(tf.errors.InvalidArgumentError, match="^image: cannot decode"):
        png.decode(tf.constant([file]), (9, 7, 4))


def test_any_changed_byte_of_a_file_is_noticed():
    file = png.encode(noise(1, 9, 7, 4) // 64)[0]
    for place in range(len(file)):
        for cut in (file[:place], file[:place] + bytes([file[place] ^ 4]) + file[place + 1 :]):
            with pytest.raises(tf.errors.InvalidArgumentError, match="^image: cannot decode"):
                png.decode(tf.constant([cut]), (9, 7, 4))


def test_flat_frames_become_small():
    frame = np.full((1, 84, 84, 4), 87, np.uint8)
    frame[:, 40:44, 20:22] = 236
    assert len(png.encode(frame)[0]) < frame.size / 50


SHAPE = (40, 36, 4)
WHOLE = png.encode(noise(1, *SHAPE))[0]


@pytest.mark.parametrize("shape", SHAPES)
def test_each_file_begins_and_ends_as_its_column_says(shape):
    column = png.column(shape)
    for file in [png.encode(noise(1, *shape))[0], tf.io.encode_png(noise(*shape)).numpy()]:
        assert file.startswith(column.prefix) and file.endswith(column.suffix)
    assert column.max_bytes == png.max_bytes(shape)


def test_sequences_of_images_are_decoded_as_a_whole():
    images = noise(6, *SHAPE)
    encoded = tf.reshape(tf.constant(png.encode(images)), [2, 3])
    decoded = png.decode(encoded, SHAPE)
    np.testing.assert_array_equal(decoded, images.reshape(2, 3, *SHAPE))


@pytest.mark.parametrize(
    "broken, reason",
    [
        (b"", "begin with the prefix"),
        (WHOLE[:-1], "end with the suffix"),
        (WHOLE + b"\0", "end with the suffix"),
        (png.encode(noise(1, 36, 40, 4))[0], "begin with the prefix"),
        (png.encode(noise(1, 40, 36, 1))[0], "begin with the prefix"),
    ],
    ids=["empty", "short", "long", "transposed", "channels"],
)
def test_a_memory_refuses_a_damaged_file_and_one_of_another_shape(broken, reason):
    memory = Memory({"frame": png.column(SHAPE)}, 8, {"sample": Fifo()}, "sample")
    encoded = png.encode(noise(4, *SHAPE))
    memory.insert(np.arange(4), {"frame": encoded}, np.ones(4, np.float32))
    before = memory.statistics()
    encoded[2] = broken
    with pytest.raises(tf.errors.InvalidArgumentError, match=rf"frame\[2\] must .*{reason}"):
        memory.insert(np.arange(10, 14), {"frame": encoded}, np.ones(4, np.float32))
    assert memory.statistics() == before
    memory.check()


@pytest.mark.parametrize(
    "broken",
    [WHOLE[:1000] + bytes(8) + WHOLE[1008:], WHOLE[:1000] + WHOLE[1100:]],
    ids=["changed", "shortened"],
)
def test_an_image_that_cannot_be_decoded_is_an_error_that_names_its_column(broken):
    encoded = png.encode(noise(4, *SHAPE))
    encoded[2] = broken
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"^observation_t: cannot decode an image of \[40, 36"
    ) as caught:
        png.decode(tf.constant(encoded), SHAPE, "observation_t")
    assert "\n" not in caught.value.message
