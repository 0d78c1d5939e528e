"""Standardisation of observations by fixed moments."""

import numpy as np
import tensorflow as tf

EPSILON = 1e-7
"""Added to deviations (ReF-ER, appendix B). NumPy twins need it too."""


class Standardizer(tf.Module):
    """Observations less their mean, in units of their standard deviation, by component.

    Source: ReF-ER (Novati & Koumoutsakos 2019), appendix B. The moments are variables, so that a
    checkpoint has them and the learner can publish them. Until they are set, they change nothing
    but the division by 1 + 1e-7.

    Attributes:
      mean: float32 [D] variable.
      deviation: float32 [D] variable, standard deviations.
    """

    def __init__(self, size: int):
        """Makes the moments: 0 and 1 for each of `size` components."""
        super().__init__()
        self.mean = tf.Variable(tf.zeros([size]), trainable=False, name="mean")
        self.deviation = tf.Variable(tf.ones([size]), trainable=False, name="deviation")

    def __call__(self, observation: tf.Tensor) -> tf.Tensor:
        """Returns standardised observations: [..., D] -> [..., D] float32."""
        return (observation - self.mean) / (self.deviation + EPSILON)

    def set(self, mean: np.ndarray, deviation: np.ndarray) -> None:
        """Sets the moments.

        A component without variance keeps its unit: its deviation becomes 1. So does one whose
        deviation is below the resolution of float32 at its mean, since rounding alone gives that.

        Args:
          mean: [D] floating.
          deviation: [D], at least 0.

        Raises:
          ValueError: a shape is wrong, or a moment is not finite.
        """
        mean, deviation = np.asarray(mean, np.float64), np.asarray(deviation, np.float64)
        for name, values in (("mean", mean), ("standard deviation", deviation)):
            if values.shape != tuple(self.mean.shape):
                raise ValueError(
                    f"The observations' {name} must have shape {tuple(self.mean.shape)}, got "
                    f"{values.shape}."
                )
            if not np.isfinite(values).all():
                raise ValueError(f"The observations' {name} must be finite, got {values}.")
        constant = deviation <= np.finfo(np.float32).eps * np.abs(mean)
        self.mean.assign(mean.astype(np.float32))
        self.deviation.assign(np.where(constant, 1.0, deviation).astype(np.float32))
