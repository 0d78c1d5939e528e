"""What goes on around the updates of a learner: counters, rows, checkpoints, snapshots."""

from collections.abc import Callable, Mapping
import time

from absl import logging
import tensorflow as tf

from common.agents.agent import Agent, Learner
from common.cluster.errors import ServiceUnavailableError
from common.cluster.parameters import ParameterService
from common.learning.checkpoint import Checkpoints
from common.learning.counters import Counters, Progress
from common.learning.log import LearnerLog
from common.learning.replay_learner import ReplayLearner
from common.learning.update_loop import Metrics
from common.networks import packing
from common.replay.memory import Statistics
from common.reporting import csv_rows
from common.reporting.run_directory import RunDirectory

PUBLISH_STEPS = 16
"""Learner steps between snapshots; actors pull far more seldom, so theirs is always fresh."""
_LOOK_SECONDS = 1.0
"""How often the replay is asked what it has accepted."""
_QUIET_SECONDS = 2.0
"""So long without a transition means that the actors have ended: they ask for news each second."""
_SETTLE_SECONDS = 10.0


class Bookkeeping:
    """Does each of these in its time: `after_call` after every call of the learner, then `settle`.

    It begins where the newest checkpoint left the run.
    """

    def __init__(
        self,
        run: RunDirectory,
        agent: Agent,
        learner: Learner,
        replay_learner: ReplayLearner,
        parameters: ParameterService,
        accepted: Callable[[], Mapping[int, int]],
        checkpoint_seconds: float,
    ):
        """Restores the newest checkpoint, if there is one.

        Args:
          run: where rows and checkpoints go.
          agent: says what a row holds.
          learner: what is saved and published.
          replay_learner: its draws ahead are saved, too.
          parameters: where snapshots are published.
          accepted: asks the replay for its accounts: items accepted from each incarnation.
          checkpoint_seconds: between checkpoints.

        Raises:
          As `Checkpoints.restore`.
        """
        progress = Progress()
        state = {"learner": learner, "progress": progress, "draw": replay_learner.saved_draws}
        self._checkpoints = Checkpoints(run.checkpoints, state)
        if self._checkpoints.restore():
            logging.info("resumed at learner step %d", int(learner.steps))
        last = csv_rows.last_row(run.learner_csv)
        known = (last["wall_seconds"], last["actor_steps"]) if last else ()
        self.counters = Counters(progress, *known)
        if last:
            parameters.go_on_after(int(last["parameter_version"]))
        if agent.single_process:
            self.counters.book_unknown()
        self._learner = learner
        self._replay_learner = replay_learner
        self._parameters = parameters
        self._accepted = accepted
        self._num_copies = agent.num_copies
        self._checkpoint_seconds = checkpoint_seconds
        self._log = LearnerLog(run, agent, self.counters)
        self._pack = tf.function(lambda: packing.pack(tuple(learner.actor_variables)))
        self.version = 0
        """Of the newest snapshot."""
        self._published = 0
        self._looked_at = self._saved_at = time.monotonic()

    @property
    def steps(self) -> int:
        """Of the learner."""
        return int(self._learner.steps)

    def parameters(self) -> tf.Tensor:
        """What is published, of this moment: [P] float32."""
        return self._pack()

    def publish(self, finished: bool = False) -> int:
        """Publishes a snapshot, the run's last if `finished`, and returns its version."""
        self._published = self.steps
        self.version = self._parameters.publish(
            self.parameters(),
            self._published,
            self.counters.actor_steps,
            self.counters.wall_seconds,
            finished,
        )
        return self.version

    def save(self) -> None:
        """Writes a checkpoint."""
        self._replay_learner.store()
        self.counters.store()
        self._checkpoints.save()
        self._saved_at = time.monotonic()

    def after_call(self, metrics: Metrics | None) -> None:
        """Does what is due after a call that gave these metrics, None if it did nothing."""
        statistics = self._replay_learner.statistics  # the thread that draws ahead replaces it
        self._log.see(metrics)
        row_is_due = self._log.is_due()
        if row_is_due or time.monotonic() - self._looked_at >= _LOOK_SECONDS:
            self._look()
        if row_is_due:
            self._write_row(self.counters.wall_seconds, statistics)
        if self.steps - self._published >= PUBLISH_STEPS:
            self.publish()
        if time.monotonic() - self._saved_at >= self._checkpoint_seconds:
            self.save()

    def settle(self, statistics: Callable[[], Statistics]) -> None:
        """Saves, waits for what the actors, which end now, still bring, and writes the last row.

        Args:
          statistics: asks the memory for its counters.
        """
        wall = self.counters.wall_seconds
        self._look()
        self.save()
        saved = before = self.counters.actor_steps
        deadline = time.monotonic() + _SETTLE_SECONDS
        changed_at = time.monotonic()
        while time.monotonic() < min(deadline, changed_at + _QUIET_SECONDS):
            time.sleep(0.1)
            self._look()
            if self.counters.actor_steps != before:
                before, changed_at = self.counters.actor_steps, time.monotonic()
        if before != saved:
            self.save()
        try:
            last = statistics()
        except ServiceUnavailableError:
            last = None
        self._write_row(wall, last)
        self._log.close()
        if last is not None:
            logging.info(
                "the replay was given %d items and %d again, removed %d, holds %d; %d priorities "
                "were of items that were gone",
                last.inserted,
                last.duplicates,
                last.removed,
                last.items,
                last.missing,
            )

    def _look(self) -> None:
        """Brings the counters up to date, as far as the replay can be asked."""
        self._looked_at = time.monotonic()
        try:
            items = self._accepted()
        except ServiceUnavailableError:
            items = {}  # it may be dead: what only this process knows is saved
        accepted = {life: count // self._num_copies for life, count in items.items()}
        if self.counters.see(accepted):
            self.save()

    def _write_row(self, wall: float, statistics: Statistics | None) -> None:
        self._log.write(
            wall, self.steps, self.version, statistics, self._replay_learner.priority_lag
        )
