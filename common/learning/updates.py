"""Graph calls that run several of the learner's updates, to save the cost of launching each.

The batches come from a store (`UpdateLoop`), are drawn and written back in the same graph
(`FusedUpdates`), or form several epochs on a rollout (`RolloutUpdates`).
"""

import abc
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from common.data.rollouts import RolloutSteps
from common.environments.spec import UnusableEnvironmentError
from common.learning import learner as learner_lib
from common.learning.learner import Learner, is_maximum
from common.replay import store as store_lib
from common.replay.episode_memory import EpisodeMemory
from common.replay.store import Counters, Drawn, Store
from common.types import Batch, Metrics, Nest


class Updates(abc.ABC):
    """The updates of a call, with their draw and their write-back, for a `Trainer`.

    Attributes:
      num_updates: updates per call.
      num_samples: items that a call learns from.
      are_counted: whether the learner's steps grow by exactly the updates of a call.
    """

    num_updates: int
    num_samples: int
    are_counted: bool = True

    def draw(self, store: Store, counters: Counters, seed: int, step: int) -> Any:
        """Draws the items of a call; returns None if the store has too few.

        The draw depends only on the seed, the step and the store's contents.

        Args:
          store: the store with the items.
          counters: the store's counters.
          seed: seed of all draws.
          step: learner step at which the call begins.
        """
        return store.draw(self.num_samples, store_lib.derive_seed(seed, step))

    @abc.abstractmethod
    def __call__(self, drawn: Any) -> tuple[Nest, Metrics]:
        """Performs the updates.

        Args:
          drawn: result of `draw`.

        Returns:
          outputs: nest of [num_samples, ...], in the order of the items.
          metrics: means over the updates of the call; those named `*_max` or `num_*` are maxima.
        """

    def write_back(self, store: Store, drawn: Any, outputs: Nest) -> None:
        """Writes the outputs of a call to the items from which it learnt."""
        store.write_back(drawn.token, outputs)


class UpdateLoop(Updates):
    """A graph call that runs `num_updates` updates, each on its own batch.

    With a single XLA program, the cost of a launch is paid once, and XLA can keep what the updates
    share: on two cores D4PG's updates are a quarter faster than in separate calls. XLA makes
    convolutions slower on a CPU: use `jit_compile=False` for them.
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
        self.num_samples = num_updates * batch_size
        self._batch_size = batch_size
        self._run = tf.function(self._loop, jit_compile=jit_compile, autograph=False)

    def __call__(self, drawn: Drawn) -> tuple[Nest, Metrics]:
        """Learns from the drawn items; see base class."""
        return self.learn(drawn.batch())

    def learn(self, samples: Batch) -> tuple[Nest, Metrics]:
        """Learns from `num_samples` items: the batches of the updates, in their order."""
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


class StoreRules(abc.ABC):
    """The part of an agent that connects its learner with a memory of episodes."""

    @abc.abstractmethod
    def prepare(self, learner: Learner, memory: EpisodeMemory, step: int, is_first: bool) -> None:
        """Prepares a call, outside its graph.

        Args:
          learner: the learner before the updates.
          memory: the memory from which the updates draw.
          step: learner step at which the call begins.
          is_first: whether it is the process's first call, also in a resumed run.
        """

    @abc.abstractmethod
    def before_updates(self, learner: Learner, memory: EpisodeMemory) -> None:
        """Updates the learner from the memory, in the graph of a call."""

    @abc.abstractmethod
    def write_back(
        self, learner: Learner, memory: EpisodeMemory, keys: tf.Tensor, outputs: Nest
    ) -> None:
        """Writes the outputs of a call's updates to the memory, in its graph.

        Args:
          learner: the learner after the updates.
          memory: the memory from which the steps were drawn.
          keys: [N] int64, keys of all steps from which the updates learnt.
          outputs: nest of [N, ...].
        """


class FusedUpdates(Updates):
    """Calls that draw, update and write back in one graph.

    Separate launches would take longer than the update of a small network. The draw of a call
    depends only on the seed, the learner step at which the call begins and the contents of the
    memory. The trainer can neither draw ahead nor decode.
    """

    def __init__(
        self,
        updates: UpdateLoop,
        learner: Learner,
        memory: EpisodeMemory,
        rules: StoreRules,
        seed: int,
    ):
        """Traces nothing yet.

        Args:
          updates: the updates of a call.
          learner: the networks that the updates change.
          memory: the memory, in this process.
          rules: the agent's rules.
          seed: seed of the draws, not negative.
        """
        self.num_updates, self.num_samples = updates.num_updates, updates.num_samples
        self._updates = updates
        self._learner, self._memory, self._rules = learner, memory, rules
        self._first_seed = store_lib.derive_seed(seed, 0)
        self._call = tf.function(self._draw_update_write, autograph=False)
        self._is_first = True

    def draw(self, store: Store, counters: Counters, seed: int, step: int) -> int | None:
        """Returns the step, since the graph draws, or None while the memory has too few steps.

        Raises:
          UnusableEnvironmentError: the memory removes episodes before it holds a batch.
        """
        del store, seed
        batch_size = self.num_samples // self.num_updates
        there = self._memory.num_drawable(counters)
        if there >= batch_size:
            return step
        if counters.removed:
            raise UnusableEnvironmentError(
                "the episodes of --environment are so long that the memory, which removes whole "
                f"episodes, holds only {there} {self._memory.drawn_items}, fewer than a batch "
                f"of {batch_size}: raise --config.replay_capacity"
            )
        return None

    def __call__(self, drawn: int) -> tuple[Nest, Metrics]:
        """Draws, updates and writes back; the outputs are (). See base class."""
        self._rules.prepare(self._learner, self._memory, drawn, self._is_first)
        self._is_first = False
        return (), self._call()

    def write_back(self, store: Store, drawn: int, outputs: Nest) -> None:
        """Does nothing, because the graph has already written the outputs."""

    def _draw_update_write(self) -> Metrics:
        learner, memory = self._learner, self._memory
        self._rules.before_updates(learner, memory)
        sample = memory.draw(self.num_samples, self._first_seed + learner.steps)
        outputs, metrics = self._updates.learn(sample.batch())
        tf.cond(
            learner_lib.are_finite(metrics),  # the memory would refuse bad outputs itself
            lambda: self._rules.write_back(learner, memory, sample.token, outputs),
            lambda: None,
        )
        return metrics


class RolloutLearner(Learner):
    """Learner on rollouts, with methods for the beginning and the end of a rollout's updates."""

    @abc.abstractmethod
    def prepare(self, rollout: RolloutSteps) -> None:
        """Sets the scales of observations and rewards, outside a graph."""

    @abc.abstractmethod
    def begin(self, rollout: RolloutSteps) -> Nest:
        """Returns the data of the updates, [N, ...], in the graph of a rollout's updates."""

    @abc.abstractmethod
    def end(self, steps: Nest) -> Metrics:
        """Ends a rollout after its last update, in the same graph; returns additional metrics.

        Args:
          steps: result of `begin`.
        """


class RolloutUpdates(Updates):
    """Calls that run all updates on a rollout: epochs of batches, each in a different order.

    The orders depend only on the seed and the learner step at which the call begins.
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
          learner: performs the updates.
          horizon: steps of a rollout.
          batch_size: steps of an update; divides the horizon.
          num_updates: updates of a rollout, in whole epochs.
          seed: seed of the orders, not negative.
          jit_compile: whether XLA compiles a call.
        """
        self._learner = learner
        self._batch_size, self._seed = batch_size, seed
        self.num_updates = num_updates
        self.num_samples = horizon
        self._call = tf.function(self._update, jit_compile=jit_compile, autograph=False)

    def __call__(self, drawn: Drawn) -> tuple[Nest, Metrics]:
        """Performs the updates of a rollout; see base class.

        The outputs are (), since nothing is written back to a rollout. Metrics of the rollout's end
        follow those of its updates.
        """
        rollout = drawn.batch()
        self._learner.prepare(rollout.steps)
        return (), self._call(rollout)

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
        _, metrics = loop.learn(Batch(rows, probabilities, samples.size))
        return {**metrics, **learner.end(steps)}
