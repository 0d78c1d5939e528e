"""Supervisor of a local run: starts roles as processes, restarts those that end early, stops all.

It forks them from a `Template` or uses plain `subprocess`: the library supervisor tried before
reports status 0 for a program that dies in its first second, -1 for every death by a signal, and
does not count restarts.
This module does not import TensorFlow.
"""

from collections.abc import Iterable, Mapping, Sequence
import contextlib
import dataclasses
import functools
import math
import os
import pathlib
import signal
import subprocess
import threading
import time
from typing import Protocol

from common.cluster.errors import ClusterError
from common.cluster.processes import READY_VARIABLE, set_parent_death_signal
from common.cluster.template import Forked, Template

GIVE_UP_CODE = 2
"""Exit code of a role whose error a restart cannot fix: a person has to act."""
FINAL_CODE = os.EX_DATAERR
"""Exit code of a role whose error a restart would repeat, however long the role has worked."""
_POLL_SECONDS = 0.05
_MAX_PAUSE_SECONDS = 60.0
_GRACE_SECONDS = 20.0
"""Shortest pause before a restart after exit code 0, since the run may just be ending."""
_LEFTOVER_SECONDS = 1.0
"""Longest wait, at the end, for the processes of a group whose leader has ended."""
_GUARD = """
while read -r line; do groups=$line; done
[ "$groups" ] || exit
kill -s TERM -- $groups; sleep 0.5; kill -s KILL -- $groups
"""
"""Shell program that ends the process groups in the last line of its input, if there are any."""
_FAILURE_LINES = 15
_FAILURE_BYTES = 8192
_ERROR = "error: "


@dataclasses.dataclass(frozen=True)
class Process:
    """A process to start.

    Attributes:
      name: its role, for example `actor`.
      index: its index among the processes of that role.
      command: program and arguments, run without a shell.
      environment: variables in addition to the launcher's own.
      keeps_run: whether the run is over once this process has ended with exit code 0.
    """

    name: str
    index: int
    command: list[str]
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
    keeps_run: bool = False


@dataclasses.dataclass(frozen=True)
class ProcessState:
    """State of a supervised process.

    Attributes:
      running: whether it runs; False also while it waits for a restart.
      has_been_ready: whether it has reported that it is ready, in this run of it or an earlier one.
      exit_code: its last exit code: minus the signal's number after a death by a signal, None if
        it has not ended yet.
      restarts: number of restarts.
      pid: its process id, the last one if it does not run; None before the first start.
      pause_seconds: time until the next restart; None if none is due.
    """

    running: bool
    has_been_ready: bool
    exit_code: int | None
    restarts: int
    pid: int | None
    pause_seconds: float | None = None


class Cluster(Protocol):
    """The supervised processes of a run, on this machine or others."""

    def start(self) -> None:
        """Starts every process; raises ClusterError if one cannot be started."""

    def stop(self, timeout_seconds: float = 30.0) -> None:
        """Sends SIGTERM to every process, SIGKILL after the timeout; returns when all are gone."""

    def states(self) -> dict[tuple[str, int], ProcessState]:
        """Returns the state of each process by (name, index)."""

    def failure(self) -> str | None:
        """Returns the failure that ends the run, None without one."""

    def take_events(self) -> list[str]:
        """Returns a line for each death followed by a restart since the last call."""


class LocalCluster:
    """Supervised processes of a local run, from `start` to `stop`; a context manager calls both.

    Each process leads a session of its own, so that Ctrl-C reaches only the launcher, which then
    stops the processes in order. If the launcher dies for any reason, Linux kills them.

    The processes that it starts itself end with it, however it ends: its group gets SIGTERM at
    once, and SIGKILL before the restart or at the end of the run. If the launcher dies, a shell
    that outlives it does the same. Those that have left the group, as daemons do, stay.

    A process that ends is restarted after a pause. The pause doubles, up to a minute, each time the
    process ends before it has been ready for `steady_seconds`. There are two exceptions: the
    process that keeps the run is done when it ends with exit code 0, and from then on so is every
    other process that ends with 0. The run fails

    - if a process that has never been ready (`processes.report_ready`) ends with GIVE_UP_CODE, or
      for the `give_up_after`-th time;
    - if the process that keeps the run ends with GIVE_UP_CODE at any time, or ends `give_up_after`
      times in a row before it is ready;
    - if any process ends with FINAL_CODE.

    Otherwise a process may die any number of times once it has been ready (Ape-X appendix F).
    """

    def __init__(
        self,
        processes: Iterable[Process],
        log_directory: str | os.PathLike,
        give_up_after: int = 5,
        steady_seconds: float = 10.0,
        pause_seconds: float = 0.5,
        preload: Sequence[str] = (),
    ):
        """Prepares the processes.

        Args:
          processes: started in this order.
          log_directory: gets a log `ROLE-INDEX.log` per process; restarts append to it.
          give_up_after: number of failed starts, without becoming ready, that ends the run.
          steady_seconds: time as a ready process after which the pause is the shortest again. The
            process then did work, so kills from outside do not keep it away for longer and longer.
          pause_seconds: shortest pause before a restart.
          preload: modules that the processes import, if they are forked from a `Template` where
            that can be done; each command is then `python -m`. Empty: none is forked.
        """
        self._log_directory = pathlib.Path(log_directory)
        self._give_up_after = give_up_after
        self._steady_seconds = steady_seconds
        self._pause_seconds = pause_seconds
        self._supervised = {(one.name, one.index): _Supervised(one) for one in processes}
        self._is_over = False
        self._failure: str | None = None
        self._events: list[str] = []
        self._lock = threading.Lock()
        self._started, self._ended = threading.Event(), threading.Event()
        self._stop_deadline: float | None = None
        self._guard: subprocess.Popen | None = None
        self._preload = preload
        self._template: Template | None = None
        # One thread starts all processes: the parent-death signal comes when that thread ends.
        self._thread = threading.Thread(target=self._supervise, name="supervisor", daemon=True)

    def __enter__(self) -> "LocalCluster":
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def start(self) -> None:
        """Starts every process; call it once.

        Raises:
          ClusterError: a command cannot be started. Processes that did start are stopped again.
        """
        self._log_directory.mkdir(parents=True, exist_ok=True)
        try:
            self._guard = subprocess.Popen(
                ["sh", "-c", _GUARD],
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            raise ClusterError(f"sh cannot be started: {error}") from None
        self._thread.start()
        _wait(self._started)
        failure = self.failure()
        if failure is not None and any(one.popen is None for one in self._supervised.values()):
            self.stop()
            raise ClusterError(failure)

    def stop(self, timeout_seconds: float = 30.0) -> None:
        """Sends SIGTERM to every process, SIGKILL after the timeout; returns when all are gone.

        Of several calls, the earliest deadline counts.
        """
        if self._thread.ident is None:
            return
        deadline = time.monotonic() + timeout_seconds
        self._stop_deadline = min(deadline, self._stop_deadline or deadline)
        if self._template is not None and not self._started.is_set():
            self._template.kill()  # it may import for seconds more
        _wait(self._ended)

    def states(self) -> dict[tuple[str, int], ProcessState]:
        """Returns the state of each process by (name, index)."""
        with self._lock:
            return {key: one.state() for key, one in self._supervised.items()}

    def failure(self) -> str | None:
        """Returns the first failure with the end of that process's log, None without a failure."""
        with self._lock:
            return self._failure

    def take_events(self) -> list[str]:
        """Returns a line for each death followed by a restart since the last call."""
        with self._lock:
            events, self._events = self._events, []
            return events

    def log_path(self, name: str, index: int) -> pathlib.Path:
        """Returns the path of a process's log."""
        return self._log_directory / f"{name}-{index}.log"

    def _supervise(self) -> None:
        if self._preload:
            with contextlib.suppress(OSError):
                self._template = Template(self._preload)
        for one in self._supervised.values():
            if self._failure is None and self._stop_deadline is None:
                self._spawn(one)
        self._started.set()
        try:
            while self._stop_deadline is None:
                for one in self._supervised.values():
                    self._attend(one)
                time.sleep(_POLL_SECONDS)
        except Exception as error:
            with self._lock:
                self._failure = self._failure or f"the supervisor failed: {error!r}"
            while self._stop_deadline is None:  # the end of this thread would kill the processes
                time.sleep(_POLL_SECONDS)
        self._end_all()

    def _tell_guard(self, groups: Iterable[int]) -> None:
        """Names the groups that a death of the launcher has to end."""
        assert self._guard is not None and self._guard.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # somebody has killed it
            self._guard.stdin.write(b"%s\n" % b" ".join(b"-%d" % group for group in groups))

    def _spawn(self, one: "_Supervised") -> None:
        one.clear()
        process = one.process
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        try:
            with open(self.log_path(process.name, process.index), "ab") as log:
                started = self._start(process, log.fileno(), writer)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            os.close(reader)
            with self._lock:
                one.restart_at = None
                self._failure = self._failure or (
                    f"{process.name} {process.index} cannot be started: {error}"
                )
            return
        finally:
            os.close(writer)
        with self._lock:
            one.begin(started, reader)
        self._tell_guard(some.popen.pid for some in self._supervised.values() if some.popen)

    def _start(self, process: Process, log: int, ready: int) -> subprocess.Popen | Forked:
        variables = {**os.environ, **process.environment}
        if self._template is not None:
            try:
                return self._template.fork(process.command[2:], variables, log, ready)
            except OSError:  # each process can import for itself, and says why if it cannot
                self._template.close()
                self._template = None
        return subprocess.Popen(
            process.command,
            env=variables | {READY_VARIABLE: str(ready)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=(ready,),
            preexec_fn=functools.partial(set_parent_death_signal, os.getpid()),
        )

    def _attend(self, one: "_Supervised") -> None:
        """Records the end of a process, and restarts it once its pause is over."""
        now = time.monotonic()
        if one.restart_at is not None:
            if self._is_over and one.exit_code == 0:
                with self._lock:
                    one.is_done, one.restart_at = True, None
            elif now >= one.restart_at:
                with self._lock:
                    one.restarts += 1
                    if one.exit_code == 0:
                        how, _ = self._end_of(one)
                        self._events.append(f"{how} though the run goes on: restart")
                self._spawn(one)
            return
        if one.popen is None or one.is_done:
            return
        one.check_ready()
        code = one.poll()
        if code is None:
            return
        one.signal_group(signal.SIGTERM)
        with self._lock:
            one.end(code)
            if code == 0 and (one.process.keeps_run or self._is_over):
                one.is_done = True
                self._is_over = True
            elif self._gives_up(one):
                one.is_done = True
                self._failure = self._failure or self._describe(one)
            else:
                is_steady = time.monotonic() - one.ready_at >= self._steady_seconds
                one.short_runs = 0 if is_steady else one.short_runs + 1
                pause = self._pause_seconds * 2 ** max(0, one.short_runs - 1)
                least = _GRACE_SECONDS if code == 0 else 0.0
                pause = min(max(pause, least), _MAX_PAUSE_SECONDS)
                one.restart_at = now + pause
                if code:
                    how, said = self._end_of(one)
                    why = f" ({said})" if said else ""
                    self._events.append(f"{how}{why}: restart in {pause:.2g} s")

    def _gives_up(self, one: "_Supervised") -> bool:
        if one.exit_code == FINAL_CODE:
            return True
        if one.has_been_ready and not one.process.keeps_run:
            return False
        return one.exit_code == GIVE_UP_CODE or one.failed_starts >= self._give_up_after

    def _end_of(self, one: "_Supervised") -> tuple[str, str]:
        """Returns how a process ended, and the error line at the end of its log ("" if none)."""
        process, code = one.process, one.exit_code
        how = f"exit code {code}" if code >= 0 else f"signal {-code} ({signal.strsignal(-code)})"
        last = log_end(self.log_path(process.name, process.index)).rpartition("\n")[2]
        said = last.removeprefix(_ERROR) if code > 0 and last.startswith(_ERROR) else ""
        return f"{process.name} {process.index} ended with {how}", said

    def _describe(self, one: "_Supervised") -> str:
        path = self.log_path(one.process.name, one.process.index)
        how, said = self._end_of(one)
        if one.exit_code not in (GIVE_UP_CODE, FINAL_CODE):
            how += f" after {one.restarts} restarts without becoming ready; given up"
        elif said:
            return f"{one.process.name} {one.process.index}: {said} (its log is {path})"
        return f"{how}; {path} ends with:\n{log_end(path)}"

    def _end_all(self) -> None:
        started = [one for one in self._supervised.values() if one.popen is not None]
        for one in started:
            one.signal_group(signal.SIGTERM)
        while time.monotonic() < self._stop_deadline and any(one.poll() is None for one in started):
            time.sleep(_POLL_SECONDS)
        for one in started:
            if one.poll() is None:
                one.signal_group(signal.SIGKILL)
        deadline = time.monotonic() + _LEFTOVER_SECONDS
        while time.monotonic() < deadline and any(_has_followers(one.popen.pid) for one in started):
            time.sleep(_POLL_SECONDS)
        for one in started:
            code = one.clear()
            with self._lock:
                if one.is_running:
                    one.end(code)
                one.restart_at = None
        self._tell_guard([])
        if self._template is not None:
            self._template.close()
        assert self._guard is not None
        self._guard.communicate()
        self._ended.set()


class _Supervised:
    """A process with the supervising thread's records of it."""

    def __init__(self, process: Process):
        self.process = process
        self.popen: subprocess.Popen | Forked | None = None
        self.exit_code: int | None = None
        self.is_running = False
        self.is_done = False
        self.restarts = 0
        self.short_runs = 0
        self.failed_starts = 0
        self.has_been_ready = False
        self.ready_at = math.inf
        self.restart_at: float | None = None
        self._reader = -1

    @property
    def _is_ready(self) -> bool:
        return self.ready_at < math.inf

    def begin(self, popen: subprocess.Popen | Forked, reader: int) -> None:
        """Records a start and takes over the pipe on which the process reports that it is ready."""
        self.popen, self._reader, self.is_running = popen, reader, True
        self.ready_at, self.restart_at = math.inf, None

    def check_ready(self) -> None:
        """Reads the pipe unless the process is known to be ready."""
        if self._is_ready:
            return
        with contextlib.suppress(BlockingIOError):
            if os.read(self._reader, 1):
                self.ready_at, self.has_been_ready = time.monotonic(), True

    def poll(self) -> int | None:
        """Returns the exit code of the process, None if it runs.

        One that has ended is not reaped before `clear`, so that no other group gets its number.
        """
        assert self.popen is not None
        if self.popen.returncode is not None:
            return self.popen.returncode
        end = os.waitid(os.P_PID, self.popen.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if end is None:
            return None
        return end.si_status if end.si_code == os.CLD_EXITED else -end.si_status

    def signal_group(self, number: int) -> None:
        """Sends a signal to the process, if it runs, and to those that it has started."""
        if self.popen is not None and self.popen.returncode is None:
            os.killpg(self.popen.pid, number)

    def clear(self) -> int | None:
        """Kills what is left of the group and reaps the process, if it was ever started."""
        self.signal_group(signal.SIGKILL)
        return None if self.popen is None else self.popen.wait()

    def end(self, code: int) -> None:
        """Records the end of the process."""
        self.check_ready()
        os.close(self._reader)
        self.exit_code, self.is_running = code, False
        self.failed_starts = 0 if self._is_ready else self.failed_starts + 1

    def state(self) -> ProcessState:
        """Returns the public state."""
        return ProcessState(
            self.is_running,
            self.has_been_ready,
            self.exit_code,
            self.restarts,
            None if self.popen is None else self.popen.pid,
            None if self.restart_at is None else max(0.0, self.restart_at - time.monotonic()),
        )


def _wait(event: threading.Event) -> None:
    """Waits for an event, in steps: a signal just before one long wait does not interrupt it."""
    while not event.wait(_POLL_SECONDS):
        pass


def _has_followers(group: int) -> bool:
    """Returns whether a process group has members besides its leader."""
    for name in os.listdir("/proc"):
        with contextlib.suppress(ProcessLookupError):
            if name.isdigit() and int(name) != group and os.getpgid(int(name)) == group:
                return True
    return False


def log_end(path: pathlib.Path) -> str:
    """Returns the last lines of a log, or a line that says why it cannot be read."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.path.getsize(path) - _FAILURE_BYTES))
            text = file.read().decode(errors="replace")
    except OSError as error:
        return f"(it cannot be read: {error.strerror})"
    return "\n".join(text.splitlines()[-_FAILURE_LINES:])
