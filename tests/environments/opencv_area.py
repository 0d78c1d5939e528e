"""`cv2.resize(..., interpolation=cv2.INTER_AREA)` for grey pictures that shrink, in NumPy.

The environment of the tests has no OpenCV, and gymnasium's AtariPreprocessing needs this one
function of it. Bit for bit OpenCV's (modules/imgproc/src/resize.cpp, computeResizeAreaTab): each
target pixel is the mean of the area that it covers, summed in float32 row by row, rounded to even.
"""

import numpy as np

INTER_AREA = 3


def resize(picture, size, interpolation):
    """Returns uint8 [H, W] shrunk to uint8 [height, width]; `size` is (width, height)."""
    assert interpolation == INTER_AREA and picture.dtype == np.uint8
    width, height = size
    shrunk = np.zeros((picture.shape[0], width), np.float32)
    for target, source, weight in _weights(picture.shape[1], width):
        shrunk[:, target] += picture[:, source].astype(np.float32) * weight
    result = np.zeros((height, width), np.float32)
    for target, source, weight in _weights(picture.shape[0], height):
        result[target] += shrunk[source] * weight
    return np.rint(result).astype(np.uint8)


def _weights(length, target_length):
    """Returns (target index, source index, share of the target's area), in OpenCV's order."""
    scale = length / target_length
    for target in range(target_length):
        begin, end = target * scale, (target + 1) * scale
        cell = min(scale, length - begin)
        first, last = int(np.ceil(begin)), min(int(np.floor(end)), length - 1)
        first = min(first, last)
        if first - begin > 1e-3:
            yield target, first - 1, np.float32((first - begin) / cell)
        for source in range(first, last):
            yield target, source, np.float32(1.0 / cell)
        if end - last > 1e-3:
            yield target, last, np.float32(min(min(end - last, 1.0), cell) / cell)
