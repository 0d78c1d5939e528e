"""`python campaign_driver.py FLAG ...`: binaries.campaign with a paper of `fake_program`."""

import dataclasses

import planted

from binaries import campaign
from common.experiments import execute
from common.experiments.paper import Experiment, Run, Substitute
from common.reporting.command_line import exit_with
import reproductions

SETTINGS = ("good", "better", "steady", "slow", "mortal", "held", "broken")
SMALL = dataclasses.replace(planted.SMALL, is_compact=True)
_RUNS = tuple(
    Run(planted.AGENT, setting, task, (f"--setting={setting}",))
    for setting in SETTINGS
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
    real = reproductions.paper
    reproductions.paper = lambda name: PAPER if name == "fake" else real(name)


if __name__ == "__main__":
    patch()
    exit_with(campaign.main, (campaign.UserError, OSError))
