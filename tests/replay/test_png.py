"""Tests of common.replay.png."""

import io
import struct
import zlib

import numpy as np
from PIL import Image
import pytest
import tensorflow as tf

from common.replay import png
from common.replay.memory import Fifo, Memory


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


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def with_data(shape, *parts, between=b""):
    """A PNG file with these parts of compressed data, and chunks between them and the header."""
    data = b"".join(chunk(b"IDAT", part) for part in parts)
    return png.prefix(shape) + between + data + png.suffix()


def filtered_rows(shape, seed, levels=256):
    """Rows of random filters and values, some of them repeated, as in images."""
    random = np.random.default_rng(seed)
    rows = random.integers(0, levels, (shape[0], 1 + shape[1] * shape[2]), np.uint8)
    rows[:, 1:][random.random((shape[0], shape[1] * shape[2])) < 0.5] = 0
    rows[shape[0] // 3 : shape[0] // 2] = rows[0]
    rows[:, 0] = random.integers(0, 5, shape[0])
    return rows.tobytes()


def compressed(data, level, strategy, wbits=15):
    compressor = zlib.compressobj(level, zlib.DEFLATED, wbits, 9, strategy)
    return compressor.compress(data) + compressor.flush()


STRATEGIES = [
    (0, zlib.Z_DEFAULT_STRATEGY),
    (1, zlib.Z_DEFAULT_STRATEGY),
    (9, zlib.Z_DEFAULT_STRATEGY),
    (6, zlib.Z_FIXED),
    (6, zlib.Z_RLE),
    (6, zlib.Z_HUFFMAN_ONLY),
]


@pytest.mark.parametrize("shape", [(84, 84, 4), (40, 36, 3), (36, 35, 2), (400, 300, 1), (1, 1, 1)])
def test_filters_and_data_of_other_writers(shape):
    """TensorFlow, which decodes with libpng, gives the same."""
    for seed, (level, strategy) in enumerate(STRATEGIES):
        data = compressed(filtered_rows(shape, seed, 4**seed % 255 + 1), level, strategy)
        file = with_data(shape, data)
        parted = with_data(
            shape, data[:1], b"", data[1:7], data[7:], between=chunk(b"tEXt", b"Title\0a")
        )
        expected = tf.io.decode_png(file)
        for image in (file, parted):
            np.testing.assert_array_equal(png.decode(tf.constant(image), shape), expected)


def test_mutated_files_are_refused_or_decoded_as_zlib_does():
    """A CRC of the mutated data, as nothing would be decompressed otherwise, and its Adler-32."""
    shape, random = (9, 7, 4), np.random.default_rng(0)
    size, num_decoded, num_refused = 9 * (1 + 7 * 4), 0, 0
    for attempt in range(6000):
        level, strategy = STRATEGIES[attempt % len(STRATEGIES)]
        rows = filtered_rows(shape, attempt, int(random.integers(2, 256)))
        raw = bytearray(compressed(rows, level, strategy, wbits=-15))
        for _ in range(random.integers(0, 4)):
            # Most of what a block says about its codes is in front.
            most = len(raw) if random.random() < 0.5 else min(30, len(raw))
            raw[random.integers(most)] ^= 1 << random.integers(8)
        if random.random() < 0.1:
            del raw[random.integers(len(raw)) :]
        reader, data = zlib.decompressobj(-15), b""
        try:
            data = reader.decompress(raw, size + 1)
        except zlib.error:
            pass
        is_whole = reader.eof and len(data) == size and max(data[:: 1 + 7 * 4]) <= 4
        end = len(raw) - len(reader.unused_data)
        body = b"\x78\x01" + raw[:end] + struct.pack(">I", zlib.adler32(data))
        file = with_data(shape, body)
        try:
            image = png.decode(tf.constant(file), shape)
        except tf.errors.InvalidArgumentError:
            assert not is_whole, attempt
            num_refused += 1
        else:
            assert is_whole, attempt
            np.testing.assert_array_equal(image, tf.io.decode_png(file))
            num_decoded += 1
    assert num_decoded > 1500 and num_refused > 1500


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


@pytest.mark.parametrize("shape", [(84, 84, 4), (40, 36, 3), (36, 36, 2), (50, 40, 1)])
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
        (b"", "at least 45 bytes, has 0"),
        (b"no image at all", "at least 45 bytes, has 15"),
        (WHOLE[:2000], "end with the suffix"),
        (WHOLE[:-1], "end with the suffix"),
        (WHOLE + b"\0", "end with the suffix"),
        (b"\0" + WHOLE, "begin with the prefix"),
        (png.encode(noise(1, 36, 40, 4))[0], "begin with the prefix"),
        (png.encode(noise(1, 40, 36, 1))[0], "begin with the prefix"),
    ],
    ids=["empty", "text", "cut", "short", "long", "shifted", "transposed", "channels"],
)
def test_a_memory_refuses_a_damaged_file_and_one_of_another_shape(broken, reason):
    memory = Memory({"frame": png.column(SHAPE)}, 8, {"sample": Fifo()}, "sample")
    encoded = png.encode(noise(4, *SHAPE))
    memory.insert(np.arange(4), {"frame": encoded}, np.ones(4, np.float32))
    before = memory.statistics()
    encoded[2] = broken
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=rf"column frame\[2\] must .*{reason}"
    ) as caught:
        memory.insert(np.arange(10, 14), {"frame": encoded}, np.ones(4, np.float32))
    assert "\n" not in caught.value.message.splitlines()[0]
    assert memory.statistics() == before
    memory.check()


@pytest.mark.parametrize(
    "broken",
    [
        WHOLE[:1000] + bytes(8) + WHOLE[1008:],
        WHOLE[:1000] + WHOLE[1100:],
        png.encode(noise(1, 36, 40, 4))[0],
    ],
    ids=["changed", "shortened", "transposed"],
)
def test_an_image_that_cannot_be_decoded_is_an_error_that_names_its_column(broken):
    encoded = png.encode(noise(4, *SHAPE))
    encoded[2] = broken
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"^observation_t: cannot decode an image of \[40, 36"
    ) as caught:
        png.decode(tf.constant(encoded), SHAPE, "observation_t")
    assert "\n" not in caught.value.message
