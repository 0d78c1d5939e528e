"""Programs that a test starts, and that do not outlive it."""

import contextlib
import pathlib
import subprocess
import sys
import time

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
                [sys.executable, *map(str, arguments)], cwd=ROOT, text=True, **pipes | options
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
