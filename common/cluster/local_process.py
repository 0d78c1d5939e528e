"""Processes of roles on this machine, and the template from which a local run forks them.

The template has imported the roles' modules. The import of TensorFlow takes seconds of CPU time and
most of the memory of a small role; forks share both. A fork is safe as long as the template has a
single thread. The template checks this, since TensorFlow's first op would start others. This module
does not import TensorFlow itself, since the launcher uses it.
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
"""The template's variables: its libraries start no threads, and are quiet from their import on."""
_ASK_SECONDS = 0.001
_FORK_SECONDS = 120.0
"""Longest wait for a fork. The first fork waits for the imports, which take seconds, or a minute on
a busy machine."""
_MESSAGE_BYTES = 1 << 20
_COMMAND_BYTES = 1 << 14
"""Bytes of padding in the template's command line, which forks overwrite with their own."""


class Forked:
    """A forked process; a child of this one, as if `subprocess.Popen` had started it.

    Attributes:
      pid: its process id.
      returncode: exit code, as in `subprocess.Popen`; None before `wait`.
    """

    def __init__(self, pid: int):
        self.pid = pid
        self.returncode: int | None = None

    def wait(self) -> int:
        """Waits for the process to end, reaps it, and returns its exit code."""
        if self.returncode is None:
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.returncode


class Template:
    """The launcher's handle of the template, which ends with `close` or with the launcher."""

    def __init__(self, modules: Sequence[str]):
        """Starts the template.

        Args:
          modules: names of the modules that the template imports.

        Raises:
          OSError: the template cannot be started.
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
        """Starts `python -m ARGUMENTS` in a session of its own; it dies with this process.

        Args:
          arguments: name of the module, and its arguments.
          environment: all environment variables of the process.
          log: descriptor of the file that receives the process's output.
          ready: descriptor on which the process reports that it is ready.

        Raises:
          OSError: the template does not answer, or has ended, for example because a module cannot
            be imported.
        """
        request = json.dumps([arguments, {**environment}]).encode()
        # The process is orphaned at once, and adopted by this one, which must adopt no other.
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
        """Kills the template, from any thread; calls of `fork` fail. Forked processes continue."""
        self._popen.kill()

    def close(self) -> None:
        """Kills and reaps the template; forked processes continue."""
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
    except Exception:  # the roles meet the same error and report it
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
            requests.send(os.read(reader, 20))  # its pid, once the launcher is its parent
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
    tempfile.tempdir = None  # it may derive from the template's variables
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
    """Opens a file but no link: another user's run directory must not redirect a log."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


@dataclasses.dataclass(frozen=True)
class Process:
    """A process to start.

    Attributes:
      name: its role, for example `actor`.
      index: its index among the processes of that role.
      command: program and arguments, run without a shell.
      environment: variables in addition to the environment of the process that starts it.
      keeps_run: whether the run is over once this process has ended with exit code 0.
    """

    name: str
    index: int
    command: list[str]
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
    keeps_run: bool = False


class LocalProcess:
    """A started process, which leads a session with the processes that it starts.

    Linux kills it when the thread that started it ends.

    Attributes:
      pid: its process id.
      lost: always "", because its exit code says how it ended.
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
          process: the process to start.
          log: file to which its output is appended.
          folder: its working directory, unless it is forked; None: the current directory.
          template: the template to fork it from, for commands `python -m`; None: it is not forked.

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

        A process that has ended is not reaped before `clear`, so that no other process group can
        get its id.
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
        """Sends a signal to the process and to the processes that it has started."""
        if self._popen.returncode is None:
            os.killpg(self.pid, number)

    def clear(self, seconds: float = 0.0) -> int:
        """Kills the process and the rest of its group, and reaps it; returns the exit code.

        Args:
          seconds: longest wait for the rest of the group, if the process itself has ended.
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
