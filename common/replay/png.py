"""Images as PNG files in memory: smaller to send and to keep (Ape-X section 4.1).

A stack of four grey frames is one image of four channels. Its channels hardly differ and much of
it is flat, so the rows go unfiltered into zlib at its fastest level: on frames of Pong that takes a
quarter of the time of `tf.io.encode_png`, which tries every filter, gives smaller files and decodes
faster. Any PNG reader reads them.
"""

from collections.abc import Callable, Mapping, Sequence
import functools
import math
import struct
import zlib

import numpy as np
import tensorflow as tf

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_COLOUR_TYPES = {1: 0, 2: 4, 3: 2, 4: 6}
"""Of so many channels: grey, grey and alpha, RGB, RGB and alpha."""
_COMPRESSION = 1


class UndecodableImageError(tf.errors.InvalidArgumentError):
    """Stored images that are none, or of another shape; the message is of the first of them.

    column: which they are of. reasons: what each is instead, by its row in the batch.
    """

    def __init__(self, column: str, reasons: Mapping[int, str]):
        row, reason = next(iter(reasons.items()))
        super().__init__(None, None, f"{column} of row {row} {reason}")
        self.column = column
        self.reasons = reasons


def max_bytes(shape: tuple[int, int, int]) -> int:
    """More than any image of this [height, width, channels] takes: zlib adds little to noise."""
    return round(1.125 * math.prod(shape)) + shape[0] + 128


def encode(images: np.ndarray) -> np.ndarray:
    """uint8 [K, height, width, channels], 1 to 4 channels -> an object array [K] of bytes."""
    count, height, width, channels = images.shape
    rows = np.zeros((count, height, 1 + width * channels), np.uint8)  # of filter type 0, none
    rows[:, :, 1:] = images.reshape(count, height, -1)
    begin, end = _begin(height, width, channels), _chunk(b"IEND", b"")
    encoded = np.empty(count, object)
    for index in range(count):
        encoded[index] = begin + _chunk(b"IDAT", zlib.compress(rows[index], _COMPRESSION)) + end
    return encoded


def decode(encoded: tf.Tensor, shape: Sequence[int], name: str = "image") -> tf.Tensor:
    """PNG files of one shape, tf.string [B] -> uint8 [B, height, width, channels].

    Args:
      shape: [height, width, channels] of each.
      name: of the column, for errors.

    Raises:
      UndecodableImageError: names each one that is no image, or of another shape.
    """
    try:
        return _decoder(tuple(shape))(encoded)
    except tf.errors.InvalidArgumentError:
        _check(encoded, list(shape), name)
        raise


@functools.cache
def _decoder(shape: tuple[int, int, int]) -> Callable[[tf.Tensor], tf.Tensor]:
    """Decodes images of this shape, in parallel."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def decode_all(encoded: tf.Tensor) -> tf.Tensor:
        return tf.map_fn(
            lambda image: tf.ensure_shape(tf.io.decode_png(image), shape),
            encoded,
            fn_output_signature=tf.TensorSpec(shape, tf.uint8),
        )

    return decode_all


def _check(encoded: tf.Tensor, shape: list[int], name: str) -> None:
    """Decodes one by one, to find those that cannot be."""
    reasons = {}
    for row, image in enumerate(encoded.numpy()):
        try:
            found = list(tf.io.decode_png(image).shape)
        except tf.errors.InvalidArgumentError:
            reasons[row] = f"is no image: {len(image)} bytes"
        else:
            if found != shape:
                reasons[row] = f"is an image of {found}, must be of {shape}"
    if reasons:
        raise UndecodableImageError(name, reasons)


@functools.cache
def _begin(height: int, width: int, channels: int) -> bytes:
    """What precedes the pixels: 8 bits a channel, no interlacing."""
    header = struct.pack(">IIBBBBB", width, height, 8, _COLOUR_TYPES[channels], 0, 0, 0)
    return _SIGNATURE + _chunk(b"IHDR", header)


def _chunk(name: bytes, data: bytes) -> bytes:
    content = name + data
    return struct.pack(">I", len(data)) + content + struct.pack(">I", zlib.crc32(content))
