"""Variables that are not weights: moments of observations, and variances of Gaussian policies.

All states share a policy's variances, which are the softplus of free parameters (ReF-ER, Novati &
Koumoutsakos 2019, appendix A).
"""

import math

import numpy as np
import tensorflow as tf

EPSILON = 1e-7
"""Constant that is added to standard deviations (ReF-ER, appendix B). NumPy twins need it too."""


class Standardizer(tf.Module):
    """Standardisation of observations by the mean and standard deviation of each component.

    Source: ReF-ER (Novati & Koumoutsakos 2019), appendix B. The moments are variables, so that
    checkpoints contain them and the learner can publish them. Until they are set, observations are
    only divided by 1 + 1e-7.

    Attributes:
      mean: float32 [D] variable.
      deviation: float32 [D] variable, standard deviations.
    """

    def __init__(self, size: int):
        """Creates the moments: mean 0 and deviation 1 for each of `size` components."""
        super().__init__()
        self.mean = tf.Variable(tf.zeros([size]), trainable=False, name="mean")
        self.deviation = tf.Variable(tf.ones([size]), trainable=False, name="deviation")

    @property
    def variables(self) -> tuple[tf.Variable, ...]:
        """Mean and deviation, in the order in which `StandardizerTwin` loads them."""
        return self.mean, self.deviation

    @property
    def is_set(self) -> bool:
        """True if the moments differ from their initial values, 0 and 1."""
        return bool(tf.reduce_any((self.mean != 0) | (self.deviation != 1)))

    def __call__(self, observation: tf.Tensor) -> tf.Tensor:
        """Returns the standardised observations: [..., D] -> [..., D] float32."""
        return (observation - self.mean) / (self.deviation + EPSILON)

    def set(self, mean: np.ndarray | tf.Tensor, deviation: np.ndarray | tf.Tensor) -> None:
        """Sets the moments, float64 [D]; works in graphs.

        A component without variance keeps its unit: its deviation is set to 1. The same holds for a
        deviation of at most float32's resolution at the mean, which rounding alone can cause.
        """
        resolution = float(np.finfo(np.float32).eps) * tf.abs(mean)
        unit = tf.where(resolution >= deviation, tf.ones_like(deviation), deviation)
        self.mean.assign(tf.cast(mean, tf.float32))
        self.deviation.assign(tf.cast(unit, tf.float32))

    def follow(self, moments: "RunningMoments") -> None:
        """Sets the moments to those of all rows in `moments`; works in graphs."""
        self.set(moments.mean, moments.deviation)


class StandardizerTwin:
    """NumPy twin of a `Standardizer`, equal to it bit for bit.

    Attributes:
      num_parameters: length of the vector that `load` takes.
    """

    def __init__(self, standardizer: Standardizer):
        """Copies the moments."""
        moments = np.concatenate([standardizer.mean.numpy(), standardizer.deviation.numpy()])
        self.num_parameters = moments.size
        self.load(moments)

    def load(self, flat: np.ndarray) -> None:
        """Loads a copy of mean and deviation, float32 [2 D]."""
        self._mean, deviation = np.split(np.array(flat, np.float32), 2)
        self._unit = deviation + np.float32(EPSILON)

    def layers(self) -> list[tuple[str, list[np.ndarray]]]:
        """Returns the standardisation as a layer; see `common.acting.policy.Policy.layers`."""
        return [("standardize", [self._mean, self._unit])]

    def __call__(self, observation: np.ndarray) -> np.ndarray:
        """Returns the standardised observations in a new array: [K, D] -> [K, D] float32."""
        return (observation - self._mean) / self._unit


class RunningMoments(tf.Module):
    """Mean and standard deviation of all rows so far.

    Attributes:
      count: float64 scalar variable, number of rows so far.
      mean: float64 [...] variable.
      square: float64 [...] variable, mean squared distance from the mean.
    """

    def __init__(self, shape: tuple[int, ...]):
        """Creates the moments of no rows yet; `shape` is the shape of a row."""
        super().__init__()
        zeros = tf.zeros(shape, tf.float64)
        self.count = tf.Variable(0.0, dtype=tf.float64, trainable=False, name="count")
        self.mean = tf.Variable(zeros, trainable=False, name="mean")
        self.square = tf.Variable(zeros, trainable=False, name="square")

    @property
    def deviation(self) -> tf.Tensor:
        """The standard deviation, float64 [...]."""
        return tf.sqrt(self.square)

    def update(self, rows: np.ndarray | tf.Tensor) -> None:
        """Adds rows [N, ...], at least one; works in graphs."""
        mean, variance = tf.nn.moments(tf.cast(rows, tf.float64), axes=[0])
        added = tf.cast(tf.shape(rows)[0], tf.float64)
        self.count.assign_add(added)
        share, distance = added / self.count, mean - self.mean
        self.square.assign((1 - share) * (self.square + share * distance**2) + share * variance)
        self.mean.assign_add(share * distance)


MIN_VARIANCE = 1e-8
"""Smallest variance of a policy: below it, gradients overflow single precision."""


def variance_variable(variance: float, action_size: int) -> tf.Variable:
    """Returns a float32 [A] variable whose `variance_of_raw` is `variance` in each dimension."""
    raw = math.log(math.expm1(variance))
    return tf.Variable(tf.fill([action_size], raw), name="raw_variance")


def variance_of_raw(parameters: tf.Tensor | tf.Variable) -> tf.Tensor:
    """Returns the variances softplus(parameters), at least `MIN_VARIANCE`."""
    return tf.maximum(tf.nn.softplus(parameters), MIN_VARIANCE)


def variance_of_raw_np(parameters: np.ndarray) -> np.ndarray:
    """Returns the same as `variance_of_raw` for float32 arrays, for policies that act."""
    return np.maximum(np.logaddexp(np.float32(0), parameters), np.float32(MIN_VARIANCE))
