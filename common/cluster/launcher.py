"""Starts the roles of a local cluster as processes, restarts those that may die, stops them all.

Plain `subprocess` on purpose: the library supervisor reports a program that dies in its first
second with exit status 0, any death by a signal as -1, and does not count restarts.
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
"""Exit code of a role whose error another start would not mend: a person has to."""
_POLL_SECONDS = 0.05
_MAX_RESTART_DELAY_SECONDS = 10.0
_FAILURE_LINES = 15
_FAILURE_BYTES = 8192
_ERROR = "error: "


@dataclasses.dataclass(frozen=True)
class Process:
    """A role's process to start.

    Attributes:
        name: the role, for example `actor`.
        index: which of them.
        command: program and arguments; no shell reads them.
        environment: variables on top of the launcher's own.
        restart: whether to start it again when it ends with a code other than 0 or by a signal;
            0 says that it has done all there was to do, GIVE_UP_CODE that trying is of no use.
    """

    name: str
    index: int
    command: list[str]
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
    restart: bool = False


@dataclasses.dataclass(frozen=True)
class State:
    """What a role's process does.

    Attributes:
        running: whether it runs; False also while it waits to be started again.
        exit_code: of its last end: minus the signal's number for a death by signal, None if it
            has not ended yet.
        restarts: how often it was started again.
        pid: of its process, the last one if it does not run; None before the first start.
    """

    running: bool
    exit_code: int | None
    restarts: int
    pid: int | None


class LocalCluster:
    """The processes of `roles`, from `start` to `stop`; a context manager does both.

    Every process leads a session of its own, so that Ctrl-C reaches only the launcher, which
    stops them in order. If the launcher dies by whatever cause, Linux kills them.

    Args:
        roles: what to start, in this order.
        log_directory: gets `ROLE-INDEX.log`, appended to across restarts.
        give_up_after: so many deaths right after the start end the restarts of a role. A role has
            so many lives: a death costs one, running gives them back, up to as many.
        life_seconds: running for so long gives a life back. Whoever is killed now and then is
            started for ever, what crashes again and again is not.
        restart_delay_seconds: before a restart; doubles with each life that is missing, up to 10 s.
    """

    def __init__(
        self,
        roles: Iterable[Process],
        log_directory: str | os.PathLike,
        give_up_after: int = 5,
        life_seconds: float = 60.0,
        restart_delay_seconds: float = 0.5,
    ):
        self._log_directory = pathlib.Path(log_directory)
        self._give_up_after = give_up_after
        self._life_seconds = life_seconds
        self._restart_delay_seconds = restart_delay_seconds
        self._supervised = {
            (role.name, role.index): _Supervised(role, give_up_after) for role in roles
        }
        self._failure: str | None = None
        self._lock = threading.Lock()
        self._started = threading.Event()
        self._stop_deadline: float | None = None
        # One thread starts all processes: the parent-death signal follows the thread's life.
        self._thread = threading.Thread(target=self._supervise, name="supervisor", daemon=True)

    def __enter__(self) -> "LocalCluster":
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def start(self) -> None:
        """Starts every role; call it once.

        Raises:
            ClusterError: a command cannot be started; those that could are stopped again.
        """
        self._log_directory.mkdir(parents=True, exist_ok=True)
        self._thread.start()
        self._started.wait()
        failure = self.failure()
        if failure is not None and any(one.process is None for one in self._supervised.values()):
            self.stop()
            raise ClusterError(failure)

    def stop(self, timeout_seconds: float = 30.0) -> None:
        """Sends SIGTERM to every role, after the timeout SIGKILL; returns when all are gone."""
        if self._thread.ident is None:
            return
        if self._stop_deadline is None:
            self._stop_deadline = time.monotonic() + timeout_seconds
        self._thread.join()

    def states(self) -> dict[tuple[str, int], State]:
        """Returns the state of each role, by (name, index)."""
        with self._lock:
            return {key: one.state() for key, one in self._supervised.items()}

    def failure(self) -> str | None:
        """Returns what went wrong first, with the end of that role's log; None if nothing did.

        A failure is a role with `restart=False` that ended with a code other than 0, or one with
        `restart=True` that was given up. What `stop` ends is none.
        """
        with self._lock:
            return self._failure

    def log_path(self, name: str, index: int) -> pathlib.Path:
        """Returns the path of a role's log."""
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
            while self._stop_deadline is None:  # this thread's end would kill the roles
                time.sleep(_POLL_SECONDS)
        self._end_all()

    def _spawn(self, one: "_Supervised") -> None:
        role = one.role
        try:
            with open(self.log_path(role.name, role.index), "ab") as log:
                process = subprocess.Popen(
                    role.command,
                    env={**os.environ, **role.environment},
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
                    f"{role.name} {role.index} cannot be started: {error}"
                )
            return
        with self._lock:
            one.process = process
            one.started_at = time.monotonic()
            one.restart_at = None

    def _attend(self, one: "_Supervised") -> None:
        """Notices a process that has ended, and starts it again when its time has come."""
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
            regained = (now - one.started_at) / self._life_seconds
            one.lives = min(one.lives + regained, self._give_up_after) - 1
            if code not in (0, GIVE_UP_CODE) and one.role.restart and one.lives >= 1:
                delay = self._restart_delay_seconds * 2 ** (self._give_up_after - one.lives - 1)
                one.restart_at = now + min(delay, _MAX_RESTART_DELAY_SECONDS)
                return
            one.ended = True
            if code != 0:
                self._failure = self._failure or self._describe(one)

    def _describe(self, one: "_Supervised") -> str:
        role, code = one.role, one.exit_code
        path = self.log_path(role.name, role.index)
        tail = _tail(path)
        last = tail.splitlines()[-1] if tail else ""
        if code == GIVE_UP_CODE and last.startswith(_ERROR):
            return f"{role.name} {role.index}: {last.removeprefix(_ERROR)} (its log is {path})"
        how = f"exit code {code}" if code >= 0 else f"signal {-code} ({signal.strsignal(-code)})"
        if role.restart and code != GIVE_UP_CODE:
            how += f" after {one.restarts} restarts, too many in so short a time; given up"
        return f"{role.name} {role.index} ended with {how}; {path} ends with:\n{tail}"

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
                os.killpg(one.process.pid, number)  # it leads its group, and is not reaped yet


class _Supervised:
    """A role with what the supervising thread knows of it."""

    def __init__(self, role: Process, lives: float):
        self.role = role
        self.lives = lives
        self.process: subprocess.Popen | None = None
        self.exit_code: int | None = None
        self.ended = False
        self.restarts = 0
        self.started_at = 0.0
        self.restart_at: float | None = None

    def state(self) -> State:
        running = self.process is not None and self.process.returncode is None
        return State(
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
