"""What Z_w(x, a) is: a categorical distribution, a mixture of Gaussians, or its mean alone.

Figure 7's three output layers, each with the backup Y, the distance d(Y, Z) that the critic
descends, the mean that the policy climbs, and the priority that follows from the distance. The
learner and the actors are the same for all.
"""

from typing import Protocol

import numpy as np
import sonnet as snt
import tensorflow as tf

from common.networks import heads
from common.types import NStepTransitions
from common.values import categorical, categorical_np, gaussian_mixture_np
from reproductions.d4pg.config import D4PGConfig


class CriticKind(Protocol):
    """An output layer and what its outputs mean. Outputs are [B], or [B, F]."""

    def head(self) -> snt.Module:
        """Builds the layer."""

    def backup(self, reward: tf.Tensor, discount: tf.Tensor, outputs: tf.Tensor, seed: tf.Tensor):
        """Y = R_N + gamma_N Z', Z' by the target's outputs (eq 9); [B] or [B, ...].

        What needs samples draws them by `seed`, [2] int32.
        """

    def distance(self, target: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """d(Y, Z) [B]; no gradient flows into Y."""

    def mean(self, outputs: tf.Tensor) -> tf.Tensor:
        """E[Z] [B]."""

    def priorities(self, distance):
        """Raw priorities [B], not negative, from distances; of tensors as of arrays."""

    def initial_distance(
        self, transitions: NStepTransitions, taken: np.ndarray, bootstrap: np.ndarray
    ) -> np.ndarray:
        """d(Y, Z) [M] from an actor's outputs at (x_i, a_i) and (x_{i+N}, pi(x_{i+N}))."""


class CategoricalCritic:
    """D4PG: probabilities of l fixed atoms (appendix A)."""

    def __init__(self, config: D4PGConfig):
        self._num_atoms = config.num_atoms
        self.support = categorical.support(config.v_min, config.v_max, config.num_atoms)
        self._support_np = self.support.numpy()

    def head(self) -> snt.Module:
        return heads.CategoricalHead(self._num_atoms)

    def backup(self, reward, discount, outputs, seed):
        """The atoms moved, then projected on the support (eq 15): probabilities [B, l]."""
        del seed
        positions = categorical.target_positions(reward, discount, self.support)
        return categorical.project(positions, tf.nn.softmax(outputs), self.support)

    def distance(self, target, outputs):
        """Cross-entropy (eq 16)."""
        return categorical.cross_entropy(target, outputs)

    def mean(self, outputs):
        return categorical.mean(outputs, self.support)

    def priorities(self, distance):
        """The distance itself: "the absolute distributional TD-error" (section 4)."""
        return distance

    def initial_distance(self, transitions, taken, bootstrap):
        positions = (
            transitions.n_step_reward[:, np.newaxis]
            + transitions.n_step_discount[:, np.newaxis] * self._support_np
        )
        probabilities = categorical_np.softmax(bootstrap)
        target = categorical_np.project(positions, probabilities, self._support_np)
        return categorical_np.cross_entropy(target, taken)


class ScalarCritic:
    """D3PG and DDPG: the mean alone (eq 4)."""

    def head(self) -> snt.Module:
        return heads.ScalarHead()

    def backup(self, reward, discount, outputs, seed):
        """R_N + gamma_N Q' (eq 8), [B]."""
        del seed
        return reward + discount * outputs

    def distance(self, target, outputs):
        """(Q - Y)^2, without a half, as printed (eq 4)."""
        return tf.square(outputs - tf.stop_gradient(target))

    def mean(self, outputs):
        return outputs

    def priorities(self, distance):
        """The absolute TD-error (section 4)."""
        return distance**0.5

    def initial_distance(self, transitions, taken, bootstrap):
        target = transitions.n_step_reward + transitions.n_step_discount * bootstrap
        return np.square(taken - target)


class MixtureCritic:
    """D4PG with a mixture of Gaussians (appendices A and C)."""

    def __init__(self, config: D4PGConfig, seed: int):
        from common.values import gaussian_mixture  # TensorFlow Probability takes seconds to import

        self._maths = gaussian_mixture
        self._num_components = config.num_components
        self._num_samples = config.num_target_samples
        self._min_variance = config.min_variance
        self._generator = np.random.default_rng(seed)

    def head(self) -> snt.Module:
        return heads.MixtureHead(self._num_components)

    def backup(self, reward, discount, outputs, seed):
        """R_N + gamma_N z_j, z_j drawn from Z' (appendix A), [B, J]."""
        distribution = self._maths.mixture(outputs, self._min_variance)
        samples = self._maths.sample(distribution, self._num_samples, seed)
        return reward[:, tf.newaxis] + discount[:, tf.newaxis] * samples

    def distance(self, target, outputs):
        """-1/J sum_j log p(R_N + gamma_N z_j); the paper prints the sum, which J scales."""
        distribution = self._maths.mixture(outputs, self._min_variance)
        return self._maths.sampled_cross_entropy(distribution, target)

    def mean(self, outputs):
        return self._maths.mean(outputs)

    def priorities(self, distance):
        """Its absolute value, literally (section 4): it is below 0 where a density exceeds 1."""
        return abs(distance)

    def initial_distance(self, transitions, taken, bootstrap):
        distribution = gaussian_mixture_np.mixture(bootstrap, self._min_variance)
        samples = gaussian_mixture_np.sample(distribution, self._num_samples, self._generator)
        samples *= transitions.n_step_discount[:, np.newaxis]
        samples += transitions.n_step_reward[:, np.newaxis]
        prediction = gaussian_mixture_np.mixture(taken, self._min_variance)
        return gaussian_mixture_np.sampled_cross_entropy(prediction, samples)


def make_critic_kind(config: D4PGConfig, seed: int = 0) -> CriticKind:
    """The kind that a configuration names; `seed` is of what an actor draws."""
    if config.critic == "scalar":
        return ScalarCritic()
    if config.critic == "mixture":
        return MixtureCritic(config, seed)
    return CategoricalCritic(config)
