"""Processes of roles on this machine, and the template from which those of a local run are forked.

The template has imported the roles' modules. The import of TensorFlow takes seconds of CPU time and
most of the memory of a small role; forks share both. A fork is safe as long as the template has one
thread, which it checks: the first op of TensorFlow would start others. This module does not import
TensorFlow itself, since the launcher uses it.
"""

from collections.abc import Mapping, Sequence
import contextlib
import dataclasses
import functools
import gc
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import time
from typing import NoReturn

from common.cluster.processes import (
    READY_VARIABLE,
    import_module,
    set_child_subreaper,
    set_parent_death_signal,
    show_command,
    thread_environment,
)

_VARIABLES = {**thread_environment(1), "TF_CPP_MIN_LOG_LEVEL": "2"}
"""The template's variables: a fork has one thread alone, and output cannot be taken back."""
_ASK_SECONDS = 0.001
_FORK_SECONDS = 120.0
"""Longest wait for a fork. The first one waits for the imports, which take seconds, or a minute on
a busy machine."""
_MESSAGE_BYTES = 1 << 20
_COMMAND_BYTES = 1 << 14
"""Room for the command lines of forks, which Linux keeps in the place of the template's."""


class Forked:
    """A forked process; a child of this one, as if `subprocess.Popen` had started it.

    Attributes:
      pid: its process id.
      returncode: as of `subprocess.Popen`; None before `wait`.
    """

    def __init__(self, pid: int):
        self.pid = pid
        self.returncode: int | None = None

    def wait(self) -> int:
        """Waits for its end and reaps it; returns the exit code."""
        if self.returncode is None:
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.returncode


class Template:
    """The template, seen from the launcher. It ends with `close`, or with the launcher."""

    def __init__(self, modules: Sequence[str]):
        """Starts the template.

        Args:
          modules: to import.

        Raises:
          OSError: it cannot be started.
        """
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(_FORK_SECONDS)
        with theirs:
            self._popen = subprocess.Popen(
                [sys.executable, "-m", __name__, str(os.getpid()), *modules, " " * _COMMAND_BYTES],
                env={**os.environ, **_VARIABLES},
                stdin=theirs,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                preexec_fn=functools.partial(set_parent_death_signal, os.getpid()),
            )

    def fork(
        self, arguments: Sequence[str], environment: Mapping[str, str], log: int, ready: int
    ) -> Forked:
        """Starts `python -m ARGUMENTS` in a session of its own, which dies with this process.

        Args:
          arguments: name of the module, and its arguments.
          environment: all variables of the process.
          log: descriptor of the file that gets its output.
          ready: descriptor on which it reports that it is ready.

        Raises:
          OSError: the template has ended, for example since a module cannot be imported, or does
            not answer.
        """
        request = json.dumps([arguments, {**environment}]).encode()
        # The process is an orphan at once, and this process adopts it. Other orphans are not ours.
        set_child_subreaper(True)
        try:
            socket.send_fds(self._socket, [request], [log, ready])
            reply = self._socket.recv(_MESSAGE_BYTES)
        finally:
            set_child_subreaper(False)
        if not reply:
            raise ConnectionResetError("the template has ended")
        return Forked(int(reply))

    def kill(self) -> None:
        """Ends the template, from any thread; a call of `fork` fails. What it started goes on."""
        self._popen.kill()

    def close(self) -> None:
        """Ends the template for good; what it started goes on."""
        self._socket.close()
        self.kill()
        self._popen.wait()


def _serve(launcher: int, modules: Sequence[str]) -> None:
    """Forks a process for each request, until the launcher closes the socket."""
    try:
        for name in modules:
            import_module(name)
        gc.freeze()  # a collection would write to all pages that forks share
        is_safe = len(os.listdir("/proc/self/task")) == 1
    except Exception:  # the roles meet it, too, and say so
        is_safe = False
    if not is_safe:
        os._exit(1)  # without waiting for the other threads
    with socket.socket(fileno=os.dup(0)) as requests:
        while True:
            message, descriptors, _, _ = socket.recv_fds(requests, _MESSAGE_BYTES, 2)
            if not message:
                return
            arguments, environment = json.loads(message)
            reader, writer = os.pipe()
            child = os.fork()
            if not child:
                parent = os.getpid()
                if os.fork():
                    os._exit(0)
                requests.close()
                os.close(reader)
                os.setsid()
                while os.getppid() == parent:
                    time.sleep(_ASK_SECONDS)
                set_parent_death_signal(launcher)
                os.write(writer, b"%d" % os.getpid())
                os.close(writer)
                _become(arguments, environment, *descriptors)
            os.close(writer)
            os.waitpid(child, 0)
            requests.send(os.read(reader, 20))  # its number, once the launcher is its parent
            for descriptor in (reader, *descriptors):
                os.close(descriptor)


def _become(arguments: list[str], environment: dict[str, str], log: int, ready: int) -> NoReturn:
    """Turns this process into `python -m ARGUMENTS`."""
    os.set_inheritable(ready, False)
    null = os.open(os.devnull, os.O_RDONLY)
    for number, descriptor in enumerate((null, log, log)):
        os.dup2(descriptor, number)
    os.close(null)
    os.close(log)
    os.environ.clear()
    os.environ.update(environment | {READY_VARIABLE: str(ready)})
    tempfile.tempdir = None  # by the variables of the template
    sys.argv[1:] = arguments[1:]
    sys.orig_argv = [sys.executable, "-m", *arguments]
    show_command(sys.orig_argv)
    runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    sys.exit()


if __name__ == "__main__":
    show_command(sys.orig_argv[:-1])
    _serve(int(sys.argv[1]), sys.argv[2:-1])


_POLL_SECONDS = 0.05


def _open_no_link(path: str, flags: int) -> int:
    """Opens a file but no link: a run directory of somebody else cannot choose what grows."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


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
            with open(log, "ab", opener=_open_no_link) as file:
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
