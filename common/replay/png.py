"""PNG files in memory: images are sent and stored compressed (Ape-X section 4.1).

A stack of four grey frames is one image of four channels. Neighbouring channels are nearly equal
and large areas are flat, so the rows are not filtered. ISA-L compresses them faster than zlib at
its fastest, and into fewer bytes. Any PNG reader can read the files, but `decode` accepts only
files written by `encode`. It also uses ISA-L, and checks every checksum.

TensorFlow is imported only where it is needed, since the launcher encodes images without it.
"""

from __future__ import annotations

from collections.abc import Sequence
import functools
import math
import struct
from typing import TYPE_CHECKING

from isal import isal_zlib
import numpy as np

if TYPE_CHECKING:
    import tensorflow as tf

    from common.replay.columns import Bytes

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_COLOUR_TYPES = {1: 0, 2: 4, 3: 2, 4: 6}
"""Colour types by the number of channels: grey, grey and alpha, RGB, RGB and alpha."""
_COMPRESSION = 1


@functools.cache
def prefix(shape: tuple[int, int, int]) -> bytes:
    """Returns the start of a PNG file of this [height, width, channels]: signature and header.

    The header specifies 8 bits per channel and no interlacing.
    """
    height, width, channels = shape
    header = struct.pack(">IIBBBBB", width, height, 8, _COLOUR_TYPES[channels], 0, 0, 0)
    return _SIGNATURE + _chunk(b"IHDR", header)


@functools.cache
def suffix() -> bytes:
    """Returns the end of every PNG file, the chunk IEND."""
    return _chunk(b"IEND", b"")


def max_bytes(shape: tuple[int, int, int]) -> int:
    """Returns an upper bound on a file's size; compression adds little even to noise."""
    return round(1.125 * math.prod(shape)) + shape[0] + 128


def column(shape: tuple[int, int, int]) -> Bytes:
    """Returns the spec of a replay column of PNG files of this [height, width, channels].

    The memory refuses a file of another shape and a file that is cut off.
    """
    from common.replay.columns import Bytes

    return Bytes(max_bytes(shape), prefix(shape), suffix())


def encode(images: np.ndarray) -> np.ndarray:
    """Returns an object array [K] of PNG files of uint8 [K, height, width, 1 to 4 channels]."""
    count, height, width, channels = images.shape
    rows = np.zeros((height, 1 + width * channels), np.uint8)  # filter type 0: none
    pixels = rows[:, 1:].reshape(height, width, channels)
    begin, end = prefix((height, width, channels)), suffix()
    encoded = np.empty(count, object)
    for index, image in enumerate(images):
        pixels[...] = image
        data = isal_zlib.compress(rows, _COMPRESSION)
        encoded[index] = b"".join((begin, _chunk(b"IDAT", data), end))
    return encoded


def decode(encoded: tf.Tensor, shape: Sequence[int], name: str = "image") -> tf.Tensor:
    """Returns the images, uint8 [..., height, width, channels], of files written by `encode`.

    Args:
      encoded: files of one shape, eager tf.string with any leading dimensions, such as [B], or
        [B, T] for sequences. A background thread decodes what the learner has drawn.
      shape: [height, width, channels].
      name: name of the column, for error messages.

    Raises:
      tf.errors.InvalidArgumentError: a file is damaged, or has another shape or writer.
    """
    import tensorflow as tf

    height, width, channels = shape
    begin, end = prefix(tuple(shape)), suffix()
    files = np.asarray(encoded)
    images = np.empty((files.size, height, width * channels), np.uint8)
    for image, file in zip(images, files.flat):
        data = file[len(begin) + 8 : -len(end) - 4]
        try:
            if file != b"".join((begin, _chunk(b"IDAT", data), end)):
                raise ValueError("its chunks are damaged or from another encoder")
            rows = isal_zlib.decompress(data, bufsize=image.size + height)
            rows = np.frombuffer(rows, np.uint8).reshape(height, 1 + width * channels)
            if rows[:, 0].any():
                raise ValueError("its rows have filters, which are not supported")
        except (ValueError, isal_zlib.error) as error:
            raise tf.errors.InvalidArgumentError(
                None, None, f"{name}: cannot decode an image of {list(shape)}: {error}"
            ) from None
        image[...] = rows[:, 1:]
    return tf.convert_to_tensor(images.reshape(*files.shape, *shape))


def _chunk(name: bytes, data: bytes) -> bytes:
    content = name + data
    return struct.pack(">I", len(data)) + content + struct.pack(">I", isal_zlib.crc32(content))
