"""Interface of a paper's learner, as the loops around it call it."""

from collections.abc import Sequence
from typing import Protocol

import tensorflow as tf

from common.types import Batch, Metrics, Nest


class Learner(Protocol):
    """Networks, target networks and optimisers in a `tf.Module`, so that a checkpoint has them all.

    Attributes:
      steps: int64 scalar, updates done.
      actor_variables: variables published to actors and evaluator, in this order.
    """

    steps: tf.Variable
    actor_variables: Sequence[tf.Variable]

    def update(self, batch: Batch) -> tuple[Nest, Metrics]:
        """Makes one learner step; called inside a graph, compiled by XLA if the agent says so.

        Args:
          batch: B items drawn from replay.

        Returns:
          outputs: nest of [B, ...] that the agent writes back to the replay, such as new
            priorities [B].
          metrics: scalars by name.
        """
