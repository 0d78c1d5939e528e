"""Surrogate losses of proximal policy optimisation (TensorFlow).

Sources: PPO (Schulman et al. 2017), sections 3 and 4; its distributed form (Heess et al. 2017).
rho is pi(a|s) / mu(a|s), where mu is the policy that acted.
"""

import tensorflow as tf


def clipped(rho: tf.Tensor, advantage: tf.Tensor, clip: float) -> tf.Tensor:
    """Returns -min(rho A, clip(rho, 1 - clip, 1 + clip) A) (PPO, eq 7), to be minimised.

    Beyond the clip the gradient is 0 on the side to which the advantage pushes: above 1 + clip for
    a positive one, below 1 - clip for a negative one. On the other side it pulls rho back.

    Args:
      rho: [B] floating.
      advantage: [B]. No gradient flows into it.
      clip: epsilon, 0.2 in PPO.

    Returns:
      [B].
    """
    advantage = tf.stop_gradient(advantage)
    return -tf.minimum(rho * advantage, tf.clip_by_value(rho, 1 - clip, 1 + clip) * advantage)


def penalized(
    rho: tf.Tensor,
    advantage: tf.Tensor,
    divergence: tf.Tensor,
    coefficient: float | tf.Tensor,
    target: float | tf.Tensor,
    hinge: float = 1000.0,
) -> tf.Tensor:
    """Returns the loss with a penalty of the divergence (Heess et al. 2017), to be minimised.

        -rho A + coefficient D + hinge max(0, D - 2 target)^2

    Args:
      rho: [B] floating.
      advantage: [B]. No gradient flows into it.
      divergence: [B] or scalar, D_KL(mu || pi). The hinge of the paper is that of the mean
        divergence of a batch: give the mean for it.
      coefficient: scalar, not negative.
      target: scalar, the wanted divergence.
      hinge: weight of the squared excess; 1000 in Schulman's modular_rl.

    Returns:
      [B].
    """
    excess = tf.maximum(divergence - 2 * target, 0)
    penalty = coefficient * divergence + hinge * tf.square(excess)
    return penalty - rho * tf.stop_gradient(advantage)


def next_coefficient(
    coefficient: float | tf.Tensor,
    divergence: float | tf.Tensor,
    target: float | tf.Tensor,
    tolerance: float = 2.0,
    factor: float = 1.5,
) -> tf.Tensor:
    """Returns the coefficient of the next rollout's penalty (PPO, section 4; Heess et al. 2017).

    It grows if the divergence is above its target times `tolerance`, and shrinks if it is below the
    target divided by it. The defaults are an interval of 0.5 to 2 targets and modular_rl's factor;
    PPO has a tolerance of 1.5 and a factor of 2.

    Args:
      coefficient: scalar, of the last rollout.
      divergence: scalar, mean of the last rollout after its updates.
      target: scalar, the wanted divergence, above 0.
      tolerance: at least 1.
      factor: by which the coefficient grows or shrinks, above 1.

    Returns:
      Scalar.
    """
    coefficient = tf.convert_to_tensor(coefficient)
    too_far = divergence > tolerance * target
    too_near = divergence < target / tolerance
    return tf.where(
        too_far, coefficient * factor, tf.where(too_near, coefficient / factor, coefficient)
    )
