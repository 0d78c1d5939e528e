"""Supervisor of a local cluster: starts roles as processes, restarts some of them, stops them all.

It uses plain `subprocess`: the library supervisor tried before reports status 0 for a program that
dies in its first second, -1 for every death by a signal, and does not count restarts.
This module does not import TensorFlow.
"""

from collections.abc import Iterable, Mapping
import dataclasses
import functools
import os
import pathlib
import signal
import subprocess
import threading
import time

from common.cluster.errors import ClusterError
from common.cluster.processes import set_parent_death_signal

GIVE_UP_CODE = 2
"""Exit code of a role whose error a restart cannot fix: a person has to act."""
_POLL_SECONDS = 0.05
_MAX_RESTART_DELAY_SECONDS = 10.0
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
      restart: whether to restart the process when a signal ends it or its exit code is neither 0
        (all work is done) nor GIVE_UP_CODE (a restart would be useless).
    """

    name: str
    index: int
    command: list[str]
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
    restart: bool = False


@dataclasses.dataclass(frozen=True)
class ProcessState:
    """State of a supervised process.

    Attributes:
      running: whether it runs; False also while it waits for a restart.
      exit_code: its last exit code: minus the signal's number after a death by a signal, None if
        it has not ended yet.
      restarts: number of restarts.
      pid: its process id, the last one if it does not run; None before the first start.
    """

    running: bool
    exit_code: int | None
    restarts: int
    pid: int | None


class LocalCluster:
    """Supervised processes, from `start` to `stop`; as a context manager it calls both.

    Each process leads a session of its own, so that Ctrl-C reaches only the launcher, which then
    stops the processes in order. If the launcher dies for any reason, Linux kills them.

    A process that is killed now and then is restarted for ever; one that keeps crashing is not.
    It may die `give_up_after` times in quick succession: each death uses up one of these attempts,
    and every `recovery_seconds` of running restore one.
    """

    def __init__(
        self,
        processes: Iterable[Process],
        log_directory: str | os.PathLike,
        give_up_after: int = 5,
        recovery_seconds: float = 60.0,
        restart_delay_seconds: float = 0.5,
    ):
        """Prepares the processes.

        Args:
          processes: started in this order.
          log_directory: gets a log `ROLE-INDEX.log` per process; restarts append to it.
          give_up_after: number of deaths in quick succession that ends the restarts of a process.
          recovery_seconds: time of running that restores one attempt.
          restart_delay_seconds: delay before a restart; doubles with each attempt used up, to at
            most 10 s.
        """
        self._log_directory = pathlib.Path(log_directory)
        self._give_up_after = give_up_after
        self._recovery_seconds = recovery_seconds
        self._restart_delay_seconds = restart_delay_seconds
        self._supervised = {
            (spec.name, spec.index): _Supervised(spec, give_up_after) for spec in processes
        }
        self._failure: str | None = None
        self._lock = threading.Lock()
        self._started = threading.Event()
        self._stop_deadline: float | None = None
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
        self._thread.start()
        self._started.wait()
        failure = self.failure()
        if failure is not None and any(one.process is None for one in self._supervised.values()):
            self.stop()
            raise ClusterError(failure)

    def stop(self, timeout_seconds: float = 30.0) -> None:
        """Sends SIGTERM to every process, SIGKILL after the timeout; returns when all are gone."""
        if self._thread.ident is None:
            return
        if self._stop_deadline is None:
            self._stop_deadline = time.monotonic() + timeout_seconds
        self._thread.join()

    def states(self) -> dict[tuple[str, int], ProcessState]:
        """Returns the state of each process by (name, index)."""
        with self._lock:
            return {key: one.state() for key, one in self._supervised.items()}

    def failure(self) -> str | None:
        """Returns the first failure with the end of that process's log, None without a failure.

        A process fails if it ends with a code other than 0 and is not restarted, either because of
        `restart=False` or because the launcher gave up. Ends caused by `stop` are no failures.
        """
        with self._lock:
            return self._failure

    def log_path(self, name: str, index: int) -> pathlib.Path:
        """Returns the path of a process's log."""
        return self._log_directory / f"{name}-{index}.log"

    def _supervise(self) -> None:
        for one in self._supervised.values():
            if self._failure is None:
                self._spawn(one)
        self._started.set()
        try:
            while self._stop_deadline is None:
                for one in self._supervised.values():
                    self._attend(one)
                time.sleep(_POLL_SECONDS)
        except Exception as error:  # pylint: disable=broad-except
            with self._lock:
                self._failure = self._failure or f"the supervisor failed: {error!r}"
            while self._stop_deadline is None:  # the end of this thread would kill the processes
                time.sleep(_POLL_SECONDS)
        self._end_all()

    def _spawn(self, one: "_Supervised") -> None:
        spec = one.spec
        try:
            with open(self.log_path(spec.name, spec.index), "ab") as log:
                process = subprocess.Popen(
                    spec.command,
                    env={**os.environ, **spec.environment},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    preexec_fn=functools.partial(set_parent_death_signal, os.getpid()),
                )
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            with self._lock:
                one.restart_at = None
                self._failure = self._failure or (
                    f"{spec.name} {spec.index} cannot be started: {error}"
                )
            return
        with self._lock:
            one.process = process
            one.started_at = time.monotonic()
            one.restart_at = None

    def _attend(self, one: "_Supervised") -> None:
        """Records the end of a process, and restarts it once its delay is over."""
        now = time.monotonic()
        if one.restart_at is not None:
            if now >= one.restart_at:
                with self._lock:
                    one.restarts += 1
                self._spawn(one)
            return
        if one.process is None or one.ended:
            return
        code = one.process.poll()
        if code is None:
            return
        with self._lock:
            one.exit_code = code
            restored = (now - one.started_at) / self._recovery_seconds
            one.attempts = min(one.attempts + restored, self._give_up_after) - 1
            if code not in (0, GIVE_UP_CODE) and one.spec.restart and one.attempts >= 1:
                delay = self._restart_delay_seconds * 2 ** (self._give_up_after - one.attempts - 1)
                one.restart_at = now + min(delay, _MAX_RESTART_DELAY_SECONDS)
                return
            one.ended = True
            if code != 0:
                self._failure = self._failure or self._describe(one)

    def _describe(self, one: "_Supervised") -> str:
        spec, code = one.spec, one.exit_code
        path = self.log_path(spec.name, spec.index)
        tail = _tail(path)
        last = tail.splitlines()[-1] if tail else ""
        if code == GIVE_UP_CODE and last.startswith(_ERROR):
            return f"{spec.name} {spec.index}: {last.removeprefix(_ERROR)} (its log is {path})"
        how = f"exit code {code}" if code >= 0 else f"signal {-code} ({signal.strsignal(-code)})"
        if spec.restart and code != GIVE_UP_CODE:
            how += f" after {one.restarts} restarts, too many in a short time; given up"
        return f"{spec.name} {spec.index} ended with {how}; {path} ends with:\n{tail}"

    def _end_all(self) -> None:
        self._signal_all(signal.SIGTERM)
        while time.monotonic() < self._stop_deadline and self._any_running():
            time.sleep(_POLL_SECONDS)
        self._signal_all(signal.SIGKILL)
        for one in self._supervised.values():
            if one.process is not None:
                code = one.process.wait()
                with self._lock:
                    one.exit_code, one.restart_at = code, None

    def _any_running(self) -> bool:
        return any(
            one.process is not None and one.process.poll() is None
            for one in self._supervised.values()
        )

    def _signal_all(self, number: int) -> None:
        for one in self._supervised.values():
            if one.process is not None and one.process.poll() is None:
                os.killpg(one.process.pid, number)  # it leads its group and is not reaped yet


class _Supervised:
    """A process with the supervising thread's records of it."""

    def __init__(self, spec: Process, attempts: float):
        self.spec = spec
        self.attempts = attempts
        self.process: subprocess.Popen | None = None
        self.exit_code: int | None = None
        self.ended = False
        self.restarts = 0
        self.started_at = 0.0
        self.restart_at: float | None = None

    def state(self) -> ProcessState:
        running = self.process is not None and self.process.returncode is None
        return ProcessState(
            running,
            self.exit_code,
            self.restarts,
            None if self.process is None else self.process.pid,
        )


def _tail(path: pathlib.Path) -> str:
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.path.getsize(path) - _FAILURE_BYTES))
            text = file.read().decode(errors="replace")
    except OSError as error:
        return f"(it cannot be read: {error.strerror})"
    return "\n".join(text.splitlines()[-_FAILURE_LINES:])
