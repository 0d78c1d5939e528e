"""D4PG's three kinds of critic Z_w(x, a): categorical, mixture of Gaussians, or the mean alone.

They are the output layers of figure 7. Each has the backup Y, the distance d(Y, Z) that the critic
minimises, the mean that the policy maximises, and the priority that follows from the distance.
Learner and actors are the same for all kinds.
"""

from typing import Protocol

import numpy as np
import sonnet as snt
import tensorflow as tf

from common.networks import heads
from common.types import NStepTransitions
from common.values import categorical, categorical_np, gaussian_mixture, gaussian_mixture_np
from reproductions.d4pg.config import D4PGConfig


class CriticKind(Protocol):
    """Output layer of a critic and the meaning of its outputs, [B] or [B, F]."""

    def head(self) -> snt.Module:
        """Builds the output layer."""

    def backup(self, reward: tf.Tensor, discount: tf.Tensor, outputs: tf.Tensor, seed: tf.Tensor):
        """Returns Y = R_N + gamma_N Z' (eq 9).

        Args:
          reward: [B], R_N.
          discount: [B], gamma_N.
          outputs: of the target critic, which parameterise Z'.
          seed: [2] int32, for kinds that draw samples.

        Returns:
          [B] or [B, ...], in the representation that `distance` takes.
        """

    def distance(self, target: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """Returns d(Y, Z), [B]; no gradient flows into Y = `target`."""

    def mean(self, outputs: tf.Tensor) -> tf.Tensor:
        """Returns E[Z], [B]."""

    def priorities(self, distance):
        """Returns raw priorities [B], not negative, from distances: tensors or arrays."""

    def initial_distance(
        self, transitions: NStepTransitions, taken: np.ndarray, bootstrap: np.ndarray
    ) -> np.ndarray:
        """Returns d(Y, Z), [M], from the outputs of an actor's critic.

        Args:
          transitions: M transitions.
          taken: [M, ...], outputs at (x_i, a_i).
          bootstrap: [M, ...], outputs at (x_{i+N}, pi(x_{i+N})).
        """


class CategoricalCritic:
    """Critic of D4PG: probabilities of l fixed atoms (appendix A).

    Attributes:
      support: [l] float32, the atoms.
    """

    def __init__(self, config: D4PGConfig):
        self._num_atoms = config.num_atoms
        self.support = categorical.support(config.v_min, config.v_max, config.num_atoms)
        self._support_np = self.support.numpy()

    def head(self) -> snt.Module:
        """Builds the layer of l logits."""
        return heads.CategoricalHead(self._num_atoms)

    def backup(self, reward, discount, outputs, seed):
        """Returns the moved atoms' projection onto the support (eq 15): probabilities [B, l]."""
        del seed
        positions = categorical.target_positions(reward, discount, self.support)
        return categorical.project(positions, tf.nn.softmax(outputs), self.support)

    def distance(self, target, outputs):
        """Returns the cross-entropy (eq 16)."""
        return categorical.cross_entropy(target, outputs)

    def mean(self, outputs):
        """Returns the expected atom (eq 7)."""
        return categorical.mean(outputs, self.support)

    def priorities(self, distance):
        """Returns the distance itself, "the absolute distributional TD-error" (section 4)."""
        return distance

    def initial_distance(self, transitions, taken, bootstrap):
        """Returns the cross-entropy with the projected backup, in NumPy (eqs 15, 16)."""
        positions = (
            transitions.n_step_reward[:, np.newaxis]
            + transitions.n_step_discount[:, np.newaxis] * self._support_np
        )
        probabilities = categorical_np.softmax(bootstrap)
        target = categorical_np.project(positions, probabilities, self._support_np)
        return categorical_np.cross_entropy(target, taken)


class ScalarCritic:
    """Critic of D3PG and DDPG: the mean alone (eq 4)."""

    def head(self) -> snt.Module:
        """Builds the layer of one value."""
        return heads.ScalarHead()

    def backup(self, reward, discount, outputs, seed):
        """Returns R_N + gamma_N Q' (eq 8), [B]."""
        del seed
        return reward + discount * outputs

    def distance(self, target, outputs):
        """Returns (Q - Y)^2, without a factor 1/2, as printed (eq 4)."""
        return tf.square(outputs - tf.stop_gradient(target))

    def mean(self, outputs):
        """Returns the outputs, which are means already."""
        return outputs

    def priorities(self, distance):
        """Returns the absolute TD-error |Q - Y| (section 4)."""
        return distance**0.5

    def initial_distance(self, transitions, taken, bootstrap):
        """Returns (Q - Y)^2, in NumPy (eqs 4, 8)."""
        target = transitions.n_step_reward + transitions.n_step_discount * bootstrap
        return np.square(taken - target)


class MixtureCritic:
    """Critic of D4PG with a mixture of Gaussians (appendices A and C).

    `seed` determines the samples of `initial_distance`.
    """

    def __init__(self, config: D4PGConfig, seed: int):
        self._num_components = config.num_components
        self._num_samples = config.num_target_samples
        self._min_variance = config.min_variance
        self._generator = np.random.default_rng(seed)

    def head(self) -> snt.Module:
        """Builds the layer of the components' weights, means and variances."""
        return heads.MixtureHead(self._num_components)

    def backup(self, reward, discount, outputs, seed):
        """Returns samples R_N + gamma_N z_j with z_j drawn from Z' (appendix A), [B, J]."""
        distribution = gaussian_mixture.mixture(outputs, self._min_variance)
        samples = gaussian_mixture.sample(distribution, self._num_samples, seed)
        return reward[:, tf.newaxis] + discount[:, tf.newaxis] * samples

    def distance(self, target, outputs):
        """Returns -1/J sum_j log p(R_N + gamma_N z_j); the paper prints the sum, J times that."""
        distribution = gaussian_mixture.mixture(outputs, self._min_variance)
        return gaussian_mixture.sampled_cross_entropy(distribution, target)

    def mean(self, outputs):
        """Returns the mixture's mean (eq 7)."""
        return gaussian_mixture.mean(outputs)

    def priorities(self, distance):
        """Returns |d|, following section 4 literally: d is below 0 where the density exceeds 1."""
        return abs(distance)

    def initial_distance(self, transitions, taken, bootstrap):
        """Returns -1/J sum_j log p(R_N + gamma_N z_j), in NumPy (appendix A)."""
        distribution = gaussian_mixture_np.mixture(bootstrap, self._min_variance)
        samples = gaussian_mixture_np.sample(distribution, self._num_samples, self._generator)
        samples *= transitions.n_step_discount[:, np.newaxis]
        samples += transitions.n_step_reward[:, np.newaxis]
        prediction = gaussian_mixture_np.mixture(taken, self._min_variance)
        return gaussian_mixture_np.sampled_cross_entropy(prediction, samples)


def make_critic_kind(config: D4PGConfig, seed: int = 0) -> CriticKind:
    """Returns the critic kind of a configuration.

    Args:
      config: names the kind.
      seed: of the samples that an actor draws for initial priorities.
    """
    if config.critic == "scalar":
        return ScalarCritic()
    if config.critic == "mixture":
        return MixtureCritic(config, seed)
    return CategoricalCritic(config)
