"""NumPy twins of `common.values.gaussian_mixture`, for the actors' initial priorities."""

from typing import NamedTuple

import numpy as np

from common.values import categorical_np

_LOG_2_PI = np.log(2 * np.pi)


class Mixture(NamedTuple):
    """B mixtures of C Gaussians.

    Attributes:
      weights: [B, C], omega; each row sums to 1.
      means: [B, C], mu.
      stds: [B, C], standard deviations sigma.
    """

    weights: np.ndarray
    means: np.ndarray
    stds: np.ndarray


def mixture(outputs: np.ndarray, min_variance: float) -> Mixture:
    """Returns the distributions that a linear layer's outputs [B, 3 C] parameterise (eq 17)."""
    logits, means, raw_variances = np.split(outputs, 3, axis=-1)
    variances = np.logaddexp(0, raw_variances) + min_variance
    return Mixture(categorical_np.softmax(logits), means, np.sqrt(variances))


def sample(distributions: Mixture, num_samples: int, generator: np.random.Generator) -> np.ndarray:
    """Draws [B, num_samples] samples, a row from each distribution."""
    num_rows, num_components = distributions.weights.shape
    thresholds = np.cumsum(distributions.weights, axis=-1)[:, np.newaxis, :-1]
    uniform = generator.random((num_rows, num_samples, 1))
    chosen = np.sum(uniform > thresholds, axis=-1)
    means, stds = (np.take_along_axis(values, chosen, axis=-1) for values in distributions[1:])
    return means + stds * generator.standard_normal((num_rows, num_samples))


def sampled_cross_entropy(distributions: Mixture, samples: np.ndarray) -> np.ndarray:
    """Returns -1/J sum_j log p(z_j) (D4PG, appendix A): B mixtures, samples [B, J] -> [B]."""
    weights, means, stds = (values[:, np.newaxis] for values in distributions)  # [B, 1, C]
    deviations = (samples[:, :, np.newaxis] - means) / stds
    log_densities = np.log(weights) - np.log(stds) - 0.5 * (deviations**2 + _LOG_2_PI)
    return -np.mean(np.logaddexp.reduce(log_densities, axis=-1), axis=-1)
