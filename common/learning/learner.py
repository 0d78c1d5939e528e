"""Base class of a paper's learner, as the loops around it call it."""

import abc
from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from common.types import Batch, Metrics, Nest


class Gradients(NamedTuple):
    """The results of `Learner.gradients`.

    Attributes:
      gradients: nest of the gradients that `Learner.apply` takes.
      outputs: nest of [B, ...] that the agent writes back to the replay, such as new priorities
        [B].
      metrics: scalars by name. At least one is not finite if a gradient is not, such as their norm:
        the run then ends (`common.learning.metrics.check_finite`).
    """

    gradients: Nest
    outputs: Nest
    metrics: Metrics


class Learner(tf.Module, abc.ABC):
    """Networks, target networks and optimisers as a module, so that a checkpoint has them all.

    A learner step has two halves, which may be in different processes. All methods are called
    inside a graph, compiled by XLA if the agent says so.

    Attributes:
      steps: int64 scalar, updates done.
      actor_variables: variables published to actors and evaluator, in this order.
      target_variables: variables of the target networks, which a parameter server publishes.
    """

    target_variables: Sequence[tf.Variable] = ()

    def __init__(self):
        """Makes the counter of updates."""
        super().__init__()
        self.steps = tf.Variable(0, dtype=tf.int64, trainable=False, name="learner_steps")

    @property
    @abc.abstractmethod
    def actor_variables(self) -> Sequence[tf.Variable]:
        """Variables published to actors and evaluator."""

    @property
    def num_parameters(self) -> int:
        """Number of parameters in `actor_variables`."""
        return sum(variable.shape.num_elements() for variable in self.actor_variables)

    @abc.abstractmethod
    def gradients(self, batch: Batch) -> Gradients:
        """Returns the gradients of a step; changes nothing.

        It is traced without AutoGraph: what depends on a tensor's value is a `tf.cond`.

        Args:
          batch: B items drawn from replay.
        """

    @abc.abstractmethod
    def apply(self, gradients: Nest) -> None:
        """Makes a step of the optimisers, counts it, and copies target networks if it is time.

        Args:
          gradients: of `Gradients`.
        """

    def update(self, batch: Batch) -> tuple[Nest, Metrics]:
        """Makes one learner step.

        Args:
          batch: B items drawn from replay.

        Returns:
          outputs: of `Gradients`.
          metrics: of `Gradients`.
        """
        gradients, outputs, metrics = self.gradients(batch)
        self.apply(gradients)
        return outputs, metrics
