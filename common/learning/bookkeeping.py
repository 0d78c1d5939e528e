"""Bookkeeping of a run beside its updates: counters, CSV rows, checkpoints and snapshots."""

from collections.abc import Callable, Mapping, Sequence
import dataclasses
import time

from absl import logging
import numpy as np
import tensorflow as tf

from common.cluster.errors import ServiceUnavailableError
from common.cluster.processes import return_free_memory
from common.learning.applied_gradients import AppliedGradients
from common.learning.checkpoint import Checkpoints
from common.learning.counters import RunCounters, SavedCounters
from common.learning.learner import Learner
from common.learning.log import LearnerLog
from common.learning.trainer import Trainer
from common.networks import packing
from common.remote.parameters import LearnerStatus, ParameterService
from common.replay.store import Counters
from common.replay.store_file import StoreFile
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
      poll_seconds: time between requests for the numbers of accepted actor steps.
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
      store_file: of the store in this process, if there is one; saved with each checkpoint.
    """

    def __init__(
        self,
        run: RunDirectory,
        learner: Learner,
        trainer: Trainer | AppliedGradients,
        parameters: ParameterService,
        accepted: Callable[[], Mapping[int, int]],
        options: BookkeepingOptions,
    ):
        """Restores the newest checkpoint, if there is one.

        Args:
          run: the run's directory.
          learner: the networks and optimisers to save and to publish.
          trainer: makes the learner's updates.
          parameters: publishes the snapshots.
          accepted: asks for the number of actor steps accepted from each incarnation.
          options: periods and sizes.

        Raises:
          CheckpointError: see `Checkpoints.restore`.
        """
        saved = SavedCounters()
        self._checkpoints = Checkpoints(
            run.checkpoints, {"learner": learner, "progress": saved, **trainer.state}
        )
        is_resumed = self._checkpoints.restore()
        self.steps = int(learner.steps)
        last = csv_rows.last_row(run.learner_csv, ("wall_seconds", "actor_steps"))
        if is_resumed:
            logging.info("resumed at learner step %d", self.steps)
        elif last:
            logging.warning("there is no checkpoint: learning begins again at step 0")
        known = (last["wall_seconds"], int(last["actor_steps"])) if last else ()
        self.counters = RunCounters(saved, *known)
        self._learner = learner
        # Once: Sonnet's search for a module's variables takes as long as an update.
        self._actor_variables = tuple(learner.actor_variables)
        self._trainer = trainer
        self._parameters = parameters
        self._accepted = accepted
        self._options = options
        self.store_file: StoreFile | None = None
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
        return packing.to_numpy(self._actor_variables)

    def status(self, finished: bool = False) -> LearnerStatus:
        """Returns the learner's progress; `finished` says that it has ended."""
        self.poll()
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
        self._trainer.flush()
        self.counters.store()
        self._saved_at = time.monotonic()
        try:
            self._checkpoints.save()
        except (tf.errors.OpError, OSError) as error:
            reason = disk_full(error) or str(error).splitlines()[0]
            logging.warning("cannot write a checkpoint, the previous one stays: %s", reason)
        return_free_memory()  # otherwise it grows slowly for hours
        if self.store_file is not None:
            self.store_file.begin_to_save()

    def close_store_file(self, is_over: bool) -> None:
        """Closes the file of the store, see `StoreFile.close`; does nothing the second time."""
        if self.store_file is not None:
            self.store_file.close(is_over)
            self.store_file = None

    def after_call(self, metrics: Metrics | None) -> None:
        """Polls the replay, writes a row, publishes and saves, each if it is due.

        Args:
          metrics: result of the learner's call, None if it made no update.
        """
        counters = self._trainer.counters  # the prefetching thread may replace it
        if metrics is not None:
            self.steps = int(self._learner.steps)
            self._log.add(metrics)
        row_is_due = self._log.is_due()
        if row_is_due or time.monotonic() - self._polled_at >= self._options.poll_seconds:
            self.poll()
        if row_is_due:
            self._write_row(self.counters.wall_seconds, counters)
        if self.steps - self._published >= self._options.publish_period:
            self.publish()
        if time.monotonic() - self._saved_at >= self._options.checkpoint_seconds:
            self.save()

    def poll(self) -> None:
        """Updates the counters from the replay, and saves them if its counts were lost."""
        self._polled_at = time.monotonic()
        try:
            accepted = self._accepted()
        except ServiceUnavailableError:
            accepted = {}  # it may be dead: save the counts that only this process has
        if self.counters.update(accepted):
            self.save()

    def settle(self, ask: Callable[[], Counters]) -> None:
        """Saves, waits for the last transitions of the ending actors, and writes the last row.

        Args:
          ask: asks the store for its counters.
        """
        wall_seconds = self.counters.wall_seconds
        self.poll()
        self.save()
        saved = before = self.counters.actor_steps
        deadline = time.monotonic() + _SETTLE_SECONDS
        changed_at = time.monotonic()
        while time.monotonic() < min(deadline, changed_at + self._options.quiet_seconds):
            time.sleep(0.1)
            self.poll()
            if self.counters.actor_steps != before:
                before, changed_at = self.counters.actor_steps, time.monotonic()
        if before != saved:
            self.save()
        try:
            last = ask()
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

    def _write_row(self, wall_seconds: float, counters: Counters | None) -> None:
        self._log.write(
            wall_seconds, self.steps, self.version, counters, self._trainer.priority_lag
        )
