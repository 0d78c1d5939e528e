"""Several learner updates in one graph call."""

from collections.abc import Callable

import tensorflow as tf

from common.learning.metrics import is_maximum
from common.types import Batch, Metrics, Nest


class UpdateLoop:
    """A graph call that makes `num_updates` updates, each on its own batch.

    With one XLA program for all updates, only the first has the cost of a launch, and XLA can keep
    what the updates share: D4PG's networks on two cores are a quarter faster than with single
    calls. XLA makes convolutions slower on a CPU: use `jit_compile=False` for them.
    """

    def __init__(
        self,
        update: Callable[[Batch], tuple[Nest, Metrics]],
        num_updates: int,
        batch_size: int,
        jit_compile: bool,
    ):
        """Wraps an update.

        Args:
          update: `common.learning.learner.Learner.update`.
          num_updates: updates per call.
          batch_size: B, items per update.
          jit_compile: whether XLA compiles the call.
        """
        self._update = update
        self.num_updates = num_updates
        self._batch_size = batch_size
        self._run = tf.function(self._loop, jit_compile=jit_compile, autograph=False)

    @property
    def num_samples(self) -> int:
        """Number of items that a call learns from."""
        return self.num_updates * self._batch_size

    def __call__(self, samples: Batch) -> tuple[Nest, Metrics]:
        """Learns from `num_samples` items, the batches of the updates one after the other.

        Returns:
          outputs: nest of [num_samples, ...], the outputs of the updates one behind the other.
          metrics: means over the updates of the call, but maxima of metrics named `*_max`.
        """
        return self._run(samples)

    def _loop(self, samples: Batch) -> tuple[Nest, Metrics]:
        n, b = self.num_updates, self._batch_size
        steps, probabilities = tf.nest.map_structure(
            lambda x: tf.reshape(x, tf.concat([[n, b], tf.shape(x)[1:]], 0)),
            (samples.steps, samples.probabilities),
        )

        def batch(i) -> Batch:
            steps_i, probabilities_i = tf.nest.map_structure(lambda x: x[i], (steps, probabilities))
            return Batch(steps_i, probabilities_i, samples.size)

        outputs, metrics = self._update(batch(0))
        if n == 1:
            return outputs, metrics
        collected = tf.nest.map_structure(
            lambda x: tf.TensorArray(x.dtype, n, element_shape=x.shape).write(0, x), outputs
        )

        def body(i, collected, totals):
            outputs, metrics = self._update(batch(i))
            totals = {name: _accumulate(name, totals[name], metrics[name]) for name in metrics}
            collected = tf.nest.map_structure(
                lambda array, x: array.write(i, x), collected, outputs
            )
            return i + 1, collected, totals

        _, collected, totals = tf.while_loop(
            lambda i, *_: i < n,
            body,
            (tf.constant(1), collected, metrics),
            maximum_iterations=n - 1,
        )
        metrics = {name: total if is_maximum(name) else total / n for name, total in totals.items()}
        outputs = tf.nest.map_structure(
            lambda array: tf.reshape(array.stack(), [-1, *array.element_shape[1:]]), collected
        )
        return outputs, metrics


def _accumulate(name: str, total: tf.Tensor, value: tf.Tensor) -> tf.Tensor:
    return tf.maximum(total, value) if is_maximum(name) else total + value
