"""A run that this process starts: its processes, its progress line and its result."""

import contextlib
import os
import pathlib
import sys
import time

from common.cluster.errors import ClusterError
from common.cluster.launcher import Cluster, ProcessState
from common.cluster.layout import Layout
from common.cluster.processes import StopRequest
from common.program import available
from common.reporting import columns, csv_rows, provenance, result
from common.reporting.budget import Budget
from common.reporting.csv_rows import CsvError
from common.reporting.progress import ProgressLine
from common.reporting.run_directory import RunDirectory

_STOP_SECONDS = 60.0
_NEWS_SECONDS = 15.0
"""Age at which the last row is out of date. Rows come every five seconds unless the learner is down
or busy with something else."""
_IDLE_SECONDS = 30.0
"""No actor step for this long is reported. Actors that the rate limiter holds back still step more
often than this."""
_LAST_EVALUATION_SECONDS = 1800.0
"""Longest wait for roles that outlive the role that keeps the run."""
_FULL_DISK_BYTES = 10**6
"""Free bytes that are too few for a checkpoint."""
_SPEEDS = ("learner_steps_per_second", "actor_steps_per_second", "samples_per_insert")


class LocalRun:
    """A run whose processes this one starts: it shows progress, stops them, prints the result."""

    def __init__(
        self,
        directory: RunDirectory,
        layout: Layout,
        limits: Budget,
        min_replay_size: int,
        checkpoint_seconds: float,
        title: str,
        stop: StopRequest,
    ):
        """Prepares the run.

        Args:
          directory: the run's directory.
          layout: the run's layout.
          limits: the run is over when it reaches one of them.
          min_replay_size: items in the replay before the first update.
          checkpoint_seconds: time between checkpoints.
          title: names of agent and environment, to print.
          stop: the request to stop the run.
        """
        self._directory = directory
        self._layout = layout
        self._limits = limits
        self._min_replay_size = min_replay_size
        self._checkpoint_seconds = checkpoint_seconds
        self._title = title
        self._stop = stop
        row = csv_rows.last_row(directory.learner_csv, columns.PROGRESS)
        self._last_wall = -1.0 if row is None else row["wall_seconds"]  # of an earlier start
        self._seen_at = time.monotonic()
        self._has_news = False
        self._actor_steps, self._acted_at = 0, self._seen_at
        self._written_at, self._saved_at = _written_at(directory.checkpoints), self._seen_at

    def run(self, cluster: Cluster) -> None:
        """Runs the processes until the run is over or a stop is requested.

        Args:
          cluster: the processes, not started yet.

        Raises:
          ClusterError: a role failed for good. The message ends with the last lines of its log.
          KeyboardInterrupt: a second Ctrl-C; the processes are ended at once.
        """
        try:
            self._run(cluster)
        except KeyboardInterrupt as interrupt:
            cluster.stop(0.0)  # it may have come while they ended in order
            raise KeyboardInterrupt(f"{interrupt}; {_how_to_go_on()}") from None

    def _run(self, cluster: Cluster) -> None:
        progress = ProgressLine(self._limits, self._min_replay_size)
        progress.print(f"{self._title}; run directory {self._directory.path}")
        if self._last_wall >= 0 and not self._written_at:
            progress.print("the run has rows but no checkpoint: learning begins again at step 0")
        failure = None
        # The descriptor keeps the inode number, by which it is known, from being used again.
        opened = os.open(self._directory.path, os.O_RDONLY)
        try:
            cluster.start()
            failure = self._wait(cluster, progress, opened)
            if self._stop.requested:
                progress.print(f"stopping: {self._to_save(cluster)}")
        except KeyboardInterrupt:
            cluster.stop(0.0)
            raise
        finally:
            progress.close()
            cluster.stop(_STOP_SECONDS)
            failure = _departure(self._directory.path, opened) or failure
            os.close(opened)
        if failure is not None:
            raise ClusterError(failure)
        finished = result.is_over(self._directory, self._limits)
        print(result.of(self._directory, self._title, finished), flush=True)
        if self._stop.requested and not finished:
            print(f"stopped; {_how_to_go_on()}", flush=True)

    def _wait(self, cluster: Cluster, progress: ProgressLine, opened: int) -> str | None:
        """Waits for the end of the run; returns the failure that ended it, or None."""
        last = [role.name for role in self._layout.roles if role.outlives_keeper]
        finished_at = None
        while not self._stop.wait(0.5):
            if moved := _departure(self._directory.path, opened):
                cluster.stop(0.0)  # what the roles write by the old path would begin another run
                return moved
            failure = cluster.failure()
            if failure is not None:
                return failure
            for event in cluster.take_events():
                progress.print(event)
            states = cluster.states()
            with contextlib.suppress(CsvError):  # a later row may be whole; the end names it
                self._show(progress, states)
            if not _has_ended(states[self._layout.keeper.name, 0]):
                continue
            finished_at = finished_at or time.monotonic()
            waits = any(name in last and not _has_ended(one) for (name, _), one in states.items())
            if not waits or time.monotonic() - finished_at > _LAST_EVALUATION_SECONDS:
                return None
        return None

    def _to_save(self, cluster: Cluster) -> str:
        """Returns what the role that keeps the run does before it ends."""
        keeper = self._layout.keeper.name
        state = cluster.states()[keeper, 0]
        if _has_ended(state):
            return "everything is learnt and saved, the last evaluation is not waited for"
        if state.running and state.has_been_ready:
            return f"the {keeper} saves what it has learnt"
        return f"the {keeper} has not begun to learn, so there is nothing new to save"

    def _show(self, progress: ProgressLine, states: dict[tuple[str, int], ProcessState]) -> None:
        row = csv_rows.last_row(self._directory.learner_csv, columns.PROGRESS)
        if row is not None and row["wall_seconds"] != self._last_wall:
            self._last_wall, self._seen_at = row["wall_seconds"], time.monotonic()
            self._has_news = True
            if row["actor_steps"] != self._actor_steps:
                self._actor_steps, self._acted_at = row["actor_steps"], self._seen_at
        silence = time.monotonic() - self._seen_at
        elapsed = max(self._last_wall, 0.0) + silence * self._has_news  # starts do not count
        keeper = self._layout.keeper.name
        notes = [_note(name, index, state) for (name, index), state in states.items()]
        is_fresh = self._has_news and silence < _NEWS_SECONDS and states[keeper, 0].running
        if row is not None and not is_fresh:
            row |= dict.fromkeys(_SPEEDS)  # the last row's speeds are out of date
            if self._limits.reached_by(row | {"wall_seconds": elapsed}):
                notes.append("waiting for the last evaluation")
            elif silence >= _NEWS_SECONDS:
                notes.append(f"no news from the {keeper} for {silence:.0f}s")
        if row is None and not states[keeper, 0].has_been_ready:
            notes.append("starting")
        disk = available.disk(self._directory.path)
        if disk is not None and disk < _FULL_DISK_BYTES:
            notes.append("disk full")
        written_at = _written_at(self._directory.checkpoints)
        if written_at != self._written_at:  # not by the clock, which may be set
            self._written_at, self._saved_at = written_at, time.monotonic()
        unsaved = time.monotonic() - self._saved_at
        if is_fresh and unsaved >= 2 * self._checkpoint_seconds + _NEWS_SECONDS:
            notes.append(f"no checkpoint for {unsaved:.0f}s")
        idle = time.monotonic() - self._acted_at
        if is_fresh and idle >= _IDLE_SECONDS:
            notes.append(f"no actor step for {idle:.0f}s")
        evaluation = csv_rows.last_row(self._directory.evaluator_csv, columns.RESULT)
        progress.update(row, evaluation, elapsed, note=", ".join(filter(None, notes)))


def _how_to_go_on() -> str:
    """Returns the command line that started this program, for a shell."""
    return f"to go on: {provenance.as_shell_words(sys.orig_argv)}"


def _departure(path: pathlib.Path, opened: int) -> str | None:
    """Returns the error of a run directory that is no longer at its path, None if it is there.

    Args:
      path: of the run directory.
      opened: a descriptor of the directory that was there at the start.
    """
    try:
        if os.path.samestat(os.stat(path), os.fstat(opened)):
            return None
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError:  # a file system that does not answer now
        return None
    lost = f"the run directory {path} was {{}} while the run went on: the run has ended"
    now = os.path.realpath(f"/proc/self/fd/{opened}")
    if now.endswith(" (deleted)"):
        return lost.format("removed")
    return f"{lost.format(f'moved to {now}')}; --workdir={now} goes on from the last checkpoint"


def _has_ended(state: ProcessState) -> bool:
    """Returns whether a process has finished its work."""
    return not state.running and state.exit_code == 0


def _written_at(checkpoints: pathlib.Path) -> float:
    """Returns when the newest checkpoint was written, 0 if there is none."""
    try:
        return (checkpoints / "checkpoint").stat().st_mtime
    except OSError:
        return 0.0


def _note(name: str, index: int, state: ProcessState) -> str:
    """Returns a note about restarts of a process, "" if it has run without any."""
    down = "down" if not state.running and state.exit_code != 0 else ""
    times = f"restarted {state.restarts}x" if state.restarts else ""
    words = " and ".join(filter(None, [times, down]))
    return f"{name} {index} {words}" if words else ""
