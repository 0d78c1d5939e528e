"""Networks for stacked grey frames: DQN's convolutions, and the dueling network on them.

Every layer computes in the dtype of its input, while its variables are float32: images cast to
bfloat16 give a network that computes in bfloat16 up to the layer whose input is cast back.
"""

import sonnet as snt
import tensorflow as tf

from common.networks.atari_shapes import CONVOLUTIONS, STREAM_WIDTH, map_sides


class AtariTorso(snt.Module):
    """DQN's three convolutions (Mnih et al. 2015): uint8 [B, H, W, C] -> features [B, F].

    The images are divided by 255. On 84 x 84 the maps are 20, 9 and 7 on a side and F is 3136.
    """

    def __init__(
        self,
        image_shape: tuple[int, int, int],
        dtype: tf.DType = tf.float32,
        name: str | None = None,
    ):
        """Makes the layers, with their variables.

        Args:
          image_shape: (H, W, C), both sides at least `atari_shapes.MIN_SIDE`.
          dtype: in which it computes and gives its features.
        """
        super().__init__(name=name)
        self._dtype = dtype
        height, width, channels = image_shape
        self.layers = []
        for output_channels, kernel, stride in CONVOLUTIONS:
            self.layers.append(_Convolution(channels, output_channels, kernel, stride))
            channels = output_channels
        self.output_size = map_sides(height)[-1] * map_sides(width)[-1] * channels
        """F."""

    def __call__(self, observation: tf.Tensor) -> tf.Tensor:
        # 1/255 goes into the first filters, which are far fewer than the pixels.
        maps = tf.cast(observation, self._dtype)
        for scale, layer in zip((1 / 255, 1.0, 1.0), self.layers):
            maps = tf.nn.relu(layer(maps, scale))
        return tf.reshape(maps, [-1, self.output_size])


class DuelingNetwork(snt.Module):
    """q(s, a) = V(s) + Adv(s, a) - mean_b Adv(s, b) (Wang et al. 2016; Ape-X eq 8).

    uint8 images [B, H, W, C] -> float32 action values [B, A]. V and Adv are streams of their own
    from the torso on, each with a hidden layer of 512. On 84x84x4 and 18 actions there are
    3,300,019 parameters.

    Weights begin uniform in +-1/sqrt(inputs), as DQN's; biases at 0.
    """

    def __init__(
        self,
        image_shape: tuple[int, int, int],
        num_actions: int,
        rescale_gradient: bool = False,
        dtype: tf.DType = tf.float32,
        name: str | None = None,
    ):
        """Makes the network, with its variables.

        Args:
          rescale_gradient: whether the gradient that enters the torso is divided by sqrt(2), since
            two streams send theirs (Wang et al. 2016).
          dtype: of the convolutions and the hidden layers; float32 or bfloat16. The last layers,
            V, Adv and q are float32.
        """
        super().__init__(name=name)
        self._gradient_scale = 2**-0.5 if rescale_gradient else 1.0
        self.torso = AtariTorso(image_shape, dtype)
        self.value = _Stream(self.torso.output_size, 1)
        self.advantage = _Stream(self.torso.output_size, num_actions)

    def __call__(self, observation: tf.Tensor) -> tf.Tensor:
        features = self.torso(observation)
        if self._gradient_scale != 1:
            kept = self._gradient_scale * features
            features = kept + tf.stop_gradient(features - kept)
        advantage = self.advantage(features)
        return self.value(features) + advantage - tf.reduce_mean(advantage, axis=1, keepdims=True)


class _Stream(snt.Module):
    """A hidden layer and a linear one: features [B, F] -> float32 [B, output_size]."""

    def __init__(self, input_size: int, output_size: int):
        super().__init__()
        self.hidden = _Linear(input_size, STREAM_WIDTH)
        self.output = _Linear(STREAM_WIDTH, output_size)

    def __call__(self, features: tf.Tensor) -> tf.Tensor:
        return self.output(tf.cast(tf.nn.relu(self.hidden(features)), tf.float32))


class _Convolution(snt.Module):
    def __init__(self, input_channels: int, output_channels: int, kernel: int, stride: int):
        super().__init__()
        self._stride = stride
        self.w = _weights([kernel, kernel, input_channels, output_channels])
        self.b = tf.Variable(tf.zeros([output_channels]), name="b")

    def __call__(self, inputs: tf.Tensor, scale: float) -> tf.Tensor:
        """The convolution of `scale * inputs`."""
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
