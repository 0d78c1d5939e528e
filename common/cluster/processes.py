"""What each role's process does at its start: die with its parent, stop in order, share cores."""

import contextlib
import ctypes
import os
import signal
import sys
import time

from common.cluster.errors import ClusterError

READY_VARIABLE = "REPLAY_RL_READY"
"""Number of the descriptor on which a process tells its launcher that it has come up."""
_PR_SET_PDEATHSIG = 1
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def set_parent_death_signal(
    parent_pid: int | None = None, signal_number: int = signal.SIGKILL
) -> None:
    """Asks Linux to signal this process when its parent dies; elsewhere does nothing.

    The parent is the *thread* that started this process: it has to live as long as it should.
    The setting survives `exec`, and ends at a `fork`.

    Args:
        parent_pid: who the parent should be, where the caller knows. If the process has another
            parent by now, that one has died already and this process ends at once.
        signal_number: what to send.
    """
    if _LIBC is None:
        return
    parent_before = os.getppid() if parent_pid is None else parent_pid
    if _LIBC.prctl(_PR_SET_PDEATHSIG, int(signal_number), 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"cannot set the parent-death signal: {os.strerror(number)}")
    if os.getppid() != parent_before:
        os.kill(os.getpid(), signal_number)


def report_ready() -> None:
    """Tells the launcher, if there is one, that this process has come up; repeats do nothing."""
    number = os.environ.pop(READY_VARIABLE, None)
    if number is not None:
        with contextlib.suppress(OSError):
            os.write(int(number), b"1")
            os.close(int(number))


class StopRequest:
    """Whether SIGTERM or SIGINT asked this process to stop, for loops that end in good order.

    A second SIGINT raises KeyboardInterrupt, for people who cannot wait. `install` belongs into
    the main thread.
    """

    def __init__(self):
        self._requested = False  # no threading.Event: its lock is not safe in a signal handler
        self.exit_code = 0
        """For a program that a signal stopped: 128 plus its number, as shells have it.

        0 is left to say that all is done, so that a supervisor starts again what is not.
        """

    def install(self) -> "StopRequest":
        """Takes over SIGTERM, SIGHUP (a closed terminal) and SIGINT; returns itself."""
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, self._on_signal)
        return self

    @property
    def requested(self) -> bool:
        """Whether to stop."""
        return self._requested

    def request(self) -> None:
        """Asks to stop from inside the program."""
        self._requested = True

    def wait(self, seconds: float) -> bool:
        """Sleeps, at most until a request comes; returns `requested`."""
        deadline = time.monotonic() + seconds
        while not self._requested and (remaining := deadline - time.monotonic()) > 0:
            time.sleep(min(0.05, remaining))
        return self._requested

    def _on_signal(self, number: int, frame: object) -> None:
        if self._requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        self._requested = True
        self.exit_code = 128 + number


class PatienceError(ClusterError):
    """A partner has been gone for too long."""

    may_pass = True


class Patience:
    """Ends a role whose partner is gone for good: no job should outlive its run unnoticed.

    Args:
        partner: who is waited for, for the message.
        seconds: how long without an answer is too long; `default_seconds` if None.
    """

    default_seconds = 1800.0
    """Of this process. A machine that restarts takes less."""

    def __init__(self, partner: str, seconds: float | None = None):
        self._partner = partner
        self._seconds = self.default_seconds if seconds is None else seconds
        self.renew()

    def renew(self) -> None:
        """Starts to wait anew: there was an answer."""
        self._since = time.monotonic()

    def check(self, error: Exception | None = None) -> None:
        """Raises PatienceError if the wait has been too long; `error` is how the last try ended."""
        if time.monotonic() - self._since > self._seconds:
            why = "" if error is None else f" ({error})"
            raise PatienceError(
                f"{self._partner} for {self._seconds / 60:g} minutes{why}: this role ends; start "
                "it again when the others are back, --patience_minutes waits longer"
            )


def usable_cores() -> int:
    """Returns how many cores this process may use, which can be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def thread_environment(threads: int) -> dict[str, str]:
    """Returns the environment variables that hold OpenMP and BLAS to so many threads."""
    return {name: str(threads) for name in _THREAD_VARIABLES}


def limit_threads(threads: int) -> None:
    """Holds TensorFlow, OpenMP and BLAS in this process to `threads` threads a pool.

    Call it before anything imports numpy, which reads its variables once, or start the process
    with `thread_environment`. TensorFlow must not have run an op yet.

    Raises:
        RuntimeError: TensorFlow runs already.
    """
    os.environ.update(thread_environment(threads))
    import tensorflow as tf  # after the variables; and the launcher's process goes without it

    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
