"""The contract of a paper's learner, as the loops around it call it."""

from collections.abc import Sequence
from typing import Protocol

import tensorflow as tf

from common.types import Batch, Metrics, Nest


class Learner(Protocol):
    """Networks, targets and optimisers: a `tf.Module`, so that a checkpoint finds all of them.

    Attributes:
      steps: int64 scalar, updates done.
      actor_variables: published to actors and evaluator, in this order.
    """

    steps: tf.Variable
    actor_variables: Sequence[tf.Variable]

    def update(self, batch: Batch) -> tuple[Nest, Metrics]:
        """Makes one learner step; traceable, and jittable where the agent says so.

        Returns:
          outputs: nest of [B, ...] for each item of the batch, which the agent writes back to the
            replay: new priorities [B], for example.
          metrics: scalars by their names.
        """
