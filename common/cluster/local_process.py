"""A role's process on this machine, with the processes that it starts.

This module does not import TensorFlow.
"""

from collections.abc import Mapping
import contextlib
import dataclasses
import functools
import os
import signal
import subprocess
import time

from common.cluster.processes import READY_VARIABLE, set_parent_death_signal
from common.cluster.template import Template

_POLL_SECONDS = 0.05


@dataclasses.dataclass(frozen=True)
class Process:
    """A process to start.

    Attributes:
      name: its role, for example `actor`.
      index: its index among the processes of that role.
      command: program and arguments, run without a shell.
      environment: variables in addition to those of the process that starts it.
      keeps_run: whether the run is over once this process has ended with exit code 0.
    """

    name: str
    index: int
    command: list[str]
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
    keeps_run: bool = False


class LocalProcess:
    """A started process, and leader of a session with what it starts.

    Linux kills it when the thread that started it ends.

    Attributes:
      pid: its process id.
      lost: "": its end is known by its exit code.
    """

    lost = ""

    def __init__(
        self,
        process: Process,
        log: str | os.PathLike,
        folder: str | None = None,
        template: Template | None = None,
    ):
        """Starts the process.

        Args:
          process: what to start.
          log: file to which its output is appended.
          folder: in which it starts; the current one by default.
          template: from which it is forked, if its command is `python -m`.

        Raises:
          OSError, ValueError, subprocess.SubprocessError: it cannot be started.
        """
        variables = {**os.environ, **process.environment}
        self._reader, writer = os.pipe()
        os.set_blocking(self._reader, False)
        self._is_ready = False
        try:
            with open(log, "ab") as file:
                if template is not None:
                    self._popen = template.fork(
                        process.command[2:], variables, file.fileno(), writer
                    )
                else:
                    self._popen = subprocess.Popen(
                        process.command,
                        cwd=folder,
                        env=variables | {READY_VARIABLE: str(writer)},
                        stdin=subprocess.DEVNULL,
                        stdout=file,
                        stderr=subprocess.STDOUT,
                        start_new_session=True,
                        pass_fds=(writer,),
                        preexec_fn=functools.partial(set_parent_death_signal, os.getpid()),
                    )
        except BaseException:
            os.close(self._reader)
            raise
        finally:
            os.close(writer)
        self.pid = self._popen.pid

    def poll(self) -> tuple[int | None, bool]:
        """Returns the exit code, None if the process runs, and whether it has been ready.

        One that has ended is not reaped before `clear`, so that no other group gets its number.
        """
        code = self._popen.returncode
        if code is None:
            end = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if end is not None:
                code = end.si_status if end.si_code == os.CLD_EXITED else -end.si_status
            if not self._is_ready:
                with contextlib.suppress(BlockingIOError):
                    self._is_ready = bool(os.read(self._reader, 1))
        return code, self._is_ready

    def signal(self, number: int) -> None:
        """Sends a signal to the process, and to those that it has started."""
        if self._popen.returncode is None:
            os.killpg(self.pid, number)

    def clear(self, seconds: float = 0.0) -> int:
        """Kills the process and what is left of its group, and reaps it; returns the exit code.

        Args:
          seconds: longest wait for what the process has started, if itself has ended.
        """
        if self._popen.returncode is None:
            deadline = time.monotonic() + seconds
            while self.poll()[0] is not None and self._has_followers():
                if time.monotonic() >= deadline:
                    break
                time.sleep(_POLL_SECONDS)
            self.signal(signal.SIGKILL)
            self._popen.wait()
            os.close(self._reader)
        return self._popen.returncode

    def _has_followers(self) -> bool:
        for name in os.listdir("/proc"):
            with contextlib.suppress(ProcessLookupError):
                if name.isdigit() and int(name) != self.pid and os.getpgid(int(name)) == self.pid:
                    return True
        return False
