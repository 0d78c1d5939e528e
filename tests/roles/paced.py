"""An environment for runs that wait for something: its steps take a millisecond, and little CPU.

Where it is imported into a learner's process, rows of learner.csv come every half second.
"""

import sys
import time

from reproductions.d4pg.own_environment import PointMass

if bookkeeping := sys.modules.get("common.learning.bookkeeping"):
    bookkeeping._SECONDS = 0.5


class Paced(PointMass):
    """A mass that takes its time."""

    def step(self, action):
        time.sleep(0.001)
        return super().step(action)


def make(seed):
    """Returns an environment; `--environment` names this function."""
    return Paced(seed)
