"""A run's bookkeeping: counters, the learner's log, checkpoints and published snapshots.

Wall-clock time and actor steps continue across restarts of learner, replay and actors. The log
consists of learner.csv and TensorBoard's events.
"""

from collections.abc import Callable, Mapping
import contextlib
import dataclasses
import math
import time
from typing import Any

from absl import logging
import numpy as np
import tensorflow as tf

from common.cluster.errors import ServiceUnavailableError
from common.cluster.processes import return_free_memory
from common.learning import learner
from common.learning.checkpoint import Checkpoints
from common.learning.learner import Learner
from common.learning.parameter_server import AppliedGradients
from common.learning.trainer import Trainer
from common.networks import packing
from common.remote.parameters import LearnerStatus, ParameterService
from common.replay.saving import StoreFile
from common.replay.store import Counters
from common.reporting import csv_rows
from common.reporting.csv_rows import CsvError, GrowingRows, NewRows
from common.reporting.records import disk_full
from common.reporting.run_directory import RunDirectory
from common.reporting.tensorboard import Events
from common.types import Metrics

_UNKNOWN = 0
"""Number that stands for all incarnations whose counts were lost; a replay assigns larger ones."""


class SavedCounters(tf.Module):
    """The counters in a checkpoint.

    Attributes:
      wall_seconds: float64, seconds since the run's first start.
      incarnations: int64 [n], numbers that the replay assigned to starts of actor processes.
      accepted: int64 [n], transitions accepted from each incarnation.
    """

    def __init__(self):
        super().__init__()
        self.wall_seconds = tf.Variable(0.0, dtype=tf.float64, trainable=False)
        self.incarnations = tf.Variable(tf.zeros([0], tf.int64), shape=[None], trainable=False)
        self.accepted = tf.Variable(tf.zeros([0], tf.int64), shape=[None], trainable=False)


class RunCounters:
    """Wall-clock time and actor steps of a run, continued from saved counters.

    An actor step counts once the replay has accepted the transition that begins with it. The replay
    counts by incarnation, and loses its counts when it dies. This class keeps the largest count
    ever reported for each incarnation, so that every accepted transition counts once.
    """

    def __init__(self, saved: SavedCounters, wall_seconds: float = 0.0, actor_steps: int = 0):
        """Starts the clock.

        Args:
          saved: the restored counters; `store` writes to them.
          wall_seconds: last time in learner.csv; it is later than the checkpoint's if the learner
            was killed.
          actor_steps: last number of actor steps in learner.csv, valid until the replay reports
            them.
        """
        self._known_actor_steps = actor_steps
        self._saved = saved
        self._begin = time.monotonic() - max(float(saved.wall_seconds), wall_seconds)
        self._accepted = dict(
            zip(saved.incarnations.numpy().tolist(), saved.accepted.numpy().tolist(), strict=True)
        )
        self._stored = dict(self._accepted)

    @property
    def wall_seconds(self) -> float:
        """Seconds since the run's first start, without the time between its starts."""
        return time.monotonic() - self._begin

    @property
    def actor_steps(self) -> int:
        """Accepted transitions of all actors, as of the last `update`."""
        return max(sum(self._accepted.values()), self._known_actor_steps)

    def count_unreported(self) -> None:
        """Adds steps that learner.csv recorded but no replay reports.

        Call it only where actors and replay die with this process.
        """
        unreported = self.actor_steps - sum(self._accepted.values())
        if unreported:
            self._accepted[_UNKNOWN] = self._accepted.get(_UNKNOWN, 0) + unreported

    def update(self, accepted: Mapping[int, int]) -> bool:
        """Merges the replay's counts.

        Args:
          accepted: transitions accepted from each incarnation.

        Returns:
          True if neither this replay nor the last `store` has all counts, because a replay has
          died. The caller then saves.
        """
        for incarnation, count in accepted.items():
            self._accepted[incarnation] = max(count, self._accepted.get(incarnation, 0))
        return any(
            count > max(self._stored.get(incarnation, 0), accepted.get(incarnation, 0))
            for incarnation, count in self._accepted.items()
        )

    def store(self) -> None:
        """Writes the current counts to the saved counters."""
        self._saved.wall_seconds.assign(self.wall_seconds)
        self._saved.incarnations.assign(list(self._accepted))
        self._saved.accepted.assign(list(self._accepted.values()))
        self._stored = dict(self._accepted)


@dataclasses.dataclass(frozen=True)
class BookkeepingOptions:
    """Options of `Bookkeeping`.

    Attributes:
      samples_per_update: items per update, or timesteps if the items are unrolls.
      num_copies: items per actor step.
      publish_period: learner steps between published snapshots.
      is_pulled: whether actors in this process copy the parameters. A snapshot that is due is then
        published from the same copy.
      checkpoint_seconds: time between checkpoints.
      poll_seconds: time between requests for the numbers of accepted actor steps.
      keep_every: learner steps between checkpoints that are never removed; 0 keeps none.
      quiet_seconds: time without a new transition after which the actors are assumed to have ended.
        Roles ask every second whether the run has ended. 0 if there are no other roles.
      q_bound: the largest possible value, in units of rewards; infinity if it is unknown. A metric
        `reward_scale` divides it, as it divides rewards.
    """

    samples_per_update: int
    num_copies: int
    publish_period: int
    checkpoint_seconds: float
    keep_every: int = 0
    poll_seconds: float = 1.0
    quiet_seconds: float = 4.0
    q_bound: float = math.inf
    is_pulled: bool = False


_SECONDS = 5.0
"""Time between rows."""
_GROUPS = {
    **dict.fromkeys(csv_rows.PROGRESS, "time"),
    **dict.fromkeys(("learner_steps_per_second", "actor_steps_per_second"), "time"),
    **dict.fromkeys(("samples_per_insert", "priority_lag_steps", "replay_size"), "replay"),
}
"""Groups of TensorBoard's tags by column; all other columns are in the group `learner`."""


class LearnerLog:
    """Writer of the learner's log: rows of counters, metrics and speeds.

    Metrics and speeds cover the time since the last row. The events also contain the mean return of
    the training episodes in that time, and the evaluations. The first update adds the columns of
    metrics.

    Attributes:
      best_return: the highest mean return of this start's evaluations, except evaluations of
        networks that have not been updated yet.
    """

    def __init__(self, run: RunDirectory, options: BookkeepingOptions, counters: RunCounters):
        """Opens the files.

        Args:
          run: the run's directory.
          options: sizes, and the bound on values.
          counters: the run's counters.
        """
        self._rows = GrowingRows(run.learner_csv, csv_rows.LEARNER)
        self._run, self._events = run, Events(run.path)
        record = run.read_config()
        hyperparameters = record.pop("config", {})
        self._events.write_hyperparameters({**record, **hyperparameters})
        self._returns = NewRows(run.acting_csv, "episode_return")
        self._evaluations = NewRows(run.evaluator_csv, *csv_rows.RESULT)
        self.best_return = -math.inf
        self._counters, self._options = counters, options
        self._has_warned = False
        self._metrics: list[Metrics] = []
        self._before: tuple[float, int, int] | None = None

    def add(self, metrics: Metrics) -> None:
        """Adds the metrics of a call to the next row."""
        self._metrics.append(metrics)

    def is_due(self) -> bool:
        """Returns whether it is time for a row."""
        return self._before is None or self._counters.wall_seconds - self._before[0] >= _SECONDS

    def write(
        self,
        wall_seconds: float,
        steps: int,
        version: int,
        stored: Counters | None,
        priority_lag: float,
        late: int = 0,
    ) -> None:
        """Writes a row.

        Args:
          wall_seconds: seconds since the run's first start.
          steps: number of learner steps so far.
          version: version of the newest published parameters.
          stored: counters of the store; None while it is unavailable.
          priority_lag: see `Trainer`.
          late: number of actor steps that were counted after `wall_seconds`.

        Raises:
          ValueError: a metric has the name of a column that every agent has.
        """
        actor_steps = self._counters.actor_steps
        before = self._before or (wall_seconds, steps, actor_steps)
        seconds = max(wall_seconds - before[0], 1e-9)
        self._before = (wall_seconds, steps, actor_steps)
        acted = actor_steps - late - before[2]
        inserted = acted * self._options.num_copies
        sampled = (steps - before[1]) * self._options.samples_per_update
        row = {
            "wall_seconds": round(wall_seconds, 2),
            "learner_steps": steps,
            "actor_steps": actor_steps,
            "learner_steps_per_second": round((steps - before[1]) / seconds, 2),
            "actor_steps_per_second": round(acted / seconds, 2),
            "samples_per_insert": round(sampled / inserted, 3) if inserted else None,
            "parameter_version": version,
            "priority_lag_steps": priority_lag,
            "replay_size": stored.items if stored else None,
        }
        for name in self._metrics[0] if self._metrics else ():
            if name in csv_rows.LEARNER:
                raise ValueError(f"learner.csv would have the column {name} twice")
            values = [float(metrics[name]) for metrics in self._metrics]
            row[name] = learner.reduce_metric(name, values)
        self._metrics = []
        if "mean_q" in row and self._options.q_bound < math.inf:
            self._compare_values(row)
        self._rows.append(row)
        scalars = {f"{_GROUPS.get(name, 'learner')}/{name}": row[name] for name in row}
        returns, evaluations = [], []
        with contextlib.suppress(CsvError):  # learning does not need these files
            returns = [number for (number,) in self._returns.read()]
            evaluations = self._evaluations.read()
        scalars["actor/episode_return"] = sum(returns) / len(returns) if returns else None
        self._events.write(scalars, steps)
        for _, _, evaluated, mean, deviation, _ in evaluations:
            if evaluated:
                self.best_return = max(self.best_return, mean)
            self._events.write_evaluation(self._run, mean, deviation, int(evaluated))

    def close(self) -> None:
        """Flushes TensorBoard's events."""
        self._events.close()

    def _compare_values(self, row: dict[str, Any]) -> None:
        """Adds the bound on values to a row; warns once if the mean value exceeds the bound."""
        bound = row["q_bound"] = self._options.q_bound / (row.get("reward_scale") or 1.0)
        if row["mean_q"] > bound and not self._has_warned:
            self._has_warned = True
            logging.warning(
                "mean_q, %.4g at learner step %d, exceeds the largest possible return, q_bound = "
                "%.4g: the critic overestimates; try lower learning rates",
                row["mean_q"],
                row["learner_steps"],
                bound,
            )


_SETTLE_SECONDS = 10.0
"""Longest wait for the actors' last transitions."""


class Bookkeeping:
    """Keeper of a run's counters, CSV rows, checkpoints and published snapshots.

    Call `after_call` after every call of the learner, and `settle` at the end.

    Attributes:
      counters: the run's counters.
      steps: learner steps at the last call.
      version: version of the newest snapshot, 0 before the first.
      store_file: file of the store in this process, if any; saved with each checkpoint.
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
        """Restores the newest checkpoint, if any.

        Args:
          run: the run's directory.
          learner: the networks to publish, and the optimisers to save with them.
          trainer: runs the learner's updates.
          parameters: publishes the snapshots.
          accepted: requests the number of actor steps accepted from each incarnation.
          options: periods and sizes.

        Raises:
          CheckpointError: `Checkpoints.restore` failed.
        """
        saved = SavedCounters()
        self._run, self._state = run, {"learner": learner, "progress": saved, **trainer.state}
        self._checkpoints = Checkpoints(run.checkpoints, self._state)
        is_resumed = self._checkpoints.restore()
        self.steps = int(learner.steps)
        last = csv_rows.last_row(run.learner_csv, ("wall_seconds", "actor_steps"))
        if is_resumed:
            logging.info("resumed at learner step %d", self.steps)
        elif last:
            logging.warning("there is no checkpoint: learning starts again at step 0")
        known = (last["wall_seconds"], int(last["actor_steps"])) if last else ()
        self.counters = RunCounters(saved, *known)
        self._learner = learner
        # Searched once, because Sonnet's search for variables takes as long as an update.
        self._actor_variables = tuple(learner.actor_variables)
        self._trainer = trainer
        self._parameters = parameters
        self._accepted = accepted
        self._options = options
        self.store_file: StoreFile | None = None
        self._log = LearnerLog(run, options, self.counters)
        self.version = 0
        self._published, self._kept = 0, self.steps
        self._polled_at = self._saved_at = time.monotonic()

    @property
    def wall_seconds(self) -> float:
        """Seconds since the run's first start."""
        return self.counters.wall_seconds

    @property
    def best_return(self) -> float:
        """The highest mean return of an evaluation; see `LearnerLog`."""
        return self._log.best_return

    def parameters(self) -> np.ndarray:
        """Returns the learner's current parameters, [P] float32, for actors of this process."""
        flat = packing.to_numpy(self._actor_variables)
        if self._options.is_pulled and self._is_due:
            self.publish(flat=flat)
        return flat

    def status(self, finished: bool) -> LearnerStatus:
        """Returns the learner's progress; `finished` says that it has ended."""
        self.poll()
        counters = self.counters
        return LearnerStatus(
            self.version, self.steps, counters.actor_steps, counters.wall_seconds, finished
        )

    @property
    def _is_due(self) -> bool:
        return self.steps - self._published >= self._options.publish_period

    def publish(self, finished: bool = False, flat: np.ndarray | None = None) -> None:
        """Publishes a snapshot, of the parameters `flat` if given; `finished` marks the last."""
        self._published = self.steps
        self.version = self._parameters.publish(
            packing.to_numpy(self._actor_variables) if flat is None else flat,
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
        is_to_keep = self._is_to_keep
        if is_to_keep:
            self._kept = self.steps  # also if the disk is full
        try:
            if is_to_keep:  # first: a restart from the other one would skip it
                Checkpoints(self._run.kept_checkpoint(self.steps), self._state).save()
            self._checkpoints.save()
        except (tf.errors.OpError, OSError) as error:
            reason = disk_full(error) or str(error).splitlines()[0]
            logging.warning("cannot write a checkpoint: %s; the previous one is kept", reason)
        return_free_memory()  # otherwise the process grows slowly for hours
        if self.store_file is not None:
            self.store_file.begin_to_save()

    def close_store_file(self, is_over: bool) -> None:
        """Closes the file of the store with `StoreFile.close`; a second call does nothing."""
        if self.store_file is not None:
            self.store_file.close(is_over)
            self.store_file = None

    def after_call(self, metrics: Metrics | None) -> None:
        """Polls the replay, writes a row, publishes and saves, if each of these is due.

        Args:
          metrics: result of the learner's call; None if the call made no update.
        """
        counters = self._trainer.counters  # the prefetching thread may replace it
        if metrics is not None:
            self.steps = learner.count(self._learner.steps)
            self._log.add(metrics)
        row_is_due = self._log.is_due()
        if row_is_due or time.monotonic() - self._polled_at >= self._options.poll_seconds:
            self.poll()
        if row_is_due:
            self._write_row(self.counters.wall_seconds, counters)
        if self._is_due and not self._options.is_pulled:
            self.publish()
        if (
            self._is_to_keep
            or time.monotonic() - self._saved_at >= self._options.checkpoint_seconds
        ):
            self.save()

    @property
    def _is_to_keep(self) -> bool:
        """True if a checkpoint written now is never to be removed."""
        period = self._options.keep_every
        return period > 0 and self.steps // period > self._kept // period

    def poll(self) -> None:
        """Updates the counters from the replay, and saves them if the replay has lost counts."""
        self._polled_at = time.monotonic()
        try:
            accepted = self._accepted()
        except ServiceUnavailableError:
            accepted = {}  # it may be dead: save the counts that only this process has
        if self.counters.update(accepted):
            self.save()

    def settle(self, ask: Callable[[], Counters]) -> None:
        """Waits for the last transitions of the ending actors, saves them, and writes the last row.

        Args:
          ask: requests the store's counters.
        """
        wall_seconds = self.counters.wall_seconds
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
        self._write_row(wall_seconds, last, late=self.counters.actor_steps - saved)
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

    def _write_row(self, wall_seconds: float, counters: Counters | None, late: int = 0) -> None:
        lag = self._trainer.priority_lag
        self._log.write(wall_seconds, self.steps, self.version, counters, lag, late)
