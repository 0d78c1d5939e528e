"""Programs that a test starts, as processes or as forks, and that do not outlive it."""

import contextlib
import functools
import multiprocessing
import os
import pathlib
import runpy
import signal
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple
from unittest import mock

from common.cluster.local_process import Template
import reproductions

ROOT = pathlib.Path(__file__).parents[2]
"""Of the repository, where they run."""


@contextlib.contextmanager
def launched():
    """Yields a function that starts Python with arguments, as Popen does, its output in pipes.

    Those that still run at the end are killed.
    """
    processes = []

    def start(*arguments, **options):
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        processes.append(
            subprocess.Popen(
                [sys.executable, *map(str, arguments)],
                **{"cwd": ROOT, "text": True, **pipes, **options},
            )
        )
        return processes[-1]

    try:
        yield start
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def wait_for(condition, seconds=60.0):
    """Returns when a condition holds; AssertionError after so many seconds, on a busy machine."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_alive(pid):
    """Whether a process runs; a zombie does not."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


# Forks of a process that has imported all but TensorFlow, whose import would end them.

_LIGHT = [
    *("numpy", "pandas", "dm_control.suite", "gymnasium", "common.program.main"),
    *("common.environments", "common.reporting.progress"),
    *(name.partition(":")[0] for name in reproductions.AGENTS.values()),
]


class Ended(NamedTuple):
    """The exit code of a program, and what it wrote to both streams."""

    returncode: int
    output: str


@functools.cache
def _light_template():
    folder = tempfile.TemporaryDirectory(prefix="no_tensorflow_")
    path = pathlib.Path(folder.name, "tensorflow.py")
    path.write_text("raise SystemExit('TensorFlow was imported')\n")
    with _environment({"PYTHONPATH": folder.name}), contextlib.chdir(ROOT):
        return Template(_LIGHT), folder


def run_light(module, arguments, **variables):
    """Runs `python -m MODULE ARGUMENTS` with these environment variables, without TensorFlow."""
    template, _ = _light_template()
    with tempfile.TemporaryFile() as log, open(os.devnull, "wb") as ready:
        command = [module, *map(str, arguments)]
        fork = template.fork(command, variables, log.fileno(), ready.fileno())
        code = fork.wait()
        log.seek(0)
        return Ended(code, log.read().decode())


# Forks of a process that has imported TensorFlow: up in half a second, not in five.

_PRELOADED = [
    "tensorflow",
    "sonnet",
    "dm_env",
    "common.roles.actors",
    "common.roles.evaluator",
    "common.roles.keeper",
    "common.roles.replay",
]
_SERVER = {"OPENBLAS_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
"""Of the process that is forked: no thread, which a fork would lose, and no words of its import."""


class Program:
    """A program that was started.

    Attributes:
      log: path of the file with its output.
    """

    def __init__(self, log, module, arguments, variables):
        self.log = log
        arguments = [str(argument) for argument in arguments]
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(_PRELOADED)  # matters before the first fork only
        self._process = context.Process(target=_become, args=(log, module, arguments, variables))
        with _environment(_SERVER):
            self._process.start()

    @property
    def output(self):
        """The text that it has written so far, to both streams."""
        return self.log.read_text() if self.log.exists() else ""

    def wait(self, seconds):
        """Returns the exit code; AssertionError if it runs for longer."""
        self._process.join(seconds)
        assert self._process.exitcode is not None, (
            f"{self.log.stem} runs on:\n{self.output[-2000:]}"
        )
        return self._process.exitcode

    @property
    def runs(self):
        """Whether it has not ended."""
        return self._process.exitcode is None

    def stop(self, number=signal.SIGTERM):
        """Sends a signal."""
        os.kill(self._process.pid, number)


@contextlib.contextmanager
def forked():
    """Yields a function that starts programs: `start(log, module, *arguments, **variables)`.

    A fork is what `python -m` would be, but for the import and for XLA, which compiles for longer
    than these runs take. Rows of learner.csv, for which tests wait, come every half second, and a
    role waits for another process that keeps the run for three seconds only. It reads flags and
    variables anew, and has run no op of TensorFlow. Use it for roles that a test starts by hand.

    Those that still run at the end are killed.
    """
    started = []

    def start(log, module, *arguments, **variables):
        started.append(Program(pathlib.Path(log), module, arguments, variables))
        return started[-1]

    try:
        yield start
    finally:
        for program in started:
            if program.runs:
                program.stop(signal.SIGKILL)
                program.wait(30)


def run_code(folder, code, *arguments):
    """Runs code in such a fork; its file and its output are in the folder."""
    (folder / "code_of_a_test.py").write_text(code)
    with forked() as start:
        log, variables = folder / "code_of_a_test.log", {"PYTHONPATH": str(folder)}
        program = start(log, "code_of_a_test", *arguments, **variables)
        return Ended(program.wait(600), program.output)


@contextlib.contextmanager
def _environment(variables):
    former = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in former.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _uncompiled(function, *arguments, jit_compile=None, **options):
    return function(*arguments, **options)


def _become(log, module, arguments, variables):
    import tensorflow as tf

    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.chdir(ROOT)
    os.environ.update(variables)
    for path in reversed(variables.get("PYTHONPATH", "").split(os.pathsep)):
        sys.path.insert(0, path)
    sys.argv[1:] = arguments
    sys.orig_argv = [sys.executable, "-m", module, *arguments]
    with (
        mock.patch("common.learning.bookkeeping._SECONDS", 0.5),
        mock.patch("common.program.task._LOCK_SECONDS", 3.0),
        mock.patch("tensorflow.function", functools.partial(_uncompiled, tf.function)),
    ):
        runpy.run_module(module, run_name="__main__", alter_sys=True)
