"""The learner's log: learner.csv and TensorBoard events."""

from collections.abc import Sequence
import contextlib

from common.learning import metrics as metrics_lib
from common.learning.counters import RunCounters
from common.replay.store import Counters
from common.reporting import columns
from common.reporting.csv_rows import CsvError, CsvRows, NewNumbers
from common.reporting.run_directory import RunDirectory
from common.reporting.tensorboard import Events
from common.types import Metrics

_SECONDS = 5.0
"""Time between rows."""
_GROUPS = {
    **dict.fromkeys(columns.PROGRESS, "time"),
    **dict.fromkeys(("learner_steps_per_second", "actor_steps_per_second"), "time"),
    **dict.fromkeys(("samples_per_insert", "priority_lag_steps", "replay_size"), "replay"),
}
"""The groups of TensorBoard's tags by column; the others are the learner's."""


class LearnerLog:
    """Writer of rows of counters, metrics and speeds.

    Metrics and speeds cover the time since the last row. So do the returns of training episodes,
    which are among the events as their mean.
    """

    def __init__(
        self,
        run: RunDirectory,
        metrics: Sequence[str],
        samples_per_update: int,
        num_copies: int,
        counters: RunCounters,
    ):
        """Opens the files.

        Args:
          run: the run's directory.
          metrics: names of the metrics that the learner's updates report.
          samples_per_update: items per update; timesteps, where the items are unrolls.
          num_copies: items per actor step.
          counters: of the run.
        """
        self._columns = columns.learner(metrics)
        self._rows = CsvRows(run.learner_csv, self._columns)
        self._events = Events(run.tensorboard)
        record = run.read_config()
        self._events.write_hyperparameters({**record, **record.pop("config", {})})
        self._returns = NewNumbers(run.acting_csv, "episode_return")
        self._counters = counters
        self._samples_per_update = samples_per_update
        self._num_copies = num_copies
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
    ) -> None:
        """Writes a row.

        Args:
          wall_seconds: since the run's first start.
          steps: learner steps done.
          version: version of the newest published parameters.
          stored: counters of the store, None while it is gone.
          priority_lag: see `Trainer`.
        """
        actor_steps = self._counters.actor_steps
        before = self._before or (wall_seconds, steps, actor_steps)
        seconds = max(wall_seconds - before[0], 1e-9)
        self._before = (wall_seconds, steps, actor_steps)
        acted = actor_steps - before[2]
        inserted = acted * self._num_copies
        sampled = (steps - before[1]) * self._samples_per_update
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
            values = [float(metrics[name]) for metrics in self._metrics]
            row[name] = metrics_lib.reduce(name, values)
        self._metrics = []
        row = {name: row.get(name) for name in self._columns}
        self._rows.append(row)
        scalars = {f"{_GROUPS.get(name, 'learner')}/{name}": row[name] for name in row}
        returns = []
        with contextlib.suppress(CsvError):  # learning needs no such file
            returns = self._returns.read()
        scalars["actor/episode_return"] = sum(returns) / len(returns) if returns else None
        self._events.write(scalars, steps)

    def close(self) -> None:
        """Flushes TensorBoard's events."""
        self._events.close()
