"""Value distributions as mixtures of Gaussians (TensorFlow).

Source: D4PG (Barth-Maron et al. 2018), appendices A and C. Equation numbers are those of
reproductions/d4pg/README.md. C is the number of components (l in the paper).
"""

import tensorflow as tf
import tensorflow_probability as tfp

tfd = tfp.distributions


def mixture(outputs: tf.Tensor, min_variance: float) -> tfp.distributions.MixtureSameFamily:
    """The distribution that a linear layer's outputs stand for (eq 17).

    p(z) = sum_i omega_i N(z | mu_i, sigma_i^2) with omega the softmax of the first third of the
    outputs, mu the second, and sigma^2 = softplus of the last + `min_variance`. The paper says that
    the layer gives all three, not how it keeps variances positive.

    Args:
        outputs: [B, 3 C] floating.
        min_variance: above 0, in squared units of return.

    Returns:
        A batch of B distributions of scalars.
    """
    logits, means, raw_variances = tf.split(outputs, 3, axis=-1)
    variances = tf.nn.softplus(raw_variances) + min_variance
    return tfd.MixtureSameFamily(
        tfd.Categorical(logits=logits), tfd.Normal(means, tf.sqrt(variances))
    )


def sample(
    distribution: tfp.distributions.MixtureSameFamily, num_samples: int, seed: tf.Tensor
) -> tf.Tensor:
    """Draws z_j from each distribution.

    The same seed, [2] int32, gives the same samples, but others under XLA than without it.

    Returns:
        [B, num_samples], without gradient.
    """
    samples = tf.transpose(distribution.sample(num_samples, seed=seed))
    return tf.stop_gradient(samples)


def sampled_cross_entropy(
    distribution: tfp.distributions.MixtureSameFamily, samples: tf.Tensor
) -> tf.Tensor:
    """-1/J sum_j log p(z_j), z_j from the target: cross-entropy by samples (D4PG, appendix A).

    That of densities: below 0 where the target is narrow and well met.

    Args:
        distribution: B of them.
        samples: [B, J]; no gradient flows into them.

    Returns:
        [B].
    """
    samples = tf.stop_gradient(samples)
    log_likelihoods = distribution.log_prob(tf.transpose(samples))  # [J, B]
    return -tf.reduce_mean(log_likelihoods, axis=0)


def mean(outputs: tf.Tensor) -> tf.Tensor:
    """Expected values sum_i omega_i mu_i of a layer's outputs [B, 3 C], [B] (eq 7)."""
    logits, means, _ = tf.split(outputs, 3, axis=-1)
    return tf.reduce_sum(tf.nn.softmax(logits) * means, axis=-1)
