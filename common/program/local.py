"""A run that this process starts: its processes, its progress line and its result.

Before the run starts, it is checked that this machine can hold its replay and games. A replay
reserves address space and fills over hours: without the check, a run on a machine that is too small
would end late and without a message. The sockets and temporary files of the roles are in a
directory that goes with the run.
"""

from collections.abc import Iterator
import contextlib
import os
import pathlib
import shutil
import stat
import sys
import tempfile
import time
from typing import NamedTuple

from common.cluster.errors import ClusterError
from common.cluster.launcher import Cluster, ProcessState
from common.cluster.layout import Layout
from common.cluster.processes import StopRequest
from common.reporting import csv_rows, records
from common.reporting import progress as progress_lib
from common.reporting.budget import Budget
from common.reporting.csv_rows import CsvError
from common.reporting.progress import ProgressLine
from common.reporting.run_directory import RunDirectory

_PREFIX = "replay_rl_"
_OWNER = "run"
"""Name of the file in the directory that says of which run it is."""


@contextlib.contextmanager
def temporary_directory(run: RunDirectory) -> Iterator[pathlib.Path]:
    """Makes a directory for the sockets and temporary files of the roles of a local run.

    No other user can open it. A killed role leaves temporary files behind, such as those of a
    maze's engine, and a killed launcher leaves the directory: the link `tmp` in the run directory
    tells the next start what to remove. Anybody may have made that link, so a start removes only
    what such a start of this run has made.
    """
    link = run.path / "tmp"
    with contextlib.suppress(OSError):  # there is no link
        left = pathlib.Path(os.readlink(link))
        if _is_of(left, run):
            shutil.rmtree(left, ignore_errors=True)
        link.unlink()
    # Not in the run directory itself: the path of a socket is short (`topology.check_address`).
    with tempfile.TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True) as directory:
        pathlib.Path(directory, _OWNER).write_text(f"{_identity(run)}{run.path.absolute()}\n")
        try:
            link.symlink_to(directory)
        except OSError as error:
            print(
                f"{link} cannot be a link to the run's temporary files ({error.strerror}): it is "
                f"left as it is, and they are in {directory}",
                file=sys.stderr,
                flush=True,
            )
        try:
            yield pathlib.Path(directory)
        finally:
            with contextlib.suppress(OSError):  # the run directory was moved, or the link replaced
                if os.readlink(link) == directory:
                    link.unlink()


def _is_of(directory: pathlib.Path, run: RunDirectory) -> bool:
    """Returns whether a path is that of a directory which a start of this run has made.

    A copy of a run directory has the link of the run that it is a copy of, but another inode. One
    that was moved keeps its inode.
    """
    try:
        status = directory.lstat()
        return (
            directory.parent == pathlib.Path(tempfile.gettempdir())
            and directory.name.startswith(_PREFIX)
            and status.st_mode == stat.S_IFDIR | 0o700
            and status.st_uid == os.getuid()
            and (directory / _OWNER).read_bytes().startswith(_identity(run).encode())
        )
    except OSError:
        return False


def _identity(run: RunDirectory) -> str:
    status = run.path.stat()
    return f"{status.st_dev} {status.st_ino} "


_NAMES = {
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    2: ("memory.max", "memory.current", "inactive_file"),
}
"""By version of control groups: the files with the limit and the usage of memory, and the field of
memory.stat with the part of the usage that the system can drop."""


def available_memory(root: pathlib.Path = pathlib.Path("/")) -> int | None:
    """Returns the bytes of memory that new processes may take; None if Linux does not say.

    This is the least of the machine's available memory and of what the limits of this process's
    control groups, of version 1 or 2, leave. Caches of files count as available.

    Args:
      root: the directory that has `proc` and `sys`.
    """
    fields = _fields(root / "proc/meminfo")
    left = [_left(*group) for group in records.control_groups("memory", root)]
    if "MemAvailable" in fields:
        left.append(1024 * fields["MemAvailable"])
    return min((one for one in left if one is not None), default=None)


def available_disk(path: pathlib.Path) -> int | None:
    """Returns the bytes free for this user at `path`, which need not exist; None if unknown."""
    path = path.absolute()
    while not path.exists() and path != path.parent:
        path = path.parent
    try:
        return shutil.disk_usage(path).free
    except OSError:
        return None


def _left(folder: pathlib.Path, version: int) -> int | None:
    """Returns what a control group leaves of its limit; None if it has no limit."""
    limit, usage, cache = _NAMES[version]
    try:
        bound, used = (int(records.text_of(folder / name)) for name in (limit, usage))
    except ValueError:  # "max", or no such file
        return None
    return max(0, bound - used + _fields(folder / "memory.stat").get(cache, 0))


def _fields(path: pathlib.Path) -> dict[str, int]:
    """Returns the numbers in a file of lines "name: number unit" or "name number"."""
    words = (line.replace(":", " ").split() for line in records.text_of(path).splitlines())
    return {one[0]: int(one[1]) for one in words if len(one) > 1 and one[1].isdigit()}


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
        row = csv_rows.last_row(directory.learner_csv, csv_rows.PROGRESS)
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
          UserError: the run is over, and has learnt nothing.
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
        finished = progress_lib.is_over(self._directory, self._limits)
        if finished:
            progress_lib.require_updates(self._directory)
        print(progress_lib.result_of(self._directory, self._title, finished), flush=True)
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
        row = csv_rows.last_row(self._directory.learner_csv, csv_rows.PROGRESS)
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
        disk = available_disk(self._directory.path)
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
        evaluation = csv_rows.last_row(self._directory.evaluator_csv, csv_rows.RESULT)
        progress.update(row, evaluation, elapsed, note=", ".join(filter(None, notes)))


def _how_to_go_on() -> str:
    """Returns the command line that started this program, for a shell."""
    return f"to go on: {records.as_shell_words(sys.orig_argv)}"


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


_MIN_DISK = 500 * 10**6
"""Bytes for checkpoints, CSV files and logs; three checkpoints of Ape-X DQN take 160 MB."""

_LOWER = ("--config.replay_capacity", "the number of actors", "--config.queue_capacity")
"""By what each part of a `Need` becomes smaller."""


class NotEnoughError(ClusterError):
    """A machine that cannot hold the run; the message is one line that says what to do."""


class Need(NamedTuple):
    """Bytes that a run, or a process of one, needs on this machine.

    Attributes:
      replay: the full replay, or the part of it that is kept here.
      engines: of environments, which are processes of their own.
      queue: the learner's, when it is full.
    """

    replay: int
    engines: int = 0
    queue: int = 0


def check_resources(
    need: Need, directory: pathlib.Path, ignore: bool, saves: bool | None
) -> tuple[str, bool]:
    """Returns a line that says what the replay needs and what is left, and whether it is saved.

    Args:
      need: of the run, of which the replay alone is saved.
      directory: the run's directory, which need not exist yet.
      ignore: whether to start anyway if that is not enough.
      saves: whether the replay's contents are saved; None: if the disk has room for them.

    Raises:
      NotEnoughError: memory or disk do not suffice.
    """
    memory, disk = available_memory(), available_disk(directory)
    saved = sum(file.stat().st_size for file in RunDirectory(directory).replay.glob("*"))
    in_memory, needed = sum(need), 2 * need.replay  # a file is written before the last one goes
    fits = disk is None or needed + _MIN_DISK <= disk + saved
    line, is_saved = "no replay here", need.replay > 0 and (fits if saves is None else saves)
    parts = [name for name, number in need._asdict().items() if number]
    verb = "needs" if parts in (["replay"], ["queue"]) else "need"
    needs = f"{', '.join(parts)} {verb} about {size_in_words(in_memory)}"
    if in_memory:
        there = "" if memory is None else f" of {size_in_words(memory)} of memory available"
        line = f"{needs}{there} when full"
    if need.replay:
        kept = f"{size_in_words(needed)} of disk" + (
            "" if disk is None else f", of {size_in_words(disk)}"
        )
        if is_saved:
            line += f", and {kept}, to survive a stop"
        elif saves is None:
            line += f"; it is lost with a stop: to survive it needs {kept} (--checkpoint_replay)"
    problem = ""
    if memory is not None and in_memory > memory:
        largest = _LOWER[need.index(max(need))]
        problem = (
            f"not enough memory: {needs} when full, but {size_in_words(memory)} are available: "
            f"lower {largest}"
        )
    elif disk is not None and disk < _MIN_DISK:
        problem = (
            f"not enough disk: {size_in_words(disk)} free at {directory}: give another --workdir"
        )
    elif saves and not fits and disk is not None:
        problem = (
            f"not enough disk: --checkpoint_replay needs {size_in_words(needed)}, "
            f"{size_in_words(disk)} are free at {directory}: give another --workdir, "
            "or --nocheckpoint_replay"
        )
    if problem and not ignore:
        raise NotEnoughError(f"{problem}, or start anyway with --ignore_resources")
    return f"{problem} (ignored)" if problem else line, is_saved


def replay_steps(
    share: float, capacity: int, num_copies: int, max_actor_steps: int | None
) -> float:
    """Returns the steps in replays when they are full, or when the run ends before that.

    Args:
      share: number of replays of the configured size; less than 1 for a shard.
      capacity: steps in a replay.
      num_copies: steps in a replay for each actor step.
      max_actor_steps: of the run; None for no limit. It is the limit of all replays together.
    """
    steps = share * capacity
    if max_actor_steps is None:
        return steps
    return min(steps, min(share, 1) * num_copies * max_actor_steps)


def size_in_words(number: int) -> str:
    """Returns bytes in words, such as "40 MB", "3.1 GB" or "120 GB"."""
    if number < 10**9:
        return f"{max(1, round(number / 10**6))} MB"
    return f"{number / 10**9:.{1 if number < 10**10 else 0}f} GB"
