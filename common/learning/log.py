"""learner.csv and TensorBoard."""

from common.agents.agent import Agent
from common.learning import metrics as metrics_lib
from common.learning.counters import Counters
from common.learning.update_loop import Metrics
from common.replay.memory import Statistics
from common.reporting import columns
from common.reporting.csv_rows import CsvRows
from common.reporting.run_directory import RunDirectory
from common.reporting.tensorboard import Scalars

_SECONDS = 5.0
"""Between rows."""


class LearnerLog:
    """Rows of counters, metrics and speeds; speeds and metrics are of the time since the last."""

    def __init__(self, run: RunDirectory, agent: Agent, counters: Counters):
        self._columns = columns.learner(agent.metrics)
        self._rows = CsvRows(run.learner_csv, self._columns)
        self._scalars = Scalars(run.tensorboard)
        self._counters = counters
        self._batch_size = agent.batch_size
        self._num_copies = agent.num_copies
        self._metrics: list[Metrics] = []
        self._before: tuple[float, int, int] | None = None

    def see(self, metrics: Metrics | None) -> None:
        """Takes the metrics of a call, None if it did nothing."""
        if metrics is not None:
            self._metrics.append(metrics)

    def is_due(self) -> bool:
        """Whether it is time for a row."""
        return self._before is None or self._counters.wall_seconds - self._before[0] >= _SECONDS

    def write(
        self,
        wall: float,
        steps: int,
        version: int,
        statistics: Statistics | None,
        priority_lag: float,
    ) -> None:
        """Writes a row.

        Args:
          wall: the run's seconds.
          steps: of the learner.
          version: of the newest published parameters.
          statistics: the memory's, None while it is gone.
          priority_lag: see results/README.md.
        """
        actor_steps = self._counters.actor_steps
        before = self._before or (wall, steps, actor_steps)
        seconds = max(wall - before[0], 1e-9)
        self._before = (wall, steps, actor_steps)
        acted = actor_steps - before[2]
        inserted = acted * self._num_copies
        sampled = (steps - before[1]) * self._batch_size
        row = {
            "wall_seconds": round(wall, 2),
            "learner_steps": steps,
            "actor_steps": actor_steps,
            "learner_steps_per_second": round((steps - before[1]) / seconds, 2),
            "actor_steps_per_second": round(acted / seconds, 2),
            "samples_per_insert": round(sampled / inserted, 3) if inserted else None,
            "parameter_version": version,
            "priority_lag_steps": priority_lag,
            "replay_size": statistics.items if statistics else None,
        }
        for name in self._metrics[0].keys() if self._metrics else ():
            values = [float(metrics[name]) for metrics in self._metrics]
            row[name] = metrics_lib.reduce(name, values)
        self._metrics = []
        row = {name: row.get(name) for name in self._columns}
        self._rows.append(row)
        self._scalars.write({f"learner/{name}": value for name, value in row.items()}, steps)

    def close(self) -> None:
        """Flushes TensorBoard's events."""
        self._scalars.close()
