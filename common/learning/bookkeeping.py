"""Bookkeeping of a run beside its updates: counters, CSV rows, checkpoints and snapshots."""

from collections.abc import Callable, Mapping, Sequence
import dataclasses
import time

from absl import logging
import numpy as np
import tensorflow as tf

from common.cluster.errors import ServiceUnavailableError
from common.cluster.parameters import LearnerStatus, ParameterService
from common.learning.checkpoint import Checkpoints
from common.learning.counters import Counters, SavedCounters
from common.learning.learner import Learner
from common.learning.log import LearnerLog
from common.learning.updates import Updates
from common.networks import packing
from common.replay.replay_memory import AnyStatistics
from common.reporting import csv_rows
from common.reporting.disk import disk_full
from common.reporting.run_directory import RunDirectory
from common.types import Metrics

_SETTLE_SECONDS = 10.0
"""Longest wait for the actors' last transitions."""


@dataclasses.dataclass(frozen=True)
class BookkeepingOptions:
    """Options of `Bookkeeping`.

    Attributes:
      metrics: names of the metrics that the learner's updates report.
      samples_per_update: items per update; timesteps, where the items are unrolls.
      num_copies: items per actor step.
      publish_period: learner steps between published snapshots.
      checkpoint_seconds: time between checkpoints.
      poll_seconds: time between requests to the replay for the numbers of accepted items.
      quiet_seconds: time without a transition after which the actors have ended; the roles ask
        every second whether the run has. 0 if there are no other roles.
    """

    metrics: Sequence[str]
    samples_per_update: int
    num_copies: int
    publish_period: int
    checkpoint_seconds: float
    poll_seconds: float = 1.0
    quiet_seconds: float = 4.0


class Bookkeeping:
    """Keeper of a run's counters, CSV rows, checkpoints and published snapshots.

    Call `after_call` after every call of the learner, and `settle` at the end.

    Attributes:
      counters: of the run.
      steps: learner steps done, as of the last call.
      version: version of the newest snapshot, 0 before the first.
    """

    def __init__(
        self,
        run: RunDirectory,
        learner: Learner,
        updates: Updates,
        parameters: ParameterService,
        accepted: Callable[[], Mapping[int, int]],
        options: BookkeepingOptions,
    ):
        """Restores the newest checkpoint, if there is one.

        Args:
          run: the run's directory.
          learner: the networks and optimisers to save and to publish.
          updates: makes the learner's updates.
          parameters: publishes the snapshots.
          accepted: asks the replay for the number of items accepted from each incarnation.
          options: periods and sizes.

        Raises:
          CheckpointError: see `Checkpoints.restore`.
        """
        saved = SavedCounters()
        self._checkpoints = Checkpoints(
            run.checkpoints, {"learner": learner, "progress": saved, **updates.state}
        )
        is_resumed = self._checkpoints.restore()
        self.steps = int(learner.steps)
        if is_resumed:
            logging.info("resumed at learner step %d", self.steps)
        last = csv_rows.last_row(run.learner_csv, ("wall_seconds", "actor_steps"))
        known = (last["wall_seconds"], int(last["actor_steps"])) if last else ()
        self.counters = Counters(saved, *known)
        self._learner = learner
        self._updates = updates
        self._parameters = parameters
        self._accepted = accepted
        self._options = options
        self._log = LearnerLog(
            run, options.metrics, options.samples_per_update, options.num_copies, self.counters
        )
        self.version = 0
        self._published = 0
        self._polled_at = self._saved_at = time.monotonic()

    @property
    def wall_seconds(self) -> float:
        """Seconds since the run's first start."""
        return self.counters.wall_seconds

    def parameters(self) -> np.ndarray:
        """Returns the learner's current parameters, [P] float32."""
        return packing.to_numpy(self._learner.actor_variables)

    def status(self, finished: bool = False) -> LearnerStatus:
        """Returns the learner's progress; `finished` says that it has ended."""
        self._poll()
        counters = self.counters
        return LearnerStatus(
            self.version, self.steps, counters.actor_steps, counters.wall_seconds, finished
        )

    def publish(self, finished: bool = False) -> None:
        """Publishes a snapshot; `finished` marks it as the run's last."""
        self._published = self.steps
        self.version = self._parameters.publish(
            self.parameters(),
            self._published,
            self.counters.actor_steps,
            self.counters.wall_seconds,
            finished,
        )

    def save(self) -> None:
        """Writes a checkpoint, or logs a warning if that fails."""
        self._updates.flush()
        self.counters.store()
        self._saved_at = time.monotonic()
        try:
            self._checkpoints.save()
        except (tf.errors.OpError, OSError) as error:
            reason = disk_full(error) or str(error).splitlines()[0]
            logging.warning("cannot write a checkpoint, the previous one stays: %s", reason)

    def after_call(self, metrics: Metrics | None) -> None:
        """Polls the replay, writes a row, publishes and saves, each if it is due.

        Args:
          metrics: result of the learner's call, None if it made no update.
        """
        statistics = self._updates.statistics  # the prefetching thread may replace it
        if metrics is not None:
            self.steps = int(self._learner.steps)
            self._log.add(metrics)
        row_is_due = self._log.is_due()
        if row_is_due or time.monotonic() - self._polled_at >= self._options.poll_seconds:
            self._poll()
        if row_is_due:
            self._write_row(self.counters.wall_seconds, statistics)
        if self.steps - self._published >= self._options.publish_period:
            self.publish()
        if time.monotonic() - self._saved_at >= self._options.checkpoint_seconds:
            self.save()

    def settle(self, statistics: Callable[[], AnyStatistics]) -> None:
        """Saves, waits for the last transitions of the ending actors, and writes the last row.

        Args:
          statistics: asks the memory for its counters.
        """
        wall_seconds = self.counters.wall_seconds
        self._poll()
        self.save()
        saved = before = self.counters.actor_steps
        deadline = time.monotonic() + _SETTLE_SECONDS
        changed_at = time.monotonic()
        while time.monotonic() < min(deadline, changed_at + self._options.quiet_seconds):
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
                "the replay inserted %d items and refused %d duplicates, removed %d, holds %d; %d "
                "priority updates came after the removal of their item",
                last.inserted,
                last.duplicates,
                last.removed,
                last.items,
                last.missing,
            )

    def _poll(self) -> None:
        """Updates the counters from the replay, and saves them if its counts were lost."""
        self._polled_at = time.monotonic()
        try:
            items = self._accepted()
        except ServiceUnavailableError:
            items = {}  # it may be dead: save the counts that only this process has
        copies = self._options.num_copies
        if self.counters.update({start: count // copies for start, count in items.items()}):
            self.save()

    def _write_row(self, wall_seconds: float, statistics: AnyStatistics | None) -> None:
        self._log.write(
            wall_seconds, self.steps, self.version, statistics, self._updates.priority_lag
        )
