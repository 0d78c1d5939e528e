"""V-RACER's advantages in closed form (Novati & Koumoutsakos 2019, appendix E).

The network has outputs beside V and m, the coefficients of a function f(s, a) that is largest at m.
The advantage is f less its mean under the policy. Equations are numbered as in the paper.
"""

import numpy as np
import tensorflow as tf

from common.values import closed_form
from reproductions.refer.config import ReferConfig


def num_outputs(kind: str, action_size: int) -> int:
    """Returns the number of a network's outputs that are coefficients of f.

    Args:
      kind: `ReferConfig.advantage`.
      action_size: A.
    """
    return {
        "none": 0,
        "quadratic": action_size * (action_size + 1) // 2,
        "gaussian": 1 + 2 * action_size,
    }[kind]


def advantage(
    config: ReferConfig, outputs: tf.Tensor, action: tf.Tensor, mean: tf.Tensor, variance: tf.Tensor
) -> tf.Tensor:
    """Returns A(s, a), [B] (eqs 18 to 22); zeros without an advantage.

    Gradients flow into `outputs` only: learning A moves neither m nor Sigma. So it is in the
    authors' program; the paper says that the error is minimised in the coefficients.

    Args:
      config: whose `advantage` is meant.
      outputs: [B, C] floating, coefficients of f, C from `num_outputs`.
      action: [B, A].
      mean: [B, A], m.
      variance: [B, A] or [A], the diagonal of Sigma.
    """
    action, mean, variance = map(tf.stop_gradient, (action, mean, variance))
    if config.advantage == "none":
        return tf.zeros_like(mean[:, 0])
    if config.advantage == "quadratic":
        lower = closed_form.lower_triangular(outputs, mean.shape[-1])
        return closed_form.centred_quadratic(action, mean, lower, variance)
    scale = tf.nn.softplus(outputs[:, 0] + config.advantage_scale_bias)
    above, below = tf.split(
        tf.nn.softplus(outputs[:, 1:] + config.advantage_width_bias), 2, axis=-1
    )
    return closed_form.centred_bell(action, mean, scale, above, below, variance)


def advantage_np(
    config: ReferConfig,
    outputs: np.ndarray,
    action: np.ndarray,
    mean: np.ndarray,
    variance: np.ndarray,
) -> np.ndarray:
    """Returns what `advantage` does, in NumPy, to 1e-5."""
    if config.advantage == "none":
        return np.zeros(len(mean), np.float32)
    if config.advantage == "quadratic":
        lower = closed_form.lower_triangular_np(outputs, mean.shape[-1])
        return closed_form.centred_quadratic_np(action, mean, lower, variance)
    scale = _softplus(outputs[:, 0] + np.float32(config.advantage_scale_bias))
    widths = _softplus(outputs[:, 1:] + np.float32(config.advantage_width_bias))
    above, below = np.split(widths, 2, axis=-1)
    return closed_form.centred_bell_np(action, mean, scale, above, below, variance)


def _softplus(x: np.ndarray) -> np.ndarray:
    return np.logaddexp(np.float32(0), x)
