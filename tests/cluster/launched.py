"""Programs that a test starts, and that do not outlive it."""

import contextlib
import pathlib
import subprocess
import sys

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
