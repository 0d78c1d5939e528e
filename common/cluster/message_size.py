"""The bytes that the arguments of a call take in a message of TensorFlow's RPC.

A message holds 4 MiB. float32 and strings travel as they are in memory, integers as varints: a
uint8 from 128 takes two bytes, a negative int32 ten. Bulk uint8 is twelve times slower than the
same bytes as a string or bitcast to float32.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from common.cluster.errors import MessageTooLargeError

# TensorFlow keeps gRPC's default limit of 4 MiB a message; 64 KiB are for headers and credentials.
MAX_ARGUMENT_BYTES = 4 * 2**20 - 2**16
_VARINT_DTYPES = frozenset(
    (
        tf.uint8,
        tf.int8,
        tf.uint16,
        tf.int16,
        tf.uint32,
        tf.int32,
        tf.uint64,
        tf.int64,
        tf.bfloat16,
        tf.half,
    )
)
_MAX_VARINT_BYTES = 10


def size_of(tensors: Sequence[tf.Tensor]) -> int:
    """Returns the bytes that arguments take in a message; if they fit, an upper bound of them."""
    size = sum(_bound_on_size(tensor) for tensor in tensors)
    if size > MAX_ARGUMENT_BYTES:
        size = sum(exact_size(tensor) for tensor in tensors)
    return size


def require(method: str, address: str, tensors: Sequence[tf.Tensor]) -> None:
    """Raises MessageTooLargeError if the arguments of a call to an address fit no message."""
    size = size_of(tensors)
    if size > MAX_ARGUMENT_BYTES:
        raise MessageTooLargeError(
            f"the arguments of {method!r} for {address} take {size} bytes, but a message holds "
            f"{MAX_ARGUMENT_BYTES}: send them in several calls"
        )


def _bound_on_size(tensor: tf.Tensor) -> int:
    """Returns an upper bound on a tensor's bytes; 0 if its shape is known only at run time."""
    if tensor.dtype == tf.string:
        return exact_size(tensor)
    elements = tensor.shape.num_elements() or 0
    return elements * (_MAX_VARINT_BYTES if tensor.dtype in _VARINT_DTYPES else tensor.dtype.size)


def exact_size(tensor: tf.Tensor) -> int:
    """Returns the bytes of a tensor; of a symbolic one those of its known shape in memory."""
    if not hasattr(tensor, "numpy"):  # symbolic
        return (tensor.shape.num_elements() or 0) * max(1, tensor.dtype.size)
    values = tensor.numpy()
    if tensor.dtype == tf.string:
        return sum(len(value) + 6 for value in np.ravel(values))  # 6: tag and length
    if tensor.dtype not in _VARINT_DTYPES:
        return values.nbytes
    if tensor.dtype in (tf.bfloat16, tf.half):
        values = values.view(np.uint16)
    unsigned = values.astype(np.int64).view(np.uint64)
    return (
        sum(int(np.count_nonzero(unsigned >= np.uint64(1 << shift))) for shift in range(7, 64, 7))
        + values.size
    )
