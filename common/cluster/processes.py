"""Set-up of a role's process: parent-death signal, orderly stop, patience, threads, seeds."""

from collections.abc import Callable, Sequence
import contextlib
import ctypes
import gc
import importlib
import math
import os
import random
import signal
import sys
import threading
import time
from typing import Any, TypeVar

from absl import logging

from common.cluster.errors import ClusterError, ServiceUnavailableError
from common.reporting.records import usable_cores as usable_cores

READY_VARIABLE = "REPLAY_RL_READY"
"""Environment variable with the descriptor on which a process reports to its launcher."""
UNLEARNT_SECONDS = 10.0
"""Longest time to end a role that has made no update and so has nothing to save."""
_STOPS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
_ONE_REQUEST_SECONDS = 0.5
"""Two SIGINTs within this time are one Ctrl-C: a terminal sends the signal to the whole group, and
`timeout` passes it on."""
_LOG_SECONDS = 60.0
_PAUSE_SECONDS = 0.2
"""Time between calls to a service that does not answer."""
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_LIBC = ctypes.CDLL(None, use_errno=True)


def set_parent_death_signal(parent_pid: int, signal_number: int = signal.SIGKILL) -> None:
    """Asks Linux to signal this process when its parent dies.

    The parent is the *thread* that started this process: the signal comes when that thread ends.
    The setting survives `exec`, but not `fork`.

    Args:
      parent_pid: the expected parent. If this process has another parent by now, the expected one
        has died already and this process ends at once.
      signal_number: the signal to send.

    Raises:
      OSError: Linux refused the setting.
    """
    _control(_PR_SET_PDEATHSIG, int(signal_number))
    if os.getppid() != parent_pid:
        os.kill(os.getpid(), signal_number)


def set_child_subreaper(is_one: bool) -> None:
    """Sets whether this process becomes the parent of descendants that lose their parent.

    Raises:
      OSError: Linux refused the setting.
    """
    _control(_PR_SET_CHILD_SUBREAPER, int(is_one))


def show_command(arguments: Sequence[str]) -> None:
    """Replaces this process's command line as `ps` and `top` show it.

    The new command line is written into the memory of the original one, and cut to its length.
    """
    with open("/proc/self/stat", encoding="utf-8") as file:
        fields = file.read().rpartition(")")[2].split()
    begin, end = int(fields[45]), int(fields[46])
    line = b"".join(os.fsencode(argument) + b"\0" for argument in arguments)
    ctypes.memmove(begin, line[: end - begin - 1].ljust(end - begin, b"\0"), end - begin)


def _control(option: int, value: int) -> None:
    if _LIBC.prctl(option, value, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl({option}, {value}): {os.strerror(number)}")


def report_ready() -> None:
    """Tells the launcher, if there is one, that this process is ready; repeated calls do nothing.

    A process is ready once its service runs and the first answers of its partners have arrived.
    """
    number = os.environ.pop(READY_VARIABLE, None)
    if number is not None:
        with contextlib.suppress(OSError):
            os.write(int(number), b"1")
            os.close(int(number))


def return_free_memory() -> None:
    """Returns to the system the free memory that `malloc` keeps.

    After compilation, the gaps between the remaining objects are about as large as the objects.
    """
    _LIBC.malloc_trim(0)


class StopRequest:
    """A request for an orderly stop, made by SIGTERM, SIGHUP, SIGINT or `request`.

    A second SIGINT raises KeyboardInterrupt, for users who cannot wait. A SIGINT right after the
    first does not.

    Attributes:
      requested: whether a stop was requested.
      exit_code: the exit code for a program that a signal stopped: 128 plus the signal's number, as
        in shells. It is 0 otherwise, so that a supervisor restarts programs that were interrupted
        but not programs that are done.
    """

    def __init__(self):
        self.requested = False  # not a threading.Event: its lock is unsafe in a signal handler
        self._interrupted_at = -math.inf
        self._has_time = threading.Event()
        self.exit_code = 0

    def install(self) -> "StopRequest":
        """Handles SIGTERM, SIGHUP (a closed terminal) and SIGINT from now on; returns itself.

        An ignored SIGHUP, as under `nohup`, stays ignored. An ignored SIGCHLD does not, since this
        process could not learn its children's exit codes. Call this in the main thread.
        """
        if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number in _STOPS:
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self._on_signal)
        return self

    def request(self) -> None:
        """Requests a stop from inside the program."""
        self.requested = True

    def wait(self, seconds: float) -> bool:
        """Sleeps until a stop is requested, at most `seconds`; returns `requested`."""
        deadline = time.monotonic() + seconds
        while not self.requested and (remaining := deadline - time.monotonic()) > 0:
            time.sleep(min(0.05, remaining))
        return self.requested

    def end_within(self, seconds: float, last: Callable[[], None]) -> None:
        """Lets a signal end the process after `seconds`, unless `take_time` is called before.

        Python handles signals between two steps of the main thread. A single call of compiled code,
        such as a compilation by XLA, can delay this for minutes. So a thread waits for the signal.

        Args:
          seconds: the longest time for an orderly end.
          last: called, in that thread, before the process ends.
        """
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        # A process that the environment forks must not report its own signals here.
        os.register_at_fork(after_in_child=lambda: signal.set_wakeup_fd(-1))

        def watch() -> None:
            while (number := os.read(reader, 1)[0]) not in _STOPS:
                pass  # the environment handles it
            if not self._has_time.wait(seconds):
                try:
                    last()
                finally:
                    os._exit(128 + number)

        threading.Thread(target=watch, name="end", daemon=True).start()
        if self.exit_code:  # a signal came before this call
            os.write(writer, bytes([self.exit_code - 128]))

    def take_time(self) -> None:
        """Removes the time limit of `end_within` from now on."""
        self._has_time.set()

    def _on_signal(self, number: int, frame: object) -> None:
        if number == signal.SIGINT:
            before, self._interrupted_at = self._interrupted_at, time.monotonic()
            is_new = self._interrupted_at - before > _ONE_REQUEST_SECONDS
            if self.requested and is_new:
                raise KeyboardInterrupt("interrupted twice: ended without waiting")
        self.requested = True
        self.exit_code = 128 + number


class PatienceError(ClusterError):
    """Error of a role that has waited too long for another role."""

    is_transient = True


_Answer = TypeVar("_Answer")


class Patience:
    """A limit on a role's wait for another role, so that no role outlives its run unnoticed.

    Attributes:
      default_seconds: limit of the waits that start in this process. It is longer than a machine
        takes to restart.
    """

    default_seconds = 1800.0

    def __init__(self, complaint: str):
        """Starts the wait.

        Args:
          complaint: beginning of the error message, such as "no answer from the learner".
        """
        self._complaint = complaint
        self._seconds = self.default_seconds
        self._logged_at = -math.inf
        self.renew()

    def renew(self) -> None:
        """Restarts the wait, after an answer."""
        self._since = time.monotonic()

    def check(self, error: Exception | None = None) -> None:
        """Raises PatienceError if the wait exceeds the limit.

        Args:
          error: error of the last attempt, quoted in the message; None: there is none to quote.

        Raises:
          PatienceError: there was no `renew` for longer than the limit.
        """
        if time.monotonic() - self._since > self._seconds:
            why = "" if error is None else f" ({error})"
            raise PatienceError(
                f"{self._complaint} for {self._seconds / 60:g} minutes{why}: this role ends; start "
                "it again when the others are back, or wait longer with --patience_minutes"
            )

    def miss(self, error: Exception) -> None:
        """Logs the error of an unanswered call, at most once a minute; raises as `check`."""
        now = time.monotonic()
        if now - self._logged_at >= _LOG_SECONDS:
            self._logged_at = now
            logging.warning("%s yet: %s", self._complaint, error)
        self.check(error)

    def until_answered(
        self, call: Callable[[], _Answer], gives_up: Callable[[], bool]
    ) -> _Answer | None:
        """Repeats a call until its service answers; returns the answer, or None if it gives up.

        Args:
          call: the call.
          gives_up: returns whether to end the wait; called before each call.

        Raises:
          PatienceError: the wait exceeds the limit.
        """
        self.renew()
        while not gives_up():
            try:
                answer = call()
            except ServiceUnavailableError as error:
                self.miss(error)
                time.sleep(_PAUSE_SECONDS)
            else:
                self.renew()
                return answer
        return None


class Background:
    """A function in a thread of its own; `check` raises its error in the calling thread."""

    def __init__(self, function: Callable[[], None], name: str):
        """Creates the thread, a daemon, which does not keep the process from ending."""
        self._function = function
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Starts the thread; call it once."""
        self._thread.start()

    def check(self) -> None:
        """Raises the error that ended the function, if any."""
        if self._error is not None:
            raise self._error

    def join(self, seconds: float | None = None) -> None:
        """Waits for the end of the function, if it was started; None: as long as it takes."""
        if self._thread.is_alive():
            self._thread.join(seconds)

    def _run(self) -> None:
        try:
            self._function()
        except Exception as error:  # pylint: disable=broad-except
            self._error = error


def seed_generators(seed: int, role: str, index: int, start: int = 0) -> None:
    """Seeds Python's and NumPy's global generators, which an environment may draw from.

    Otherwise all processes forked from one template would share the state of NumPy's generator.

    Args:
      seed: the run's seed.
      role: name of this process's role.
      index: index of this process within its role.
      start: number of earlier starts, so that a restarted process does not repeat itself.
    """
    import numpy as np  # a role has to set its threads before this

    state = np.random.SeedSequence([seed, index, start, *role.encode()]).generate_state(4)
    random.seed(state.tobytes())
    np.random.seed(state)


def thread_environment(threads: int) -> dict[str, str]:
    """Returns environment variables that limit OpenMP and BLAS to `threads` threads."""
    return {name: str(threads) for name in _THREAD_VARIABLES}


def limit_threads(threads: int) -> None:
    """Limits TensorFlow, OpenMP and BLAS in this process to `threads` threads per pool.

    NumPy reads the environment variables once: call this before anything imports NumPy, or start
    the process with `thread_environment`.

    Raises:
      RuntimeError: TensorFlow has run an op already.
    """
    os.environ.update(thread_environment(threads))
    tf = import_module("tensorflow")  # after the variables are set
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)


def import_module(name: str) -> Any:
    """Imports and returns a module.

    This avoids a third of the import time of TensorFlow: garbage collections, which find nothing,
    and the import of Keras, which TensorFlow then delays until `tf.keras` is used.
    """
    hides_keras = name == "tensorflow" and "keras" not in sys.modules
    collects = gc.isenabled()
    gc.disable()
    if hides_keras:
        sys.modules["keras"] = None  # type: ignore[assignment]
    try:
        return importlib.import_module(name)
    finally:
        if hides_keras:
            del sys.modules["keras"]
        if collects:
            gc.enable()
