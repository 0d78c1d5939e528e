"""Networks for images: convolutional torsos, an MLP, an encoder, and dueling networks.

Variables are float32, and each layer computes in the dtype of its input. If images are cast to
bfloat16, the network computes in bfloat16 up to the layer whose input is cast back. The deep
residual network is IMPALA's (Espeholt et al. 2018, figure 3).
"""

from collections.abc import Callable, Mapping, Sequence
import math
from typing import Any, NamedTuple

import sonnet as snt
import tensorflow as tf

from common.environments.spec import EnvironmentSpec
from common.networks.control import ReluMLP


class Sizes(NamedTuple):
    """The sizes of a network for images.

    Attributes:
      convolutions: number of filters, kernel and stride of each layer, without padding.
      hidden: width of the hidden layer, which a dueling network has in each stream.
    """

    convolutions: tuple[tuple[int, int, int], ...]
    hidden: int


SIZES = {
    "atari": Sizes(((32, 8, 4), (64, 4, 2), (64, 3, 1)), 512),
    "minatar": Sizes(((16, 3, 1),), 128),
}
"""Sizes of DQN (Mnih et al. 2015, Wang et al. 2016), and of MinAtar's network for its own games
(Young and Tian 2019)."""


class ImageTorso(snt.Module):
    """Convolutions, each with an activation: uint8 [B, H, W, C] -> features [B, F].

    The images are divided by 255. With DQN's sizes and 84 x 84 pixels, the maps have sides of 20, 9
    and 7, and F is 3136.

    Attributes:
      output_size: F.
    """

    def __init__(
        self,
        image_shape: tuple[int, int, int],
        convolutions: Sequence[tuple[int, int, int]],
        dtype: tf.DType = tf.float32,
        activation: Callable[[tf.Tensor], tf.Tensor] = tf.nn.relu,
    ):
        """Creates the layers and their variables.

        Args:
          image_shape: (H, W, C); see `common.environments.spec` for the smallest.
          convolutions: see `Sizes`.
          dtype: dtype of the computation and of the features.
          activation: activation of each layer, applied along the last axis. It may change the
            number of channels, as `tf.nn.crelu` does by doubling it.
        """
        super().__init__()
        self._dtype = dtype
        self._activation = activation
        height, width, channels = image_shape
        self.layers = []
        for filters, kernel, stride in convolutions:
            self.layers.append(_Convolution(channels, filters, kernel, stride))
            channels = activation(tf.zeros([1, filters])).shape[-1]
            height, width = (height - kernel) // stride + 1, (width - kernel) // stride + 1
        self.output_size = height * width * channels

    def __call__(self, observation: tf.Tensor) -> tf.Tensor:
        """Returns the features [B, F] of uint8 images [B, H, W, C]."""
        # Scales the first filters by 1/255 instead of the pixels, which are far more.
        maps = tf.cast(observation, self._dtype)
        for index, layer in enumerate(self.layers):
            maps = self._activation(layer(maps, 1.0 if index else 1 / 255))
        return tf.reshape(maps, [-1, self.output_size])


class VectorTorso(snt.Module):
    """Torso for images with vectors in their last rows: uint8 [B, H', W, C] -> features [B, F].

    Attributes:
      output_size: F.
    """

    def __init__(self, torso: "ImageTorso | ResidualTorso", spec: EnvironmentSpec):
        """Appends the vectors to the features of a torso for images of `spec.picture_shape`."""
        super().__init__()
        assert spec.picture_shape is not None
        self._torso = torso
        self._height, self._size = spec.picture_shape[0], spec.vector_size
        self._row_bytes = spec.observation_size - math.prod(spec.picture_shape)
        self.output_size = torso.output_size + spec.vector_size

    def __call__(self, observation: tf.Tensor) -> tf.Tensor:
        """Returns the features [B, F] of images whose last rows are the bytes of the vectors."""
        features = self._torso(observation[:, : self._height])
        rows = tf.reshape(observation[:, self._height :], [-1, self._row_bytes])
        numbers = tf.reshape(rows[:, : 4 * self._size], [-1, self._size, 4])
        vector = tf.cast(tf.bitcast(numbers, tf.float32), features.dtype)
        return tf.concat([features, vector], axis=-1)


def with_vector(
    torso: "ImageTorso | ResidualTorso", spec: EnvironmentSpec
) -> "ImageTorso | ResidualTorso | VectorTorso":
    """Returns a torso for images of `spec.picture_shape`, extended to their vectors, if any."""
    return VectorTorso(torso, spec) if spec.vector_size else torso


class ImageEncoder(snt.Module):
    """Convolutions and a layer with LayerNorm and tanh: uint8 [B, H, W, C] -> features [B, F].

    Source: the encoder of SAC-AE (Yarats et al. 2021, appendix B). The features replace a flat
    observation. They are few, so that an action joined to them is not lost among thousands of map
    elements.

    Attributes:
      output_size: F.
    """

    def __init__(
        self, spec: EnvironmentSpec, convolutions: Sequence[tuple[int, int, int]], output_size: int
    ):
        """Creates the layers and their variables; `convolutions` as for `ImageTorso`."""
        super().__init__()
        self.output_size = output_size
        self._torso = with_vector(ImageTorso(spec.picture_shape, convolutions), spec)
        self._linear = snt.Linear(output_size)
        self._norm = snt.LayerNorm(axis=-1, create_scale=True, create_offset=True)
        self(tf.zeros([1, *spec.observation_shape], tf.uint8))

    def __call__(self, observation: tf.Tensor) -> tf.Tensor:
        """Returns the features [B, F], in (-1, 1), of uint8 images [B, H, W, C]."""
        return tf.tanh(self._norm(self._linear(self._torso(observation))))


def make_torso(
    config: Any, spec: EnvironmentSpec, sizes: Mapping[str, Sizes], **options: Any
) -> tuple[ImageTorso | VectorTorso | ReluMLP, int]:
    """Builds the torso below an agent's hidden layer; returns it and the width of that layer.

    Args:
      config: hyperparameters. `torso` names the sizes. If it is "mlp", for flat observations,
        `mlp_sizes` are the widths of the torso's layers and, last, of the hidden layer.
      spec: the environment's spec.
      sizes: sizes of networks for images, by name.
      options: keyword arguments of the `ImageTorso`.
    """
    if config.torso == "mlp":
        *below, hidden = config.mlp_sizes
        return ReluMLP(spec.observation_size, below), hidden
    chosen = sizes[config.torso]
    torso = ImageTorso(spec.picture_shape, chosen.convolutions, **options)
    return with_vector(torso, spec), chosen.hidden


class DuelingNetwork(snt.Module):
    """q(s, a) = V(s) + Adv(s, a) - mean_b Adv(s, b) (Wang et al. 2016; Ape-X eq 8).

    Observations [B, ...] -> float32 action values [B, A]. V and Adv are separate streams above
    the torso, each with a hidden layer. With DQN's sizes, images of 84x84x4 and 18 actions, there
    are 3,300,019 parameters.

    Initial weights are uniform in +-1/sqrt(inputs), as in DQN; initial biases are 0.
    """

    def __init__(
        self,
        torso: ImageTorso | VectorTorso | ReluMLP,
        hidden: int,
        num_actions: int,
        rescale_gradient: bool = False,
    ):
        """Creates the streams and their variables.

        Args:
          torso: observations [B, ...] -> features [B, F]. The hidden layers compute in the dtype of
            the features, float32 or bfloat16; the last layers, V, Adv and q are float32.
          hidden: width of the hidden layer of each stream.
          num_actions: A.
          rescale_gradient: whether to divide the gradient that enters the torso by sqrt(2), because
            it comes from two streams (Wang et al. 2016).
        """
        super().__init__()
        self._gradient_scale = 2**-0.5 if rescale_gradient else 1.0
        self.torso = torso
        self.value = _Stream(torso.output_size, hidden, 1)
        self.advantage = _Stream(torso.output_size, hidden, num_actions)

    def __call__(self, observation: tf.Tensor) -> tf.Tensor:
        """Returns the action values [B, A] of observations [B, ...]."""
        features = self.torso(observation)
        if self._gradient_scale != 1:
            kept = self._gradient_scale * features
            features = kept + tf.stop_gradient(features - kept)
        advantage = self.advantage(features)
        return self.value(features) + advantage - tf.reduce_mean(advantage, axis=1, keepdims=True)


class _Stream(snt.Module):
    """A hidden layer and a linear layer: features [B, F] -> float32 [B, output_size]."""

    def __init__(self, input_size: int, hidden: int, output_size: int):
        super().__init__()
        self.hidden = _Linear(input_size, hidden)
        self.output = _Linear(hidden, output_size)

    def __call__(self, features: tf.Tensor) -> tf.Tensor:
        return self.output(tf.cast(tf.nn.relu(self.hidden(features)), tf.float32))


class _Convolution(snt.Module):
    def __init__(self, input_channels: int, output_channels: int, kernel: int, stride: int):
        super().__init__()
        self._stride = stride
        self.w = _weights([kernel, kernel, input_channels, output_channels])
        self.b = tf.Variable(tf.zeros([output_channels]), name="b")

    def __call__(self, inputs: tf.Tensor, scale: float) -> tf.Tensor:
        """Returns the convolution of `scale * inputs`."""
        w = tf.cast(scale * self.w, inputs.dtype)
        outputs = tf.nn.conv2d(inputs, w, self._stride, "VALID")
        return tf.nn.bias_add(outputs, tf.cast(self.b, inputs.dtype))


class _Linear(snt.Module):
    def __init__(self, input_size: int, output_size: int):
        super().__init__()
        self.w = _weights([input_size, output_size])
        self.b = tf.Variable(tf.zeros([output_size]), name="b")

    def __call__(self, inputs: tf.Tensor) -> tf.Tensor:
        outputs = tf.matmul(inputs, tf.cast(self.w, inputs.dtype))
        return tf.nn.bias_add(outputs, tf.cast(self.b, inputs.dtype))


def _weights(shape: list[int]) -> tf.Variable:
    initializer = snt.initializers.VarianceScaling(1 / 3, mode="fan_in", distribution="uniform")
    return tf.Variable(initializer(shape, tf.float32), name="w")


_BLOCKS = 2  # residual blocks in a section


class ResidualTorso(snt.Module):
    """Sections of a convolution, max pooling and residual blocks: uint8 [B, H, W, C] -> [B, F].

    Each section halves the sides of its maps, rounding up. After three sections 84 x 84 pixels are
    11 x 11, and F is 3872 with 32 channels. Images are divided by 255. Initialisers are Sonnet's.

    Attributes:
      output_size: F.
    """

    def __init__(self, image_shape: tuple[int, int, int], channels: Sequence[int] = (16, 32, 32)):
        """Creates the layers and their variables.

        Args:
          image_shape: (H, W, C).
          channels: number of channels in each section.
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
        self._first = _SameConvolution(channels)
        self._blocks = [
            (_SameConvolution(channels), _SameConvolution(channels)) for _ in range(_BLOCKS)
        ]

    def __call__(self, maps: tf.Tensor) -> tf.Tensor:
        maps = tf.nn.max_pool2d(self._first(maps), 3, 2, "SAME")
        for first, second in self._blocks:
            maps += second(tf.nn.relu(first(tf.nn.relu(maps))))
        return maps


class _SameConvolution(snt.Module):
    """3 x 3 convolution whose outputs have the size of its inputs.

    The bias is added without a `BiasAdd`: TensorFlow's graph optimiser fails to fuse a `BiasAdd`
    with the sum of a block, and logs an error.
    """

    def __init__(self, channels: int):
        super().__init__()
        self._layer = snt.Conv2D(channels, 3, with_bias=False)
        self._b = tf.Variable(tf.zeros([channels]), name="b")

    def __call__(self, maps: tf.Tensor) -> tf.Tensor:
        return self._layer(maps) + self._b
