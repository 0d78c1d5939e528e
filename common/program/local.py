"""A run on this machine, as the person in front of it sees it."""

import time
from typing import Any

from common.cluster.errors import ClusterError
from common.cluster.launcher import LocalCluster, State
from common.cluster.processes import StopRequest
from common.reporting import csv_rows
from common.reporting.budget import Budget
from common.reporting.progress import ProgressLine
from common.reporting.run_directory import RunDirectory

_STOP_SECONDS = 60.0
_NEWS_SECONDS = 15.0
"""A learner that writes a row every five seconds is busy otherwise, or down, when none came."""
_SPEEDS = ("learner_steps_per_second", "actor_steps_per_second", "samples_per_insert")


class LocalRun:
    """Starts the roles, shows how they do, stops them, and says what came out."""

    def __init__(
        self,
        directory: RunDirectory,
        cluster: LocalCluster,
        stop: StopRequest,
        max_minutes: float | None,
        max_actor_steps: int | None,
        max_learner_steps: int | None,
        min_replay_size: int,
    ):
        self._directory = directory
        self._cluster = cluster
        self._stop = stop
        self._max_seconds = None if max_minutes is None else 60 * max_minutes
        self._max_actor_steps = max_actor_steps
        self._max_learner_steps = max_learner_steps
        self._min_replay_size = min_replay_size
        row = csv_rows.last_row(directory.learner_csv)
        self._last_wall = -1.0 if row is None else row["wall_seconds"]  # of an earlier start
        self._seen_at = time.monotonic()
        self._news = False

    def run(self, title: str) -> None:
        """Returns when the run is over, or was stopped by Ctrl-C or SIGTERM in good order.

        Raises:
          ClusterError: a role failed for good; the message ends with the last lines of its log.
        """
        minutes = None if self._max_seconds is None else self._max_seconds / 60
        budget = Budget(minutes, self._max_actor_steps, self._max_learner_steps)
        progress = ProgressLine(budget, self._min_replay_size)
        progress.print(f"{title}; run directory {self._directory.path}")
        failure = result = None
        outcome = "failed"
        try:
            self._cluster.start()
            while failure is None and not self._stop.wait(0.5):
                failure = self._cluster.failure()
                self._show(progress)
                learner = self._cluster.states()["learner", 0]
                if not learner.running and learner.exit_code == 0:
                    break
            if self._stop.requested:
                outcome = "stopped"
                progress.print("stopping: the learner saves a checkpoint")
            elif failure is None:
                outcome = "finished"
                result = self._result(title)  # it takes as long as the others need to end
        finally:
            progress.close()
            try:
                self._cluster.stop(_STOP_SECONDS)
            finally:
                self._directory.close_run_record(outcome)
        if failure is not None:
            raise ClusterError(failure)
        print(result or self._result(title), flush=True)

    def _show(self, progress: ProgressLine) -> None:
        row = csv_rows.last_row(self._directory.learner_csv)
        if row is not None and row["wall_seconds"] != self._last_wall:
            self._last_wall, self._seen_at, self._news = row["wall_seconds"], time.monotonic(), True
        silence = time.monotonic() - self._seen_at
        elapsed = max(self._last_wall, 0.0) + silence
        states = self._cluster.states()
        notes = [_note(name, index, state) for (name, index), state in states.items()]
        if row is not None and not (
            self._news and silence < _NEWS_SECONDS and states["learner", 0].running
        ):
            row |= dict.fromkeys(_SPEEDS)  # those of the last row are not those of this moment
            if self._is_over(row, elapsed):
                notes.append("waiting for the last evaluation")
            elif silence >= _NEWS_SECONDS:
                notes.append(f"no news from the learner for {silence:.0f}s")
        evaluation = csv_rows.last_row(self._directory.evaluator_csv)
        progress.update(row, evaluation, elapsed, note=", ".join(filter(None, notes)))

    def _is_over(self, row: dict[str, Any], elapsed: float) -> bool:
        limits = (
            (self._max_seconds, elapsed),
            (self._max_actor_steps, row["actor_steps"]),
            (self._max_learner_steps, row["learner_steps"]),
        )
        return any(limit is not None and value >= limit for limit, value in limits)

    def _result(self, title: str) -> str:
        """Draws the learning curve and returns what to print."""
        evaluation = csv_rows.last_row(self._directory.evaluator_csv)
        if evaluation is None:
            return f"no evaluation yet; the logs are in {self._directory.logs}"
        from common.reporting import curves

        picture = self._directory.path / "learning_curve.png"
        curves.learning_curve(self._directory, picture, title)
        return (
            f"evaluator return {evaluation['episode_return_mean']:.1f} +- "
            f"{evaluation['episode_return_std']:.1f} ({evaluation['episodes']} episodes) after "
            f"{evaluation['wall_seconds']:.0f} s, {evaluation['actor_steps']:,} actor steps, "
            f"{evaluation['learner_steps']:,} learner steps\nlearning curve {picture}"
        )


def _note(name: str, index: int, state: State) -> str:
    """What there is to say of a role's process; nothing of one that has run from the start."""
    down = not state.running and state.exit_code != 0
    times = f"restarted {state.restarts}x" if state.restarts else ""
    words = " and ".join(filter(None, [times, "down" if down else ""]))
    return f"{name} {index} {words}" if words else ""
