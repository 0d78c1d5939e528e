"""`python campaign_driver.py FLAG ...`: binaries.experiment with a paper of `fake_program`."""

import dataclasses
import os

import planted

from binaries import experiment
from common.evidence import execute
from common.evidence.paper import Experiment, Run, Substitute
from common.reporting.command_line import exit_with
import reproductions

SMALL = dataclasses.replace(planted.SMALL, is_compact=True)
_RUNS = tuple(
    Run(planted.AGENT, setting, task, (f"--setting={setting}",))
    for setting in planted.PLAYED
    for task in planted.TASKS
)
PAPER = dataclasses.replace(
    planted.paper(
        Experiment("figure 1", "", _RUNS, substitutes={"small": Substitute(_RUNS)}),
        Experiment("figure 2", "one that nobody has made small", _RUNS),
    ),
    scales=(SMALL,),
)


def patch():
    """Has the campaign find the paper, and lose no time."""
    execute.RETRY_SECONDS = 0.3
    os.sync = lambda: None  # which waits for all that other programs write
    real = reproductions.paper
    reproductions.paper = lambda name: PAPER if name == "fake" else real(name)


if __name__ == "__main__":
    patch()
    exit_with(experiment.main, (experiment.UserError, OSError))
