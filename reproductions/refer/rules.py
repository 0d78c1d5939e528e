"""Rules of ReF-ER (Novati & Koumoutsakos 2019, section 3; equations numbered as in the paper).

A step of training is an update: the paper's t, which counts environment steps, is F times that.
"""

import tensorflow as tf


def c_max(step: tf.Tensor | int, clipping: float, annealing: float) -> tf.Tensor:
    """Returns c_max = 1 + C / (1 + A t), beyond which a step is far from the policy (eq 13).

    Args:
      step: scalar integer, updates done.
      clipping: C.
      annealing: A, per update.

    Returns:
      float32 scalar above 1.
    """
    return 1.0 + annealed(clipping, step, annealing)


def annealed(rate: float, step: tf.Tensor | int, annealing: float) -> tf.Tensor:
    """Returns eta / (1 + A t), float32 (eq 13); arguments as for `c_max`."""
    return rate / (1.0 + annealing * tf.cast(step, tf.float32))


def near_policy(rho: tf.Tensor, c_max: tf.Tensor | float) -> tf.Tensor:
    """Returns whether steps are near the policy: 1 / c_max < rho < c_max, without the bounds.

    Args:
      rho: [...] floating, importance weights.
      c_max: scalar above 1.

    Returns:
      [...] bool.
    """
    return tf.logical_and(1.0 / c_max < rho, rho < c_max)


def next_beta(
    beta: tf.Tensor, far_fraction: tf.Tensor, tolerance: float, rate: tf.Tensor | float
) -> tf.Tensor:
    """Returns beta after an update (eq 12).

    It moves towards 0, where only the penalty counts, while more than D of the memory is far from
    the policy, and towards 1 otherwise.

    Args:
      beta: floating scalar in [0, 1].
      far_fraction: scalar, the part of the memory's steps that is far from the policy.
      tolerance: D.
      rate: eta, the annealed learning rate.

    Returns:
      Scalar in [0, 1].
    """
    return (1.0 - rate) * beta + rate * tf.cast(far_fraction <= tolerance, beta.dtype)


def mask(rho: tf.Tensor, c_max: tf.Tensor | float, gate: bool) -> tf.Tensor:
    """Returns rule 1 as a factor: 1 near the policy and 0 elsewhere, or 1 everywhere if it is off.

    Args:
      rho: [B] floating, importance weights.
      c_max: scalar above 1.
      gate: whether rule 1 is on.

    Returns:
      [B] in the dtype of `rho`, without a gradient.
    """
    return tf.cast(near_policy(rho, c_max), rho.dtype) if gate else tf.ones_like(rho)
