"""The counters, rows, checkpoints and published parameters of a run, kept beside its updates."""

from collections.abc import Callable, Mapping, Sequence
import dataclasses
import time

from absl import logging
import tensorflow as tf

from common.cluster.errors import ServiceUnavailableError
from common.cluster.parameters import ParameterService
from common.learning.checkpoint import Checkpoints
from common.learning.counters import Counters, SavedCounters
from common.learning.learner import Learner
from common.learning.log import LearnerLog
from common.learning.replay_learner import ReplayLearner
from common.networks import packing
from common.replay.memory import Statistics
from common.reporting import csv_rows
from common.reporting.disk import disk_full
from common.reporting.run_directory import RunDirectory
from common.types import Metrics

_POLL_SECONDS = 1.0
"""Between questions to the replay about what it has accepted."""
_QUIET_SECONDS = 2.0
"""So long without a transition means that the actors have ended: they ask for news each second."""
_SETTLE_SECONDS = 10.0


@dataclasses.dataclass(frozen=True)
class BookkeepingOptions:
    """What a run's books depend on.

    Attributes:
      metrics: names of what the learner's updates report.
      batch_size: items of an update.
      num_copies: items made of an actor's step.
      publish_period: learner steps between published snapshots.
      checkpoint_seconds: time between checkpoints.
    """

    metrics: Sequence[str]
    batch_size: int
    num_copies: int
    publish_period: int
    checkpoint_seconds: float


class Bookkeeping:
    """Keeps a run's counters, rows, checkpoints and snapshots; begins with the newest checkpoint.

    Call `after_call` after every call of the learner, and `settle` at the end.
    """

    def __init__(
        self,
        run: RunDirectory,
        learner: Learner,
        replay_learner: ReplayLearner,
        parameters: ParameterService,
        accepted: Callable[[], Mapping[int, int]],
        options: BookkeepingOptions,
    ):
        """Restores the newest checkpoint, if there is one.

        Args:
          run: the directory for rows and checkpoints.
          learner: is saved and published.
          replay_learner: makes the learner's updates.
          parameters: publishes the snapshots.
          accepted: asks the replay how many items it has accepted from each incarnation.
          options: see there.

        Raises:
          As `Checkpoints.restore`.
        """
        saved = SavedCounters()
        self._checkpoints = Checkpoints(run.checkpoints, {"learner": learner, "progress": saved})
        if self._checkpoints.restore():
            logging.info("resumed at learner step %d", int(learner.steps))
        last = csv_rows.last_row(run.learner_csv)
        known = (last["wall_seconds"], last["actor_steps"]) if last else ()
        self.counters = Counters(saved, *known)
        if last:
            parameters.continue_after(int(last["parameter_version"]))
        self._learner = learner
        self._replay_learner = replay_learner
        self._parameters = parameters
        self._accepted = accepted
        self._options = options
        self._log = LearnerLog(
            run, options.metrics, options.batch_size, options.num_copies, self.counters
        )
        self._pack = tf.function(lambda: packing.pack(tuple(learner.actor_variables)))
        self.version = 0
        """Of the newest snapshot."""
        self._published = 0
        self._polled_at = self._saved_at = time.monotonic()

    @property
    def steps(self) -> int:
        """Learner steps."""
        return int(self._learner.steps)

    def parameters(self) -> tf.Tensor:
        """Returns the learner's parameters at this moment, [P] float32."""
        return self._pack()

    def publish(self, finished: bool = False) -> None:
        """Publishes a snapshot, the run's last if `finished`."""
        self._published = self.steps
        self.version = self._parameters.publish(
            self.parameters(),
            self._published,
            self.counters.actor_steps,
            self.counters.wall_seconds,
            finished,
        )

    def save(self) -> None:
        """Writes a checkpoint; one that cannot be written is skipped, and the log says so."""
        self._replay_learner.flush()
        self.counters.store()
        self._saved_at = time.monotonic()
        try:
            self._checkpoints.save()
        except (tf.errors.OpError, OSError) as error:
            reason = disk_full(error) or str(error).splitlines()[0]
            logging.warning("no checkpoint, the one before stays: %s", reason)

    def after_call(self, metrics: Metrics | None) -> None:
        """Does what is due after a call that gave these metrics, None if it did nothing."""
        statistics = self._replay_learner.statistics  # the thread that draws ahead replaces it
        if metrics is not None:
            self._log.add(metrics)
        row_is_due = self._log.is_due()
        if row_is_due or time.monotonic() - self._polled_at >= _POLL_SECONDS:
            self._poll()
        if row_is_due:
            self._write_row(self.counters.wall_seconds, statistics)
        if self.steps - self._published >= self._options.publish_period:
            self.publish()
        if time.monotonic() - self._saved_at >= self._options.checkpoint_seconds:
            self.save()

    def settle(self, statistics: Callable[[], Statistics]) -> None:
        """Saves, waits for the last transitions of actors that end now, and writes the last row.

        Args:
          statistics: asks the memory for its counters.
        """
        wall_seconds = self.counters.wall_seconds
        self._poll()
        self.save()
        saved = before = self.counters.actor_steps
        deadline = time.monotonic() + _SETTLE_SECONDS
        changed_at = time.monotonic()
        while time.monotonic() < min(deadline, changed_at + _QUIET_SECONDS):
            time.sleep(0.1)
            self._poll()
            if self.counters.actor_steps != before:
                before, changed_at = self.counters.actor_steps, time.monotonic()
        if before != saved:
            self.save()
        try:
            last = statistics()
        except ServiceUnavailableError:
            last = None
        self._write_row(wall_seconds, last)
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

    def _poll(self) -> None:
        """Brings the counters up to date, as far as the replay can be asked."""
        self._polled_at = time.monotonic()
        try:
            items = self._accepted()
        except ServiceUnavailableError:
            items = {}  # it may be dead: save what only this process knows
        copies = self._options.num_copies
        if self.counters.update({start: count // copies for start, count in items.items()}):
            self.save()

    def _write_row(self, wall_seconds: float, statistics: Statistics | None) -> None:
        self._log.write(
            wall_seconds, self.steps, self.version, statistics, self._replay_learner.priority_lag
        )
