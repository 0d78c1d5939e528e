"""Variances of Gaussian policies that all states share: the softplus of free parameters.

Source: ReF-ER (Novati & Koumoutsakos 2019), appendix A.
"""

import math

import numpy as np
import tensorflow as tf

MIN_VARIANCE = 1e-8
"""Below, gradients overflow single precision."""


def variable(variance: float, action_size: int) -> tf.Variable:
    """Returns parameters that give one variance in all directions, a float32 [A] variable."""
    raw = math.log(math.expm1(variance))
    return tf.Variable(tf.fill([action_size], raw), name="raw_variance")


def of_raw(parameters: tf.Tensor | tf.Variable) -> tf.Tensor:
    """Returns the variances that parameters give, at least `MIN_VARIANCE`."""
    return tf.maximum(tf.nn.softplus(parameters), MIN_VARIANCE)


def of_raw_np(parameters: np.ndarray) -> np.ndarray:
    """Returns the same of float32 arrays, for policies that act."""
    return np.maximum(np.logaddexp(np.float32(0), parameters), np.float32(MIN_VARIANCE))
