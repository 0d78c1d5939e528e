"""The deep residual network of IMPALA for images (Espeholt et al. 2018, figure 3)."""

from collections.abc import Sequence

import sonnet as snt
import tensorflow as tf

_BLOCKS = 2  # of a section


class ResidualTorso(snt.Module):
    """Sections of a convolution, a pooling and residual blocks: uint8 [B, H, W, C] -> [B, F].

    Each section halves the sides of its maps, rounding up: 84 x 84 pixels become 11 x 11 after
    three, and F is 3872 with 32 channels. The images are divided by 255. Initialisers are Sonnet's.

    Attributes:
      output_size: F.
    """

    def __init__(self, image_shape: tuple[int, int, int], channels: Sequence[int] = (16, 32, 32)):
        """Makes the layers and their variables.

        Args:
          image_shape: (H, W, C).
          channels: of each section.
        """
        super().__init__()
        self._sections = [_Section(count) for count in channels]
        self.output_size = self(tf.zeros([1, *image_shape], tf.uint8)).shape[-1]

    def __call__(self, images: tf.Tensor) -> tf.Tensor:
        """Returns the features [B, F] of uint8 images [B, H, W, C]."""
        maps = tf.cast(images, tf.float32) / 255
        for section in self._sections:
            maps = section(maps)
        return snt.flatten(tf.nn.relu(maps))


class _Section(snt.Module):
    def __init__(self, channels: int):
        super().__init__()
        self._first = _Convolution(channels)
        self._blocks = [(_Convolution(channels), _Convolution(channels)) for _ in range(_BLOCKS)]

    def __call__(self, maps: tf.Tensor) -> tf.Tensor:
        maps = tf.nn.max_pool2d(self._first(maps), 3, 2, "SAME")
        for first, second in self._blocks:
            maps += second(tf.nn.relu(first(tf.nn.relu(maps))))
        return maps


class _Convolution(snt.Module):
    """Convolution of 3 x 3.

    Its bias is no `BiasAdd`, which TensorFlow's optimiser of graphs fails to fuse with the sum of a
    block, with an error in the log.
    """

    def __init__(self, channels: int):
        super().__init__()
        self._layer = snt.Conv2D(channels, 3, with_bias=False)
        self._b = tf.Variable(tf.zeros([channels]), name="b")

    def __call__(self, maps: tf.Tensor) -> tf.Tensor:
        return self._layer(maps) + self._b
