"""Output layers (heads) of critics, and the critic composed of a torso and a head."""

from collections.abc import Callable

import sonnet as snt
import tensorflow as tf


class CategoricalHead(snt.Module):
    """Linear layer to the logits of a value distribution on K atoms (D4PG, appendix A)."""

    def __init__(self, num_atoms: int):
        super().__init__()
        self.layers = [snt.Linear(num_atoms, name="logits")]

    def __call__(self, features: tf.Tensor) -> tf.Tensor:
        """Returns logits: features [B, F] -> [B, K]."""
        return self.layers[0](features)


class ScalarHead(snt.Module):
    """Linear layer to a scalar value (DDPG, D3PG, Ape-X DPG)."""

    def __init__(self):
        super().__init__()
        self.layers = [snt.Linear(1, name="value")]

    def __call__(self, features: tf.Tensor) -> tf.Tensor:
        """Returns values: features [B, F] -> [B]."""
        return tf.squeeze(self.layers[0](features), axis=-1)


class MixtureHead(snt.Module):
    """Linear layer to the parameters of a mixture of C Gaussians (D4PG, appendix A)."""

    def __init__(self, num_components: int):
        super().__init__()
        self.layers = [snt.Linear(3 * num_components, name="mixture")]

    def __call__(self, features: tf.Tensor) -> tf.Tensor:
        """Returns the outputs that `gaussian_mixture.mixture` takes: [B, F] -> [B, 3 C]."""
        return self.layers[0](features)


Head = CategoricalHead | ScalarHead | MixtureHead


class Critic(snt.Module):
    """A critic of observations and actions: head(torso(observation, action))."""

    def __init__(self, torso: Callable[[tf.Tensor, tf.Tensor], tf.Tensor], head: Head):
        super().__init__()
        self.torso = torso
        self.head = head

    def __call__(self, observation: tf.Tensor, action: tf.Tensor) -> tf.Tensor:
        """Returns the head's output: logits [B, K], values [B] or mixture parameters [B, 3 C]."""
        return self.head(self.torso(observation, action))
