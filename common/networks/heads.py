"""Heads of critics, and the critic that a torso and a head make."""

from collections.abc import Callable

import sonnet as snt
import tensorflow as tf


class CategoricalHead(snt.Module):
    """Features [B, F] -> logits [B, K] of a value distribution on K atoms (D4PG, appendix A)."""

    def __init__(self, num_atoms: int, name: str | None = None):
        super().__init__(name=name)
        self.layers = [snt.Linear(num_atoms, name="logits")]

    def __call__(self, features: tf.Tensor) -> tf.Tensor:
        return self.layers[0](features)


class ScalarHead(snt.Module):
    """Features [B, F] -> values [B] (D3PG, DDPG, Ape-X DPG)."""

    def __init__(self, name: str | None = None):
        super().__init__(name=name)
        self.layers = [snt.Linear(1, name="value")]

    def __call__(self, features: tf.Tensor) -> tf.Tensor:
        return tf.squeeze(self.layers[0](features), axis=-1)


class MixtureHead(snt.Module):
    """Features [B, F] -> outputs [B, 3 C] of a mixture of C Gaussians (D4PG, appendix A).

    `common.values.gaussian_mixture.mixture` says what they mean.
    """

    def __init__(self, num_components: int, name: str | None = None):
        super().__init__(name=name)
        self.layers = [snt.Linear(3 * num_components, name="mixture")]

    def __call__(self, features: tf.Tensor) -> tf.Tensor:
        return self.layers[0](features)


Head = CategoricalHead | ScalarHead | MixtureHead


class Critic(snt.Module):
    """Observation and action -> head(torso(observation, action)).

    The output is the head's: logits [B, K], values [B] or a mixture's [B, 3 C].
    """

    def __init__(
        self,
        torso: Callable[[tf.Tensor, tf.Tensor], tf.Tensor],
        head: Head,
        name: str | None = None,
    ):
        super().__init__(name=name)
        self.torso = torso
        self.head = head

    def __call__(self, observation: tf.Tensor, action: tf.Tensor) -> tf.Tensor:
        return self.head(self.torso(observation, action))
