"""The shapes of the networks in `common.networks.atari`, without TensorFlow: the launcher asks."""

import math

CONVOLUTIONS = ((32, 8, 4), (64, 4, 2), (64, 3, 1))
"""Channels, kernel, stride, without padding (Mnih et al. 2015)."""
STREAM_WIDTH = 512
"""Of the hidden layer of each stream of a dueling network (Wang et al. 2016)."""
MIN_SIDE = 36
"""Of an image: of a smaller one nothing is left for the last convolution."""


def map_sides(side: int) -> list[int]:
    """Sides of the feature maps of an image with sides of this length."""
    sides = []
    for _, kernel, stride in CONVOLUTIONS:
        side = (side - kernel) // stride + 1
        sides.append(side)
    return sides


def dueling_parameters(image_shape: tuple[int, int, int], num_actions: int) -> int:
    """Numbers in a `DuelingNetwork`: 3,300,019 for 84 x 84 x 4 and 18 actions."""
    height, width, channels = image_shape
    total = 0
    for output_channels, kernel, _ in CONVOLUTIONS:
        total += (kernel * kernel * channels + 1) * output_channels
        channels = output_channels
    features = math.prod(map_sides(side)[-1] for side in (height, width)) * channels
    hidden = (features + 1) * STREAM_WIDTH
    return total + 2 * hidden + (STREAM_WIDTH + 1) * (1 + num_actions)
