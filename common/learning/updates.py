"""Updates in one graph with their draw and their write-back."""

import abc

import tensorflow as tf

from common.environments.environment_errors import UnusableEnvironmentError
from common.learning import metrics as metrics_lib
from common.learning.learner import Learner
from common.learning.update_loop import UpdateLoop
from common.replay import seeds
from common.replay.episodes import EpisodeMemory
from common.replay.store import Counters
from common.types import Metrics, Nest


class StoreRules(abc.ABC):
    """The part of an agent that passes between a memory of episodes and its learner."""

    @abc.abstractmethod
    def prepare(self, learner: Learner, memory: EpisodeMemory, step: int, is_first: bool) -> None:
        """Prepares a call, not in its graph.

        Args:
          learner: before the updates.
          memory: from which they draw.
          step: learner step at which the call begins.
          is_first: whether it is the first one since the process started, maybe of a resumed run.
        """

    @abc.abstractmethod
    def before_updates(self, learner: Learner, memory: EpisodeMemory) -> None:
        """Tells the learner about the memory, in the graph of a call."""

    @abc.abstractmethod
    def write_back(
        self, learner: Learner, memory: EpisodeMemory, keys: tf.Tensor, outputs: Nest
    ) -> None:
        """Writes the outputs of a call's updates to the memory, in its graph.

        Args:
          learner: after the updates.
          memory: from which the steps were drawn.
          keys: [N] int64, of all steps from which the updates learnt.
          outputs: nest of [N, ...].
        """


class FusedUpdates:
    """Calls that draw, update and write back in one graph.

    Launching each alone would take longer than a small network's update. The draw of a call depends
    only on the seed, the learner step at which the call begins and the contents of the memory.
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
          updates: of a call.
          learner: the networks that they change.
          memory: in this process.
          rules: of the agent.
          seed: of the draws, not negative.
        """
        self.num_updates, self.num_samples = updates.num_updates, updates.num_samples
        self._updates = updates
        self._learner, self._memory, self._rules = learner, memory, rules
        self._first_seed = seeds.derive(seed, 0)
        self._call = tf.function(self._draw_update_write, autograph=False)
        self._is_first = True

    def can_draw(self, counters: Counters) -> bool:
        """Returns whether the memory has a batch; the first episodes may be running yet.

        Raises:
          UnusableEnvironmentError: the memory removes episodes before it has a batch.
        """
        batch_size = self.num_samples // self.num_updates
        there = self._memory.num_drawable(counters)
        if there >= batch_size:
            return True
        if counters.removed:
            raise UnusableEnvironmentError(
                "--environment has so long episodes that the memory, from which whole ones are "
                f"removed, holds {there} {self._memory.drawn_items}, fewer than a batch "
                f"of {batch_size}: raise --config.replay_capacity"
            )
        return False

    def __call__(self, step: int) -> Metrics:
        """Makes the updates of a call at a learner step; returns their mean metrics."""
        self._rules.prepare(self._learner, self._memory, step, self._is_first)
        self._is_first = False
        return self._call()

    def _draw_update_write(self) -> Metrics:
        learner, memory = self._learner, self._memory
        self._rules.before_updates(learner, memory)
        sample = memory.draw(self.num_samples, self._first_seed + learner.steps)
        outputs, metrics = self._updates(sample.batch())
        tf.cond(
            metrics_lib.are_finite(metrics),  # the memory refuses others, with its own error
            lambda: self._rules.write_back(learner, memory, sample.token, outputs),
            lambda: None,
        )
        return metrics
