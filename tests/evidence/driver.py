"""`python driver.py RUNS SETTING ...`: an experiment of fake_program, one task, a run a setting."""

import pathlib
import sys

import planted

from common.cluster.processes import StopRequest
from common.evidence.execute import ListedRuns, Session
from common.evidence.paper import Experiment, Run
from common.evidence.plan import make_plan


def session(root, settings, stream=None):
    """The session that this program carries out."""
    runs = [Run(planted.AGENT, name, planted.TASKS[0], (f"--setting={name}",)) for name in settings]
    experiment = Experiment("figure 1", "", runs=tuple(runs))
    paper = planted.paper(experiment)
    plan = make_plan(paper, experiment, planted.SMALL, pathlib.Path(root), num_seeds=1)
    return Session([ListedRuns("", plan)], stream=stream)


if __name__ == "__main__":
    stop = StopRequest().install()
    problems = session(sys.argv[1], sys.argv[2:], sys.stdout).execute(stop)
    sys.exit(stop.exit_code or bool(problems))
