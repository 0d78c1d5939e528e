"""Value distributions as mixtures of Gaussians.

Source: D4PG (Barth-Maron et al. 2018), appendices A and C. Equation numbers follow
reproductions/d4pg/README.md. C is the number of components (l in the paper).
"""

from typing import TYPE_CHECKING

import tensorflow as tf

if TYPE_CHECKING:
    from tensorflow_probability import distributions as tfd


def mixture(outputs: tf.Tensor, min_variance: float) -> "tfd.MixtureSameFamily":
    """Returns the distributions that a linear layer's outputs parameterise (eq 17).

    p(z) = sum_i omega_i N(z | mu_i, sigma_i^2), where omega is the softmax of the first third of
    the outputs, mu the second third, and sigma^2 = softplus(last third) + `min_variance`. The paper
    says that the layer gives all three, but not how its variances stay positive.

    Args:
      outputs: [B, 3 C] floating.
      min_variance: above 0, in squared units of return.

    Returns:
      A batch of B distributions of scalars.
    """
    # 1 s and 61 MB: only agents that have a mixture pay them.
    from tensorflow_probability import distributions as tfd

    logits, means, raw_variances = tf.split(outputs, 3, axis=-1)
    variances = tf.nn.softplus(raw_variances) + min_variance
    return tfd.MixtureSameFamily(
        tfd.Categorical(logits=logits), tfd.Normal(means, tf.sqrt(variances))
    )


def sample(distribution: "tfd.MixtureSameFamily", num_samples: int, seed: tf.Tensor) -> tf.Tensor:
    """Draws samples z_j from each distribution.

    Args:
      distribution: a batch of B distributions.
      num_samples: J, samples of each distribution.
      seed: [2] int32. Samples repeat with the seed, but differ between runs with and without XLA.

    Returns:
      [B, J], without a gradient.
    """
    samples = tf.transpose(distribution.sample(num_samples, seed=seed))
    return tf.stop_gradient(samples)


def sampled_cross_entropy(distribution: "tfd.MixtureSameFamily", samples: tf.Tensor) -> tf.Tensor:
    """Returns -1/J sum_j log p(z_j), the cross-entropy estimated from samples (D4PG, appendix A).

    Because p is a density, the result is below 0 where p is narrow and fits the samples.

    Args:
      distribution: a batch of B distributions, p.
      samples: [B, J], z_j drawn from the target; no gradient flows into them.

    Returns:
      [B].
    """
    samples = tf.stop_gradient(samples)
    log_likelihoods = distribution.log_prob(tf.transpose(samples))  # [J, B]
    return -tf.reduce_mean(log_likelihoods, axis=0)


def mean(outputs: tf.Tensor) -> tf.Tensor:
    """Returns the expected values sum_i omega_i mu_i (eq 7): outputs [B, 3 C] -> [B]."""
    logits, means, _ = tf.split(outputs, 3, axis=-1)
    return tf.reduce_sum(tf.nn.softmax(logits) * means, axis=-1)
