"""Gaussian policies with diagonal covariance, and value distributions that are Gaussian mixtures.

Sources: ReF-ER (Novati & Koumoutsakos 2019) and, for the mixtures, D4PG (Barth-Maron et al. 2018),
appendices A and C. D4PG's equation numbers follow reproductions/d4pg/README.md. C is the number of
components of a mixture (l in the paper).
"""

from typing import TYPE_CHECKING

import tensorflow as tf

if TYPE_CHECKING:
    from tensorflow_probability import distributions as tfd

LOG_BOUND = 7.0
"""Bound on |log rho|, as in the program of ReF-ER's authors: e^7 is 1,097."""


def importance_weight(
    action: tf.Tensor,
    mean: tf.Tensor,
    variance: tf.Tensor,
    behaviour_mean: tf.Tensor,
    behaviour_variance: tf.Tensor,
    log_bound: float = LOG_BOUND,
) -> tf.Tensor:
    """Returns rho = pi(a|s) / mu(a|s), bounded by e^-log_bound and e^log_bound.

    Source: ReF-ER (Novati & Koumoutsakos 2019), sections 1 and 3. The densities are those of plain
    Gaussians even if actions were drawn from truncated Gaussians. Truncation multiplies both
    densities by the same constant, and a policy that has moved would give an action beyond its
    bounds a density of 0.

    The gradient is rho grad log pi(a|s), even at the bounds, where the gradient of a clipped value
    would be 0. A step at a bound thus has a bounded weight, not a weight of 0.

    Args:
      action: [B, A] floating.
      mean: [B, A], mean of pi.
      variance: [B, A] or [A], the diagonal of pi's covariance, above 0.
      behaviour_mean: [B, A], mean of mu.
      behaviour_variance: [B, A] or [A], the diagonal of mu's covariance, above 0.
      log_bound: bound of |log rho|.

    Returns:
      [B].
    """
    ratio = _log_kernel(action, mean, variance) - _log_kernel(
        action, behaviour_mean, behaviour_variance
    )
    log_weight = tf.reduce_sum(ratio, axis=-1)
    fixed = tf.stop_gradient(log_weight)
    return tf.exp(tf.clip_by_value(fixed, -log_bound, log_bound) + (log_weight - fixed))


def kl_divergence(
    mean_p: tf.Tensor, variance_p: tf.Tensor, mean_q: tf.Tensor, variance_q: tf.Tensor
) -> tf.Tensor:
    """Returns D_KL(p || q) = E_p[log p - log q] in nats.

    Args:
      mean_p: [B, A] floating, mean of p.
      variance_p: [B, A] or [A], the diagonal of p's covariance, above 0.
      mean_q: [B, A], mean of q.
      variance_q: [B, A] or [A], the diagonal of q's covariance, above 0.

    Returns:
      [B].
    """
    ratio = variance_p / variance_q
    distance = tf.square(mean_p - mean_q) / variance_q
    return 0.5 * tf.reduce_sum(distance + (ratio - 1.0 - tf.math.log(ratio)), axis=-1)


def _log_kernel(action: tf.Tensor, mean: tf.Tensor, variance: tf.Tensor) -> tf.Tensor:
    """Returns each dimension's log density without the constant log sqrt(2 pi): [B, A]."""
    return -0.5 * (tf.square(action - mean) / variance + tf.math.log(variance))


def mixture(outputs: tf.Tensor, min_variance: float) -> "tfd.MixtureSameFamily":
    """Returns the distributions that a linear layer's outputs parameterise (eq 17).

    p(z) = sum_i omega_i N(z | mu_i, sigma_i^2), where omega is the softmax of the first third of
    the outputs, mu the second third, and sigma^2 = softplus(last third) + `min_variance`. The paper
    says that the layer outputs all three, but not how its variances stay positive.

    Args:
      outputs: [B, 3 C] floating.
      min_variance: minimum variance of a component, above 0, in squared units of return.

    Returns:
      A batch of B distributions of scalars.
    """
    # The import costs 1 s and 61 MB, so only agents with a mixture pay for it.
    from tensorflow_probability import distributions as tfd

    logits, means, raw_variances = tf.split(outputs, 3, axis=-1)
    variances = tf.nn.softplus(raw_variances) + min_variance
    return tfd.MixtureSameFamily(
        tfd.Categorical(logits=logits), tfd.Normal(means, tf.sqrt(variances))
    )


def sample_mixture(
    distribution: "tfd.MixtureSameFamily", num_samples: int, seed: tf.Tensor
) -> tf.Tensor:
    """Draws samples z_j from each distribution.

    Args:
      distribution: a batch of B distributions.
      num_samples: J, samples of each distribution.
      seed: [2] int32. Samples repeat with the seed, but differ with and without XLA.

    Returns:
      [B, J], without a gradient.
    """
    samples = tf.transpose(distribution.sample(num_samples, seed=seed))
    return tf.stop_gradient(samples)


def sampled_cross_entropy(distribution: "tfd.MixtureSameFamily", samples: tf.Tensor) -> tf.Tensor:
    """Returns -1/J sum_j log p(z_j), the cross-entropy estimated from samples (D4PG, appendix A).

    Because p is a density, the result is negative where p is narrow and fits the samples.

    Args:
      distribution: a batch of B distributions, p.
      samples: [B, J], z_j drawn from the target; no gradient flows into them.

    Returns:
      [B].
    """
    samples = tf.stop_gradient(samples)
    log_likelihoods = distribution.log_prob(tf.transpose(samples))  # [J, B]
    return -tf.reduce_mean(log_likelihoods, axis=0)


def mixture_mean(outputs: tf.Tensor) -> tf.Tensor:
    """Returns the expected values sum_i omega_i mu_i (eq 7): outputs [B, 3 C] -> [B]."""
    logits, means, _ = tf.split(outputs, 3, axis=-1)
    return tf.reduce_sum(tf.nn.softmax(logits) * means, axis=-1)
