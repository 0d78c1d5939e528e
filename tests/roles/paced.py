"""An environment for runs that wait for something: its steps take a millisecond, and little CPU.

Where it is imported into a learner's process, rows of learner.csv come every half second. If
PACED_LOG names a file, each creation and each close() of an environment adds a line to it.
"""

import os
import pathlib
import sys
import time

from reproductions.d4pg.own_environment import PointMass

if bookkeeping := sys.modules.get("common.learning.bookkeeping"):
    bookkeeping._SECONDS = 0.5


class Paced(PointMass):
    """A mass that takes its time."""

    def __init__(self, seed):
        super().__init__(seed)
        _note("+1")

    def close(self):
        _note("-1")

    def step(self, action):
        time.sleep(0.001)
        return super().step(action)


def _note(change):
    if path := os.environ.get("PACED_LOG"):
        with pathlib.Path(path).open("a") as file:
            file.write(f"{os.getpid()} {change}\n")


def make(seed):
    """Returns an environment; `--environment` names this function."""
    return Paced(seed)
