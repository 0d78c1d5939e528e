"""Updates of several epochs on a rollout (PPO, Schulman et al. 2017, algorithm 1)."""

import abc

import tensorflow as tf

from common.learning.learner import Learner
from common.learning.update_loop import UpdateLoop
from common.types import Batch, Metrics, Nest, RolloutSteps


class RolloutLearner(Learner):
    """Learner on rollouts, whose updates have a beginning and an end for each rollout."""

    @abc.abstractmethod
    def prepare(self, rollout: RolloutSteps) -> None:
        """Sets the scales of observations and rewards; not in a graph."""

    @abc.abstractmethod
    def begin(self, rollout: RolloutSteps) -> Nest:
        """Returns what the updates learn from, [N, ...], in the graph of a rollout's updates."""

    @abc.abstractmethod
    def end(self, steps: Nest) -> Metrics:
        """Ends a rollout after its last update, in the same graph; returns metrics of its own.

        Args:
          steps: what `begin` returned.
        """


class RolloutUpdates:
    """Calls that make all updates on a rollout: epochs of batches, each in an order of its own.

    The orders depend only on the seed and the learner step at which the call begins.

    Attributes:
      num_updates: updates per call.
      num_samples: steps of a rollout.
    """

    def __init__(
        self,
        learner: RolloutLearner,
        horizon: int,
        batch_size: int,
        num_updates: int,
        seed: int,
        jit_compile: bool,
    ):
        """Traces nothing yet.

        Args:
          learner: makes the updates.
          horizon: steps of a rollout.
          batch_size: steps of an update, by which the horizon can be divided.
          num_updates: of a rollout, in whole epochs.
          seed: of the orders, not negative.
          jit_compile: whether XLA compiles a call.
        """
        self._learner = learner
        self._batch_size, self._seed = batch_size, seed
        self.num_updates = num_updates
        self.num_samples = horizon
        self._call = tf.function(self._update, jit_compile=jit_compile, autograph=False)

    def __call__(self, samples: Batch) -> tuple[Nest, Metrics]:
        """Makes the updates of a rollout.

        Returns:
          outputs: (), since nothing is written back.
          metrics: means over the updates, and those of the rollout's end.
        """
        self._learner.prepare(samples.steps)
        return (), self._call(samples)

    def _update(self, samples: Batch) -> Metrics:
        learner = self._learner
        steps = learner.begin(samples.steps)
        seed = tf.stack([tf.constant(self._seed, tf.int64), learner.steps.read_value()])
        num_epochs = self.num_updates * self._batch_size // self.num_samples
        random = tf.random.stateless_uniform([num_epochs, self.num_samples], seed)
        rows = tf.reshape(tf.argsort(random), [-1])

        def update(batch: Batch) -> tuple[Nest, Metrics]:
            chosen = tf.nest.map_structure(lambda column: tf.gather(column, batch.steps), steps)
            return learner.update(batch._replace(steps=chosen))

        loop = UpdateLoop(update, self.num_updates, self._batch_size, jit_compile=False)
        probabilities = tf.repeat(samples.probabilities[:1], num_epochs * self.num_samples)
        _, metrics = loop(Batch(rows, probabilities, samples.size))
        return {**metrics, **learner.end(steps)}
