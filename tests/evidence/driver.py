"""`python driver.py fake|d4pg RUNS ...`: an experiment of a paper and a scale of its own.

fake RUNS SETTING ...: one task of fake_program. d4pg RUNS: two small runs of the real program.
"""

import pathlib
import sys

import planted

from common.cluster.processes import StopRequest
from common.evidence.execute import ListedRuns, Session
from common.evidence.paper import Change, Experiment, Run, Scale
from common.evidence.plan import make_plan
from common.reporting.budget import Budget
from reproductions.d4pg.config import AGENT

TINY = Scale(
    "tiny",
    "for a test",
    None,
    tuple(
        Change(flag)
        for flag in (
            "--learner_threads=1",
            "--evaluation_episodes=1",
            "--evaluation_seconds=1",
            "--checkpoint_seconds=0.3",
            "--config.policy_sizes=(16,16)",
            "--config.critic_sizes=(16,16)",
            "--config.batch_size=16",
            "--config.min_replay_size=200",
            "--config.samples_per_insert=0.5",  # slow enough to be cut
        )
    ),
)
D4PG = Experiment(
    "figure 0",
    "one run that is short, one to cut",
    runs=(
        Run(
            AGENT, "ddpg", "control:cartpole:balance", ("--setting=ddpg",), Budget(learner_steps=10)
        ),
        Run(
            AGENT,
            "ddpg",
            "control:cartpole:swingup",
            ("--setting=ddpg",),
            Budget(learner_steps=150),
        ),
    ),
)


def fake(settings):
    """An experiment of `fake_program`, a run a setting."""
    return Experiment(
        "figure 1",
        "",
        runs=tuple(
            Run(planted.AGENT, setting, planted.TASKS[0], (f"--setting={setting}",))
            for setting in settings
        ),
    )


def plan(kind, root, settings=()):
    """The plan that this program carries out."""
    experiment, scale = (D4PG, TINY) if kind == "d4pg" else (fake(settings), planted.SMALL)
    paper = planted.paper(experiment)
    return make_plan(paper, experiment, scale, pathlib.Path(root), num_seeds=1)


def session(kind, root, settings=(), stream=None):
    """The session that this program carries out."""
    return Session([ListedRuns("", plan(kind, root, settings))], stream=stream)


if __name__ == "__main__":
    stop = StopRequest().install()
    problems = session(sys.argv[1], sys.argv[2], sys.argv[3:], sys.stdout).execute(stop)
    sys.exit(stop.exit_code or bool(problems))
