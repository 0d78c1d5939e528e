"""Supervisor of a run's processes: starts them, restarts any that end early, and stops them.

A `LocalCluster` forks them from a `Template` or uses plain `subprocess`. A library's supervisor was
tried before: it reports status 0 for a program that dies in its first second and -1 for every death
by a signal, and does not count restarts. This module does not import TensorFlow.
"""

from collections.abc import Iterable, Sequence
import contextlib
import copy
import dataclasses
import math
import os
import pathlib
import re
import signal
import subprocess
import sysconfig
import threading
import time
from typing import Any, NamedTuple

from common.cluster.errors import ClusterError
from common.cluster.local_process import LocalProcess, Process, Template

GIVE_UP_CODE = 2
"""Exit code of a role whose error a restart cannot fix: the user has to act."""
FINAL_CODE = os.EX_DATAERR
"""Exit code of a role whose error would recur after a restart, however long the role has worked."""
_POLL_SECONDS = 0.05
_MAX_PAUSE_SECONDS = 60.0
_GRACE_SECONDS = 20.0
"""Shortest pause before a restart after exit code 0, since the run may just be ending."""
_LEFTOVER_SECONDS = 1.0
"""Longest wait, at the end of a run, for processes of a group whose leader has ended."""
_GUARD = """
while read -r line; do groups=$line; done
[ "$groups" ] || exit
kill -s TERM -- $groups; sleep 0.5; kill -s KILL -- $groups
"""
"""Shell program that ends the process groups listed in the last line of its input, if any."""
_FAILURE_LINES = 15
_FAILURE_BYTES = 1 << 16
_REASON_CHARACTERS = 300
_MOST_REPEATS = 3
"""Consecutive ends by the same exception at the same place after which the run fails."""
_REPEAT_SECONDS = 60.0
"""Longest time as a ready process after which the same exception counts as repeated. A simulator
that fails now and then does not end a run."""
_TRACEBACK = "Traceback (most recent call last):"
_FRAME = re.compile(r'  File "(.*)", line (\d+)')
_NOT_THE_USERS = (
    "<",
    str(pathlib.Path(__file__).parents[1]),
    *map(sysconfig.get_path, ("stdlib", "purelib", "platlib")),
)
"""Prefixes of names of files that are not the user's: built-in, of `common`, or of libraries."""


class Reason(NamedTuple):
    """The reason for a process's end, according to its log.

    Attributes:
      words: the error on one line; "" if the log does not end with an error.
      place: file and line of an exception; "" if there was none.
    """

    words: str = ""
    place: str = ""


_NO_REASON = Reason()


@dataclasses.dataclass
class ProcessState:
    """State of a supervised process.

    Attributes:
      process: the process to start.
      started: its last start, a `LocalProcess` or an object with the same methods; None before.
      running: whether it runs; False also while it waits for a restart.
      is_done: whether it will not be started again.
      has_been_ready: whether it has ever reported that it is ready, after any of its starts.
      exit_code: its last exit code: minus the signal's number after a death by a signal, None if
        it has not ended yet.
      restarts: number of restarts.
      short_runs: consecutive ends before it had been ready for `steady_seconds`.
      failed_starts: consecutive ends before it was ready.
      ready_at: monotonic time at which it became ready; infinity if it is not ready.
      restart_at: monotonic time of the next restart; None if none is due.
      log_size: bytes in its log at its last start.
      reason: reason for its last end.
      repeats: consecutive ends by an exception of one type at one place, before it was ready or
        soon after.
    """

    process: Process
    started: Any = None
    running: bool = False
    is_done: bool = False
    has_been_ready: bool = False
    exit_code: int | None = None
    restarts: int = 0
    short_runs: int = 0
    failed_starts: int = 0
    ready_at: float = math.inf
    restart_at: float | None = None
    log_size: int = 0
    reason: Reason = _NO_REASON
    repeats: int = 0

    @property
    def pid(self) -> int | None:
        """Its last process id on this machine, even if it does not run; None if it has none."""
        return None if self.started is None else self.started.pid

    def poll(self) -> int | None:
        """Returns the exit code, None if the process runs; records when it becomes ready."""
        code, is_ready = self.started.poll()
        if is_ready and self.ready_at == math.inf:
            self.ready_at, self.has_been_ready = time.monotonic(), True
        return code

    def end(self, code: int, reason: Reason = _NO_REASON) -> None:
        """Records the end of the process."""
        self.exit_code, self.running = code, False
        kinds = {(cause.words.partition(":")[0], cause.place) for cause in (reason, self.reason)}
        is_same = len(kinds) == 1 and time.monotonic() - self.ready_at < _REPEAT_SECONDS
        self.repeats = (1 + self.repeats * is_same) if reason.place else 0
        self.reason = reason
        self.failed_starts = self.failed_starts + 1 if self.ready_at == math.inf else 0


class Cluster:
    """Supervised processes of a run. As a context manager, it calls `start` and `stop`.

    A process that ends is restarted after a pause. The pause doubles, up to a minute, each time the
    process ends before it has been ready for `steady_seconds`. There are two exceptions: the
    process that keeps the run is done when it ends with exit code 0, and from then on every other
    process that ends with 0 is done as well. The run fails

    - if a process that has never been ready (`processes.report_ready`) ends with GIVE_UP_CODE, or
      for the `give_up_after`-th time;
    - if the process that keeps the run ends with GIVE_UP_CODE at any time, or ends `give_up_after`
      times in a row before it is ready;
    - if any process ends with FINAL_CODE, or three times in a row by the same exception at the same
      place, each time before it is ready or less than a minute after.

    Otherwise a process may die any number of times once it has been ready (Ape-X appendix F).

    A subclass implements `_launch`, which starts a process, and overrides `_open`, `_restart` and
    `_close` as needed. The supervising thread calls all of them.
    """

    _poll_seconds = _POLL_SECONDS

    def __init__(
        self,
        processes: Iterable[Process],
        log_directory: str | os.PathLike,
        give_up_after: int = 5,
        steady_seconds: float = 10.0,
        pause_seconds: float = 0.5,
    ):
        """Prepares the processes.

        Args:
          processes: the processes, in the order of their starts.
          log_directory: directory for a log `ROLE-INDEX.log` per process; restarts append to it.
          give_up_after: number of consecutive starts without becoming ready that ends the run.
          steady_seconds: a process that was ready for this long gets the shortest pause again. It
            did work, so repeated kills from outside do not lengthen its pauses.
          pause_seconds: shortest pause before a restart.
        """
        self._log_directory = pathlib.Path(log_directory)
        self._give_up_after = give_up_after
        self._steady_seconds = steady_seconds
        self._pause_seconds = pause_seconds
        self._supervised = {
            (process.name, process.index): ProcessState(process) for process in processes
        }
        self._is_over = self._has_started = False
        self._failure: str | None = None
        self._events: list[str] = []
        self._lock = threading.Lock()
        self._started, self._ended = threading.Event(), threading.Event()
        self._stop_deadline = math.inf
        # One thread starts all processes: the parent-death signal comes when that thread ends.
        self._thread = threading.Thread(target=self._supervise, name="supervisor", daemon=True)

    def __enter__(self) -> "Cluster":
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def start(self) -> None:
        """Starts every process; call it once.

        Raises:
          ClusterError: a process cannot be started. Processes that did start are stopped again.
        """
        self._log_directory.mkdir(parents=True, exist_ok=True)
        self._thread.start()
        _wait(self._started)
        if not self._has_started:
            self.stop()
            raise ClusterError(self._failure)

    def stop(self, timeout_seconds: float = 30.0) -> None:
        """Sends SIGTERM to every process, SIGKILL after the timeout; returns when all are gone.

        If it is called several times, the earliest deadline counts.
        """
        if self._thread.ident is not None:
            self._stop_deadline = min(time.monotonic() + timeout_seconds, self._stop_deadline)
            _wait(self._ended)

    def states(self) -> dict[tuple[str, int], ProcessState]:
        """Returns the state of each process by (name, index)."""
        with self._lock:
            return {key: copy.copy(state) for key, state in self._supervised.items()}

    def failure(self) -> str | None:
        """Returns a message about the first failure of the run, None if there is none."""
        with self._lock:
            return self._failure

    def take_events(self) -> list[str]:
        """Returns the lines about deaths, restarts and moves of processes since the last call."""
        with self._lock:
            events, self._events = self._events, []
            return events

    def log_path(self, name: str, index: int) -> pathlib.Path:
        """Returns the path of a process's log."""
        return self._log_directory / f"{name}-{index}.log"

    def _open(self) -> None:
        """Prepares the starts; raises ClusterError if that fails."""

    def _launch(self, process: Process, log: pathlib.Path) -> Any:
        """Starts a process and returns it; raises as `LocalProcess` does."""
        raise NotImplementedError

    def _close(self) -> None:
        """Releases what `_open` acquired, even if it failed halfway."""

    @property
    def _is_stopping(self) -> bool:
        return self._stop_deadline < math.inf

    def _supervise(self) -> None:
        try:
            self._open()
            for state in self._supervised.values():
                if self._failure is None and not self._is_stopping:
                    self._spawn(state)
            self._has_started = self._failure is None
            self._started.set()
            while not self._is_stopping:
                for state in self._supervised.values():
                    self._attend(state)
                time.sleep(self._poll_seconds)
        except Exception as error:
            is_known = isinstance(error, ClusterError)
            self._fail(str(error) if is_known else f"the supervisor failed: {error!r}")
            self._started.set()
            while not self._is_stopping:  # the end of this thread would kill the processes
                time.sleep(_POLL_SECONDS)
        try:
            self._end_all()
            self._close()
        finally:
            self._ended.set()

    def _fail(self, failure: str) -> None:
        with self._lock:
            self._failure = self._failure or failure

    def _spawn(self, state: ProcessState) -> None:
        if state.started is not None:
            state.started.clear()
        name, index = state.process.name, state.process.index
        log = self.log_path(name, index)
        state.log_size = log.stat().st_size if log.exists() else 0
        try:
            self._log_directory.mkdir(exist_ok=True)  # somebody may have removed it
            started = self._launch(state.process, log)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            state.restart_at = None
            self._fail(f"{name} {index} cannot be started: {error}")
            return
        with self._lock:
            state.started, state.running = started, True
            state.ready_at, state.restart_at = math.inf, None

    def _attend(self, state: ProcessState) -> None:
        """Records the end of a process, and restarts it once its pause is over."""
        if state.restart_at is not None:
            if self._is_over and state.exit_code == 0:
                with self._lock:
                    state.is_done, state.restart_at = True, None
            elif time.monotonic() >= state.restart_at:
                self._restart(state)
            return
        if not state.running or (code := state.poll()) is None:
            return
        now = time.monotonic()
        state.started.signal(signal.SIGTERM)
        path = self.log_path(state.process.name, state.process.index)
        reason = _reason(_log_end(path, state.log_size), code)
        with self._lock:
            state.end(code, reason)
            if code == 0 and (state.process.keeps_run or self._is_over):
                state.is_done = self._is_over = True
            elif self._gives_up(state):
                state.is_done = True
                self._failure = self._failure or self._describe(state)
            else:
                is_steady = now - state.ready_at >= self._steady_seconds
                state.short_runs = 0 if is_steady else state.short_runs + 1
                doublings = min(max(0, state.short_runs - 1), 30)  # 2**30 exceeds any pause
                pause = self._pause_seconds * 2**doublings
                pause = min(max(pause, 0.0 if code else _GRACE_SECONDS), _MAX_PAUSE_SECONDS)
                state.restart_at = now + pause
                if code:
                    said = "; ".join([_in_words(reason)] * bool(reason.words) + [f"log: {path}"])
                    why = f" ({said})" if code > 0 else ""
                    self._events.append(f"{_how(state)}{why}: restart in {pause:.2g} s")

    def _restart(self, state: ProcessState) -> None:
        """Starts a process again."""
        with self._lock:
            state.restarts += 1
            if state.exit_code == 0:
                self._events.append(f"{_how(state)} although the run is not over: restart")
        self._spawn(state)

    def _gives_up(self, state: ProcessState) -> bool:
        if state.exit_code == FINAL_CODE or state.repeats == _MOST_REPEATS:
            return True
        if state.has_been_ready and not state.process.keeps_run:
            return False
        return state.exit_code == GIVE_UP_CODE or state.failed_starts >= self._give_up_after

    def _describe(self, state: ProcessState) -> str:
        name = f"{state.process.name} {state.process.index}"
        path = self.log_path(state.process.name, state.process.index)
        if state.repeats == _MOST_REPEATS:
            return (
                f"{name} has ended {_MOST_REPEATS} times in a row with {_in_words(state.reason)}: "
                f"correct the error, then the same command resumes the run (its log is {path})"
            )
        how = _how(state)
        if state.exit_code not in (GIVE_UP_CODE, FINAL_CODE):
            how += f" after {state.restarts} restarts without becoming ready; given up"
        elif state.reason.words:
            return f"{name}: {state.reason.words} (its log is {path})"
        last = "\n".join(_log_end(path).splitlines()[-_FAILURE_LINES:])
        return f"{how}; {path} ends with:\n{last}"

    def _end_all(self, seconds: float = math.inf) -> None:
        """Ends all processes, with SIGKILL after `seconds` or at the deadline of `stop`."""
        deadline = time.monotonic() + seconds
        started = [state for state in self._supervised.values() if state.started is not None]
        for state in started:
            state.started.signal(signal.SIGTERM)
        while time.monotonic() < min(deadline, self._stop_deadline) and any(
            state.poll() is None for state in started
        ):
            time.sleep(self._poll_seconds)
        deadline = time.monotonic() + _LEFTOVER_SECONDS
        for state in started:
            code = state.started.clear(max(0.0, deadline - time.monotonic()))
            with self._lock:
                if state.running:
                    state.end(code)
                state.restart_at = None


class LocalCluster(Cluster):
    """A cluster of processes on this machine.

    Each process leads a session of its own, so that Ctrl-C reaches only the launcher, which then
    stops the processes in an orderly way. If the launcher dies for any reason, Linux kills them.

    When a process ends for any reason, so do the processes that it has started: its group receives
    SIGTERM at once, and SIGKILL before the restart or at the end of the run. If the launcher dies,
    a shell that outlives it sends both. Processes that left the group, as daemons do, survive.
    """

    def __init__(self, *arguments: Any, preload: Sequence[str] = (), **options: Any):
        """Prepares the processes.

        Args:
          *arguments: arguments of `Cluster`.
          preload: modules that a `Template` imports. The processes are forked from it if possible,
            and each command must be `python -m`. Empty: no process is forked.
          **options: keyword arguments of `Cluster`.
        """
        super().__init__(*arguments, **options)
        self._preload = preload
        self._guard: subprocess.Popen | None = None
        self._template: Template | None = None

    def stop(self, timeout_seconds: float = 30.0) -> None:
        """Sends SIGTERM to every process, SIGKILL after the timeout; returns when all are gone."""
        template = self._template
        if template is not None:
            template.kill()  # it may still import for seconds, or be frozen
        super().stop(timeout_seconds)

    def _open(self) -> None:
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
        if self._preload:
            with contextlib.suppress(OSError):
                self._template = Template(self._preload)

    def _launch(self, process: Process, log: pathlib.Path) -> LocalProcess:
        if self._template is not None:
            try:
                return LocalProcess(process, log, template=self._template)
            except OSError:  # a process can import by itself, and says why if it cannot
                self._template.close()
                self._template = None
        return LocalProcess(process, log)

    def _spawn(self, state: ProcessState) -> None:
        super()._spawn(state)
        self._tell_guard(some.pid for some in self._supervised.values() if some.started)

    def _tell_guard(self, groups: Iterable[int]) -> None:
        """Tells the guard which process groups to end if the launcher dies."""
        with contextlib.suppress(BrokenPipeError):  # somebody has killed it
            self._guard.stdin.write(b"%s\n" % b" ".join(b"-%d" % group for group in groups))

    def _close(self) -> None:
        if self._guard is not None:
            self._tell_guard([])
            self._guard.communicate()
        if self._template is not None:
            self._template.close()


def _wait(event: threading.Event) -> None:
    """Waits for an event in steps: a signal just before a single wait would not interrupt it."""
    while not event.wait(_POLL_SECONDS):
        pass


def _how(state: ProcessState) -> str:
    """Returns a description of a process's last end."""
    code = state.exit_code
    assert code is not None
    how = f"exit code {code}" if code >= 0 else f"signal {-code} ({signal.strsignal(-code)})"
    return f"{state.process.name} {state.process.index} {state.started.lost or f'ended with {how}'}"


def _in_words(reason: Reason) -> str:
    return f"{reason.words} ({reason.place})" if reason.place else reason.words


def _log_end(path: pathlib.Path, begin: int = 0) -> str:
    """Returns the end of a log, from byte `begin` at the earliest, or why it cannot be read."""
    try:
        with open(path, "rb") as file:
            file.seek(max(begin, os.path.getsize(path) - _FAILURE_BYTES))
            return file.read().decode(errors="replace")
    except OSError as error:
        return f"(it cannot be read: {error.strerror})"


def _reason(log: str, code: int) -> Reason:
    """Returns the reason for a process's exit code, given the end of its log.

    The place is the traceback's last line in a file of the user (see `_NOT_THE_USERS`), or else the
    line that raised the exception.
    """
    lines = log.splitlines()
    if code <= 0 or not lines:
        return _NO_REASON
    errors = [line for line in lines if line.startswith("error: ")]
    if errors and (code != 1 or lines[-1] == errors[-1]):  # TensorFlow may warn after the error
        return Reason(errors[-1].removeprefix("error: "))
    if code != 1 or _TRACEBACK not in lines:
        return _NO_REASON
    traceback = lines[len(lines) - lines[::-1].index(_TRACEBACK) :]
    words = next((line for line in traceback if not line.startswith(" ")), "")
    frames = [match.groups() for line in traceback if (match := _FRAME.match(line))]
    users = [frame for frame in frames if not frame[0].startswith(_NOT_THE_USERS)]
    place = ", line ".join((users or frames)[-1]) if frames else ""
    return Reason(words[:_REASON_CHARACTERS], place)
