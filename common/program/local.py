"""Launcher of a run: starts and stops its processes, shows its progress and its result.

A local run's sockets and temporary files are in a directory that is removed at the end.
"""

from collections.abc import Iterator, Mapping
import contextlib
import json
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import time
from typing import Any

from common.cluster import credentials, processes
from common.cluster.errors import ClusterError
from common.cluster.launcher import Cluster, LocalCluster, ProcessState
from common.cluster.layout import FlagValues
from common.cluster.local_process import Process
from common.cluster.processes import StopRequest
from common.cluster.topology import Topology
from common.program.resources import available_disk
from common.program.task import START_VARIABLE, ProgramRun
from common.reporting import csv_rows, records
from common.reporting import progress as progress_lib
from common.reporting.csv_rows import CsvError
from common.reporting.progress import ProgressLine
from common.reporting.run_directory import RunDirectory


def run_local(run: ProgramRun) -> None:
    """Starts every role of the layout as processes of this machine, and supervises them."""
    if is_over(run):
        return
    memories = run.layout.num_memories(run.num_actors)
    # The evaluator has one more environment.
    _, need = run.inspect_environment(memories, run.num_actors + 1, has_queue=True, is_launch=True)
    stop = StopRequest().install()  # until here signals end this process, which has nothing to save
    values, counts = with_defaults(run, processes.usable_cores())
    run.open_directory()
    with run.directory.hold():
        line, saves_replay = run.check_resources(need)
        print(line, file=sys.stderr, flush=True)
        values["checkpoint_replay"] = saves_replay
        with temporary_directory(run.directory) as temporary:
            topology = Topology.local(run.layout.roles, counts, temporary)
            variables = {"TMPDIR": str(temporary)}
            found = processes_of(run, values, topology, variables, "--ignore_resources")
            used = [run.agent.agent_class, *(role.run for role in run.layout.roles)]
            preload = ["tensorflow", *(name.partition(":")[0] for name in used)]
            LaunchedRun(run, stop).run(
                LocalCluster(found, run.directory.logs, preload=preload if found[1:] else ())
            )
    sys.exit(stop.exit_code)


def is_over(run: ProgramRun) -> bool:
    """Returns whether a run has reached its limits, and prints its result if so."""
    if not run.directory.config_json.exists():
        return False
    run.open_directory()
    with run.directory.hold():
        return _is_finished(run)


def with_defaults(run: ProgramRun, cores: int) -> tuple[dict[str, Any], dict[str, int]]:
    """Returns the layout's flags with defaults filled in, and the number of tasks of each role.

    Args:
      run: the run whose roles are all started.
      cores: number of usable cores of this machine, or of Ray's largest node.
    """
    values = {**run.values, **run.layout.local_values(run.values, run.num_actors, cores)}
    counts = {role.name: role.local_tasks(values) for role in run.layout.roles}
    run.layout.require_tasks(counts, run.num_actors)
    return values, counts


def processes_of(
    run: ProgramRun,
    values: FlagValues,
    topology: Topology,
    variables: Mapping[str, str],
    *more: str,
) -> list[Process]:
    """Returns the processes of a run, each with its command line and environment variables.

    Args:
      run: the run to start.
      values: the layout's flags, by name; a flag that is None is not passed.
      topology: addresses of all tasks.
      variables: environment variables for all processes, in addition to the cluster's token.
      *more: further flags for all processes.
    """
    found = []
    resolved = [f"--{name}={value}" for name, value in values.items() if value is not None]
    token = credentials.load_or_create_token()
    for job, addresses in topology.cluster.items():
        for index in range(len(addresses)):
            command = [
                *(sys.executable, "-m", run.agent.module, *sys.argv[1:], *resolved),
                *(f"--role={job}", f"--workdir={run.directory.path}", *more),
            ]
            environment = {
                **variables,
                credentials.TOKEN_VARIABLE: token,
                "TF_CONFIG": topology.to_tf_config(job, index),
                START_VARIABLE: json.dumps([sys.orig_argv, run.changed]),
            }
            keeps_run = job == run.layout.keeper.name
            found.append(Process(job, index, command, environment, keeps_run))
    return found


def temporary_path(run: RunDirectory) -> pathlib.Path:
    """Returns the path of a local run's temporary files, named by the run directory's inode."""
    # Not in the run directory, because a socket's path must be short (`topology.check_address`).
    status = run.path.stat()
    name = f"replay_rl_{os.getuid()}_{status.st_dev}_{status.st_ino}"
    return pathlib.Path(tempfile.gettempdir(), name)


@contextlib.contextmanager
def temporary_directory(run: RunDirectory) -> Iterator[pathlib.Path]:
    """Creates a directory for the sockets and temporary files of a local run; removes it at exit.

    No other user can open it. A killed role leaves temporary files behind, such as the files of a
    maze's engine. A killed launcher leaves the directory, which the next start removes.
    """
    directory = temporary_path(run)
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(mode=0o700)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


_STOP_SECONDS = 60.0
_SAVED_BYTES_PER_SECOND = 50e6
"""Speed of a slow disk. A stop may take longer by the time to write the replay's files again."""
_NEWS_SECONDS = 15.0
"""Age at which learner.csv's last row is out of date. Rows come every five seconds unless the
learner is down or busy with something else."""
_IDLE_SECONDS = 30.0
"""Time without an actor step after which the progress line says so. Actors that the rate limiter
holds back still step more often than this."""
_LAST_EVALUATION_SECONDS = 1800.0
"""Longest wait for a role that outlives the keeper but is down. A running evaluator is not cut off:
200 episodes of Atari take it hours, and the next start would cut them again."""
_FULL_DISK_BYTES = 10**6
"""Free bytes on the disk below which there is too little room for a checkpoint."""
_SPEEDS = ("learner_steps_per_second", "actor_steps_per_second", "samples_per_insert")


class LaunchedRun:
    """A run whose processes this process starts and stops; shows the progress and the result."""

    def __init__(self, run: ProgramRun, stop: StopRequest):
        """Prepares to run; `stop` is the request to stop the run."""
        self._run, self._directory, self._layout = run, run.directory, run.layout
        self._stop = stop
        row = csv_rows.last_row(run.directory.learner_csv, csv_rows.PROGRESS)
        self._last_wall = -1.0 if row is None else row["wall_seconds"]  # of an earlier start
        self._seen_at = time.monotonic()
        self._first_steps: int | None = None  # learner steps in the first row of this start
        self._actor_steps, self._acted_at = 0, self._seen_at

    def run(self, cluster: Cluster) -> None:
        """Runs the processes until the run is over or a stop is requested.

        Args:
          cluster: the processes, not started yet.

        Raises:
          ClusterError: a role failed for good, or the run directory was moved or removed.
          UserError: the run reached a limit before the first update.
          KeyboardInterrupt: Ctrl-C was pressed a second time; the processes were killed at once.
        """
        try:
            self._run_processes(cluster)
        except KeyboardInterrupt as interrupt:
            cluster.stop(0.0)  # the interrupt may have come during an orderly stop
            raise KeyboardInterrupt(f"{interrupt}; {_how_to_go_on()}") from None

    def _run_processes(self, cluster: Cluster) -> None:
        progress = ProgressLine(self._run.limits, self._run.min_replay_size)
        progress.print(f"{self._run.title}; run directory {self._directory.path}")
        if self._last_wall >= 0 and not (self._directory.checkpoints / "checkpoint").exists():
            progress.print("the run has CSV rows but no checkpoint: learning restarts at step 0")
        failure = None
        # The descriptor keeps the inode number, which identifies the directory, from being reused.
        opened = os.open(self._directory.path, os.O_RDONLY)
        try:
            cluster.start()
            failure = self._wait(cluster, progress, opened)
            if self._stop.requested:
                progress.print(f"stopping: the {self._layout.keeper.name} saves what it has learnt")
        except KeyboardInterrupt:
            cluster.stop(0.0)
            raise
        finally:
            progress.close()
            self._stop_cluster(cluster)
            failure = _departure(self._directory.path, opened) or failure
            os.close(opened)
        if failure is not None:
            raise ClusterError(failure)
        finished = _is_finished(self._run)
        if not finished:
            print(progress_lib.result_of(self._directory, self._run.title, False), flush=True)
        if self._stop.requested and not finished:
            print(f"stopped; {_how_to_go_on()}", flush=True)

    def _stop_cluster(self, cluster: Cluster) -> None:
        """Stops all processes, and prints a line for each that did not end in time."""
        running = [key for key, state in cluster.states().items() if state.running]
        saved = records.size_of(self._directory.replay.glob("*"))
        seconds = _STOP_SECONDS + saved / _SAVED_BYTES_PER_SECOND
        cluster.stop(seconds)
        states = cluster.states()
        for name, index in running:
            if states[name, index].exit_code == -signal.SIGKILL:
                print(
                    f"{name} {index} did not end within {seconds:.0f} s and was killed: "
                    "its unsaved data is lost",
                    file=sys.stderr,
                    flush=True,
                )

    def _wait(self, cluster: Cluster, progress: ProgressLine, opened: int) -> str | None:
        """Waits for the end of the run; returns the failure that ended it, or None."""
        last = [role.name for role in self._layout.roles if role.outlives_keeper]
        finished_at = None
        while not self._stop.wait(0.5):
            if moved := _departure(self._directory.path, opened):
                cluster.stop(0.0)  # what the roles write at the old path would start another run
                return moved
            failure = cluster.failure()
            if failure is not None:
                return failure
            for event in cluster.take_events():
                progress.print(event)
            states = cluster.states()
            with contextlib.suppress(CsvError):  # raised again at the end
                self._show(progress, states)
            if not _has_ended(states[self._layout.keeper.name, 0]):
                continue
            finished_at = finished_at or time.monotonic()
            is_late = time.monotonic() - finished_at > _LAST_EVALUATION_SECONDS
            left = [key for key in states if key[0] in last and not _has_ended(states[key])]
            if not left:
                return None
            if is_late and not any(states[key].running for key in left):
                name, index = left[0]
                return (
                    f"the last evaluation is missing: {name} {index} is down (its log is "
                    f"{cluster.log_path(name, index)}); the same command makes it"
                )
        return None

    def _show(self, progress: ProgressLine, states: dict[tuple[str, int], ProcessState]) -> None:
        row = csv_rows.last_row(self._directory.learner_csv, csv_rows.PROGRESS)
        if row is not None and row["wall_seconds"] != self._last_wall:
            now = time.monotonic()
            was_silent = now - self._seen_at >= _NEWS_SECONDS  # the actors may have had to wait
            self._last_wall, self._seen_at = row["wall_seconds"], now
            if self._first_steps is None:
                self._first_steps = row["learner_steps"]
            if row["actor_steps"] != self._actor_steps or was_silent:
                self._actor_steps, self._acted_at = row["actor_steps"], now
        silence, has_news = time.monotonic() - self._seen_at, self._first_steps is not None
        elapsed = max(self._last_wall, 0.0) + silence * has_news  # a start does not count
        keeper = self._layout.keeper.name
        notes = [_note(name, index, state) for (name, index), state in states.items()]
        state = states[keeper, 0]
        is_fresh = has_news and silence < _NEWS_SECONDS and state.running
        if row is not None and not is_fresh:
            row |= dict.fromkeys(_SPEEDS)  # the last row's speeds are out of date
            if _has_ended(state) or self._run.limits.reached_by(row | {"wall_seconds": elapsed}):
                notes.append("waiting for the last evaluation")
            elif state.has_been_ready and silence >= _NEWS_SECONDS:
                if state.restarts or row["learner_steps"] != self._first_steps:
                    notes.append(f"no news from the {keeper} for {silence:.0f}s")
                else:
                    notes.append(f"the {keeper} compiles its first update ({silence:.0f}s)")
                    row.pop("replay_size", None)  # out of date
        if not state.has_been_ready:
            notes.append("starting")
        with contextlib.suppress(OSError):  # a file system that does not answer now
            if available_disk(self._directory.path) < _FULL_DISK_BYTES:
                notes.append("disk full")
        idle = time.monotonic() - self._acted_at
        if is_fresh and idle >= _IDLE_SECONDS:
            notes.append(f"no actor step for {idle:.0f}s")
        evaluation = csv_rows.last_row(self._directory.evaluator_csv, csv_rows.RESULT)
        progress.update(row, evaluation, elapsed, note=", ".join(filter(None, notes)))


def _how_to_go_on() -> str:
    """Returns a hint how to resume: the command line that started this program, for a shell."""
    return f"to resume: {records.as_shell_words(sys.orig_argv)}"


def _departure(path: pathlib.Path, opened: int) -> str | None:
    """Returns an error message if the run directory is no longer at its path, None otherwise.

    Args:
      path: where the run directory was at the start.
      opened: a descriptor of the run directory.
    """
    try:
        if os.path.samestat(os.stat(path), os.fstat(opened)):
            return None
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError:  # a file system that does not answer now
        return None
    lost = f"the run directory {path} was {{}} during the run: the run has ended"
    now = os.path.realpath(f"/proc/self/fd/{opened}")
    if now.endswith(" (deleted)"):
        return lost.format("removed")
    return f"{lost.format(f'moved to {now}')}; --workdir={now} resumes from the last checkpoint"


def _has_ended(state: ProcessState) -> bool:
    """Returns whether a process has finished its work."""
    return not state.running and state.exit_code == 0


def _note(name: str, index: int, state: ProcessState) -> str:
    """Returns a note if a process is down or has been restarted, "" otherwise."""
    down = "down" if not state.running and state.exit_code != 0 else ""
    times = f"restarted {state.restarts}x" if state.restarts else ""
    words = " and ".join(filter(None, [times, down]))
    return f"{name} {index} {words}" if words else ""


def _is_finished(run: ProgramRun) -> bool:
    """Returns whether a run has reached its limits, and prints its result if so."""
    if not progress_lib.is_over(run.directory, run.limits):
        return False
    progress_lib.require_updates(run.directory)
    print(progress_lib.result_of(run.directory, run.title, finished=True), flush=True)
    return True
